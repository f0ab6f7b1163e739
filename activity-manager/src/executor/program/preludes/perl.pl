# Runs the Perl code of an activity. Its parameters are variables; the variables of its OUT parameters are its results.
package XavantesShared;
our $AUTOLOAD;

# A shared object: its methods are those that it has in Lua.
sub AUTOLOAD {
    my ($self, @arguments) = @_;
    my $method = $AUTOLOAD =~ s/.*:://r;
    return if $method eq 'DESTROY';
    my $call = { object => $$self, method => $method, arguments => [map { XavantesPrelude::encode($_) } @arguments] };
    my $answer = XavantesPrelude::ask($call);
    if (defined $answer->{error}) {
        require Carp;
        Carp::croak($answer->{error});
    }
    return XavantesPrelude::decode($answer->{value});
}

package XavantesPrelude;
use JSON::PP ();

our ($socket, $connected, %found, $process, $folder, $json);
# The code of the activity may need its variables while it is compiled.
BEGIN { ($process, $folder, $json) = ($$, $ENV{XAVANTES_DIRECTORY}, JSON::PP->new->utf8->allow_nonref) }

sub ask {
    my ($call) = @_;
    if (($connected // 0) != $$) {
        require IO::Socket::UNIX;
        $socket = IO::Socket::UNIX->new($ENV{XAVANTES_SHARED}) or die "cannot reach the worker: $!";
        $connected = $$;
    }
    local ($\, $,) = (undef, undef);
    local $/ = "\n";
    print {$socket} $json->encode($call) . "\n";
    $socket->flush;
    my $line = readline($socket) // die "the worker closed the connection for shared objects";
    return $json->decode($line);
}

sub decode {
    my ($value) = @_;
    return [map { decode($_) } @$value] if ref $value eq 'ARRAY';
    return $value ? 1 : 0 if JSON::PP::is_bool($value);
    return $value unless ref $value eq 'HASH';
    my ($key, $inner) = %$value;
    if (keys %$value == 1) {
        return $inner + 0 if $key eq '$int' || $key eq '$float';
        return pack('H*', $inner) if $key eq '$bytes';
        return bless \(my $number = $inner->{object}), 'XavantesShared' if $key eq '$shared';
    }
    return { map { $_ => decode($value->{$_}) } keys %$value };
}

sub number {
    my ($value) = @_;
    no warnings;
    die "expected a number, got \"$value\"\n" unless $value =~ /^\s*[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|inf(?:inity)?|nan)\s*$/i;
    $value += 0;
    return { '$float' => 'NaN' } if $value != $value;
    return { '$float' => $value > 0 ? 'inf' : '-inf' } if $value * 0 != 0;
    return $value;
}

sub encode {
    my ($value, $type) = (@_, '');
    return undef unless defined $value;
    if (ref $value eq 'XavantesShared') { return { '$shared' => { object => $$value } } }
    if (ref $value eq 'ARRAY') { return [map { encode($_) } @$value] }
    if (ref $value eq 'HASH') { return { map { $_ => encode($value->{$_}) } keys %$value } }
    if (JSON::PP::is_bool($value)) { return $value }
    if (ref $value eq 'SCALAR') { return $$value ? JSON::PP::true() : JSON::PP::false() }
    die 'a Perl value of the class ' . ref($value) . " is no value of a process\n" if ref $value && $type ne 'string';
    return $value ? JSON::PP::true() : JSON::PP::false() if $type eq 'boolean';
    return number($value) if $type eq 'int' || $type eq 'float';
    return { '$bytes' => unpack('H*', $value) } if $type eq 'bytes';
    return "$value" if $type;
    # A number that is not finite is not JSON.
    no warnings;
    return $value =~ /^-?(?:inf|nan)$/i && (0 + $value) * 0 != 0 ? number($value) : $value;
}

sub begin {
    open my $file, '<:raw', "$folder/values.json" or die "values.json: $!";
    my $given = $json->decode(do { local $/; readline $file });
    my ($values, $types) = @$given{qw(values outs)};
    no strict 'refs';
    for my $name (keys %$values) {
        my $value = decode($values->{$name});
        if (ref $value eq 'ARRAY') { @{"main::$name"} = @$value }
        elsif (ref $value eq 'HASH') { %{"main::$name"} = %$value }
        else { ${"main::$name"} = $value }
    }
    for my $name (keys %$types) {
        my $type = $types->{$name};
        $found{$name} = $type eq 'list' ? \@{"main::$name"} : $type eq 'map' ? \%{"main::$name"} : \${"main::$name"};
    }
    our $outs = $types;
    $0 = "$folder/script";
}

END {
    if ($$ == $process) {
        local ($?, $@, $!);
        my (%values, %problems);
        our $outs;
        for my $name (keys %{ $outs // {} }) {
            my ($type, $value) = ($outs->{$name}, $found{$name});
            $value = $$value if $type ne 'list' && $type ne 'map';
            next unless defined $value;
            $values{$name} = eval { encode($value, $type) };
            if ($@) { delete $values{$name}; chomp($problems{$name} = "$@") }
        }
        if (open my $file, '>:raw', "$folder/assigned.json") {
            local ($\, $,) = (undef, undef);
            print $file $json->encode({ values => \%values, problems => \%problems });
        }
    }
}

package main;
BEGIN { XavantesPrelude::begin() }
