#!/bin/sh
# Perl under the malloc: hashes that grow and shrink, sorts, strings that grow, and a child by fork.
set -eu

cat >program.pl <<'END'
use strict;
use warnings;
my (%words, $text);
for my $n (1 .. 200000) {
    my $key = "key " . ($n * 7919 % 20011);
    push @{$words{$key}}, $n;
    delete $words{"key " . ($n * 31 % 20011)} if $n % 3 == 0;
}
my @sorted = sort { @{$words{$b}} <=> @{$words{$a}} || $a cmp $b } keys %words;
print scalar(@sorted), " @sorted[0 .. 9]\n";
$text .= chr(97 + $_ % 26) x ($_ % 50) for 1 .. 40000;
my $count = () = $text =~ /abc+d?/g;
print length($text), " $count\n";
print join(",", map { sprintf "%.3f", $_ } (sort { $a <=> $b } map { sin($_) } 1 .. 50000)[0 .. 4]), "\n";
$| = 1;
my $child = fork();
if (!$child) { my @all = map { [$_] } 1 .. 10000; print scalar(@all), " in the child\n"; exit 3; }
waitpid($child, 0);
print $? >> 8, "\n";
END
perl program.pl
