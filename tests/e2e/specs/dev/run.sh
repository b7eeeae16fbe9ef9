#!/bin/bash
# Node 0 waits for node 1, and both print what is in steps/line.txt; then they work until they are stopped.
set -eu
host=${JAX_COORDINATOR_ADDRESS%:*}
port=${JAX_COORDINATOR_ADDRESS##*:}
line=$(cat "${0%/*}/steps/line.txt")
if [ "$JAX_PROCESS_ID" = 0 ]; then
  perl -MIO::Socket::INET -e '
    my $socket = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 5, ReuseAddr => 1) or die "cannot listen: $!";
    my $peer = $socket->accept; print "heard ", scalar <$peer>;
  ' "$port"
else
  until { exec 3<>"/dev/tcp/$host/$port"; } 2>/dev/null; do sleep 0.1; done
  echo "$line" >&3
fi
echo "node $JAX_PROCESS_ID: $line"
[ "$line" != end ] || exit 3
trap 'exit 143' TERM
sleep 300 &
wait
