#!/usr/bin/perl -w
# Answers each GET with VERSION, in several processes, until it is told to stop: then each ends with its request.
use strict;
use IO::Socket::INET;

-e $ENV{MODEL} or die "there is no model at $ENV{MODEL}\n";
my $server = IO::Socket::INET->new(LocalPort => 8080, Listen => 256, ReuseAddr => 1) or die "$@\n";
$| = 1;
print "version $ENV{VERSION} serves $ENV{MODEL}\n";

my @children;
for (1 .. 4) {
    my $child = fork // die "$!\n";
    $child ? push @children, $child : serve();
}
$SIG{TERM} = sub { kill 'TERM', @children };
1 while wait > 0;
print "stopped\n";

sub serve {
    my ($stopping, $is_busy) = (0, 0);
    $SIG{TERM} = sub { exit 0 unless $is_busy; $stopping = 1 };
    until ($stopping) {
        my $client = $server->accept or next;
        $is_busy = 1;
        while (my $line = <$client>) { last if $line !~ /\S/ }
        my $body = "$ENV{VERSION}\n";
        print $client "HTTP/1.0 200 OK\r\nContent-Length: ", length $body, "\r\n\r\n$body";
        close $client;
        $is_busy = 0;
    }
    exit 0;
}
