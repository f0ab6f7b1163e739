# Runs the Perl code of an activity. Its parameters are variables; the variables of its OUT parameters are its results.
package XavantesShared;
our $AUTOLOAD;

# A shared object: its methods are those that it has in Lua.
sub AUTOLOAD {
    my ($self, @arguments) = @_;
    my $method = $AUTOLOAD =~ s/.*:://r;
    return if $method eq 'DESTROY';
    my $call = join ',', map { XavantesPrelude::encode($_) } @arguments;
    my $answer = XavantesPrelude::ask(qq({"object":$$self,"method":"$method","arguments":[$call]}));
    if (defined $answer->{error}) {
        require Carp;
        Carp::croak(XavantesPrelude::decode($answer->{error}));
    }
    return XavantesPrelude::decode($answer->{value});
}

package XavantesPrelude;
use B ();
use JSON::PP ();

# $characters: texts are characters. Otherwise they are UTF-8, as in files and in the code itself.
our ($socket, $connected, %found, %initial, $process, $folder, $json, $characters);
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
    print {$socket} "$call\n";
    $socket->flush;
    my $line = readline($socket) // die "the worker closed the connection for shared objects";
    return $json->decode($line);
}

# Truth values in lists and maps are objects that are 1 or 0, so that they stay truth values.
sub decode {
    my ($value) = @_;
    return [map { JSON::PP::is_bool($_) ? $_ : decode($_) } @$value] if ref $value eq 'ARRAY';
    return $value ? 1 : 0 if JSON::PP::is_bool($value);
    if (ref $value ne 'HASH') {
        utf8::encode($value) if defined $value && !$characters && utf8::is_utf8($value);
        return $value;
    }
    my ($key, $inner) = %$value;
    if (keys %$value == 1) {
        return $inner + 0 if $key eq '$int' || $key eq '$float';
        return pack('H*', $inner) if $key eq '$bytes';
        return bless \(my $number = $inner->{object}), 'XavantesShared' if $key eq '$shared';
    }
    return { map { decode("$_") => JSON::PP::is_bool($value->{$_}) ? $value->{$_} : decode($value->{$_}) } keys %$value };
}

sub number {
    my ($value) = @_;
    no warnings;
    die "expected a number, got \"$value\"\n" unless $value =~ /^\s*[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|inf(?:inity)?|nan)\s*$/i;
    $value += 0;
    return '{"$float":"NaN"}' if $value != $value;
    return $value > 0 ? '{"$float":"inf"}' : '{"$float":"-inf"}' if $value * 0 != 0;
    return B::svref_2object(\$value)->FLAGS & B::SVf_IOK ? "$value" : sprintf '%.17g', $value;
}

# The code used the value as a number, not as a text, when it made it.
sub is_number {
    no warnings;
    return builtin::created_as_number($_[0]) if $] >= 5.036;
    my $flags = B::svref_2object(\$_[0])->FLAGS;
    return $flags & (B::SVp_IOK | B::SVp_NOK) && !($flags & B::SVp_POK);
}

sub is_truth {
    no warnings;
    return JSON::PP::is_bool($_[0]) || $] >= 5.036 && builtin::is_bool($_[0]);
}

# The characters of a text. Nothing if it is no text. Single bytes may be characters where the code says so.
sub characters {
    my ($text, $single) = (@_, $characters);
    utf8::is_utf8($text) || utf8::decode($text) || $single or return undef;
    return $text =~ /[\x{D800}-\x{DFFF}]|[^\x{0}-\x{10FFFF}]/ ? undef : $text;
}

sub quoted {
    my ($text) = characters($_[0]) // die "its text is not valid UTF-8\n";
    $text =~ s/(["\\\x00-\x1f])/sprintf '\\u%04x', ord $1/ge;
    utf8::encode($text);
    return "\"$text\"";
}

sub truth { return $_[0] ? 'true' : 'false' }

# The value as JSON in UTF-8.
sub encode {
    my ($value, $type) = (@_, '');
    return 'null' unless defined $value;
    if (ref $value eq 'XavantesShared') { return "{\"\$shared\":{\"object\":$$value}}" }
    if (ref $value eq 'ARRAY') { return '[' . join(',', map { encode($_) } @$value) . ']' }
    if (ref $value eq 'HASH') { return '{' . join(',', map { quoted($_) . ':' . encode($value->{$_}) } keys %$value) . '}' }
    return truth($value) if JSON::PP::is_bool($value);
    return truth($$value) if ref $value eq 'SCALAR';
    die 'a Perl value of the class ' . ref($value) . " is no value of a process\n" if ref $value && $type ne 'string';
    return truth($value) if $type eq 'boolean';
    return number($value) if $type eq 'int' || $type eq 'float';
    my $bytes = "$value";
    utf8::encode($bytes) if utf8::is_utf8($bytes) && !utf8::downgrade($bytes, 1);
    return '{"$bytes":"' . unpack('H*', $bytes) . '"}' if $type eq 'bytes';
    return quoted("$value") if $type;
    return truth($value) if is_truth($value);
    return number($value) if is_number($value);
    return defined characters($value, 0) ? quoted($value) : '{"$bytes":"' . unpack('H*', $bytes) . '"}';
}

# The variable of a result as JSON.
sub encode_found {
    my ($name, $type) = @_;
    return encode($type eq 'list' || $type eq 'map' ? $found{$name} : ${ $found{$name} }, $type);
}

sub begin {
    ($characters) = @_;
    if ($characters) { binmode $_, ':utf8' for *STDOUT, *STDERR }
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
    # A parameter that the code does not change keeps its value.
    for my $name (grep { exists $types->{$_} } keys %$values) { $initial{$name} = eval { encode_found($name, $types->{$name}) } }
    our $outs = $types;
    $0 = "$folder/script";
}

END {
    if ($$ == $process) {
        local ($?, $@, $!);
        my (%values, %problems);
        our $outs;
        find() if defined &find;
        for my $name (keys %{ $outs // {} }) {
            my $value = eval { encode_found($name, $outs->{$name}) };
            next if !$@ && ($value eq 'null' || $value eq ($initial{$name} // ''));
            $values{$name} = $value;
            if ($@) { delete $values{$name}; chomp(my $why = "$@"); $problems{$name} = quoted(characters($why) // 'it is no text') }
        }
        if (open my $file, '>:raw', "$folder/assigned.json") {
            local ($\, $,) = (undef, undef);
            my ($values, $problems) = map { my $all = $_; join ',', map { "\"$_\":$all->{$_}" } keys %$all } \%values, \%problems;
            print $file "{\"values\":{$values},\"problems\":{$problems}}";
        }
    }
}

package main;
