#!/usr/bin/perl
# Health check without shell or curl: asks the relay's admin address and exits 0 for status 200, else 1 with a reason.
# Usage: probe.pl [PATH [HOST:PORT]], by default /live at 127.0.0.1:8000. Needs nothing beyond perl-base.
use strict;
use warnings;
use IO::Socket::INET;

my ($path, $address) = (shift // '/live', shift // '127.0.0.1:8000');

sub unhealthy { print "$address$path: $_[0]\n"; exit 1; }

local $SIG{ALRM} = sub { unhealthy('no answer within 2 s') };
alarm 2;
my $socket = IO::Socket::INET->new(PeerAddr => $address, Proto => 'tcp')
    or unhealthy("no connection ($!)");
print {$socket} "GET $path HTTP/1.0\r\nHost: localhost\r\n\r\n";
my $answer = do { local $/; <$socket> } // '';
my ($head, $body) = split /\r\n\r\n/, $answer, 2;
unhealthy($body || 'an empty answer') unless ($head // '') =~ m{\AHTTP/1\.[01] 200 };
exit 0;
