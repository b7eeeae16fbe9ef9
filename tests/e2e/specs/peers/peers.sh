#!/bin/bash
# The first node listens, the others say who they are; then all do what FAULT says.
set -eu
host=${JAX_COORDINATOR_ADDRESS%:*}
port=${JAX_COORDINATOR_ADDRESS##*:}
if [ "$FAULT" = early ]; then
  for line in {1..500}; do echo "line $line"; done # more than a termination message has room for
  exit 3
fi
me="node $JAX_PROCESS_ID of $JAX_NUM_PROCESSES on $(hostname) as $(id -u)"
if [ "$JAX_PROCESS_ID" = 0 ]; then
  echo "$me"
  # shellcheck disable=SC2016 # the variables are perl's
  perl -MIO::Socket::INET -e '
    my $socket = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 5, ReuseAddr => 1) or die "cannot listen: $!";
    for (2 .. $ARGV[1]) { my $peer = $socket->accept; print "heard ", scalar <$peer>; }
  ' "$port" "$JAX_NUM_PROCESSES"
else
  until { exec 3<>"/dev/tcp/$host/$port"; } 2>/dev/null; do sleep 0.2; done
  echo "$me"
  echo "$me" >&3
fi
echo "step 1"
case $FAULT in
  sleep) trap 'exit 143' TERM; sleep 300 & wait ;;
  wait) trap 'exit 143' TERM; until [ -e "$HOME/enough" ]; do sleep 0.3 & wait $!; done ;;
  exit | killed | once)
    if [ "$FAULT" = once ] && [ -e "$OUTPUT_DIR/seen" ]; then
      echo "goes on"
    elif [ "$JAX_PROCESS_ID" = 1 ]; then
      touch "$OUTPUT_DIR/seen"
      echo "step 2: no such data" >&2
      [ "$FAULT" != killed ] || exit 137
      exit 3
    else
      trap 'sleep 8; exit 143' TERM # as a program that saves what it has: a look of somebody's still finds it
      sleep 300 & wait
    fi ;;
esac
echo "done"
