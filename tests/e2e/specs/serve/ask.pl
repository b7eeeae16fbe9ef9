#!/usr/bin/perl -w
# Asks ADDRESS RATE times a second, for SECONDS and until there is a file `enough` in OUTPUT_DIR, in twenty processes. It
# ends with a line of JSON: which answers came how often, and what was lost, why, and in which second of the uptime.
use strict;
use IO::Socket::INET;

my $processes = 20;
my $pause = $processes / $ENV{RATE};
my @pipes;
for my $index (0 .. $processes - 1) {
    pipe(my $reader, my $writer) or die "$!\n";
    if (fork // die "$!\n") { push @pipes, $reader; next }
    my ($begin, $sent, %count) = (now() + $index * $pause / $processes, 0);
    while ((my $due = $begin + $sent * $pause) < $begin + $ENV{SECONDS} or not -e "$ENV{OUTPUT_DIR}/enough") {
        my $early = $due - now();
        select undef, undef, undef, $early if $early > 0;
        $count{ask()}++;
        $sent++;
    }
    print $writer "$_\t$count{$_}\n" for keys %count;
    exit 0;
}
my %total;
for my $reader (@pipes) {
    while (<$reader>) { chomp; my ($key, $count) = split /\t/; $total{$key} += $count }
}
print '{', join(', ', map { qq("$_": $total{$_}) } sort keys %total), "}\n";

# Debian's perl-base has no Time::HiRes.
sub now {
    open my $file, '<', '/proc/uptime' or die "$!\n";
    return (split ' ', <$file>)[0];
}

sub lost {
    my ($why) = @_;
    return "lost: $why, at " . int now();
}

sub ask {
    my $socket = IO::Socket::INET->new(PeerAddr => $ENV{ADDRESS}, PeerPort => 8080, Timeout => 5)
        or return lost(($@ || $!) =~ s/^.*?: //r);
    local $SIG{ALRM} = sub { close $socket };
    alarm 10;
    print $socket "GET / HTTP/1.0\r\n\r\n";
    my @lines = <$socket>;
    alarm 0;
    return @lines && $lines[0] =~ / 200 / ? "version $lines[-1]" =~ s/\s+$//r : lost('no answer');
}
