# Runs the Julia code of an activity. Its parameters are global variables; the variables of its OUT parameters are its results.
# It reads and writes JSON itself, because Julia alone cannot.
module XavantesPrelude

const folder = ENV["XAVANTES_DIRECTORY"]

"A shared object: its methods are those that it has in Lua."
struct Shared
    kind::String
    number::Int
end

Base.show(io::IO, object::Shared) = print(io, getfield(object, :kind))
Base.getproperty(object::Shared, method::Symbol) = (arguments...) -> call(object, method, arguments)

const connection = Ref{Any}(nothing)

function call(object::Shared, method::Symbol, arguments)
    if connection[] === nothing
        sockets = Base.require(Base.PkgId(Base.UUID("6462fe0b-24de-5631-8697-dd941f90decc"), "Sockets"))
        connection[] = Base.invokelatest(sockets.connect, ENV["XAVANTES_SHARED"])
    end
    number = getfield(object, :number)
    items = join((encode(argument) for argument in arguments), ",")
    line = string("{\"object\":", number, ",\"method\":", quoted(string(method)), ",\"arguments\":[", items, "]}\n")
    answer = Base.invokelatest(ask, connection[], line)
    isempty(answer) && error("the worker closed the connection for shared objects")
    answer = parse_json(answer)
    haskey(answer, "error") && error(answer["error"])
    return answer["value"]
end

ask(socket, line) = (write(socket, line); readline(socket))

# The text is the worker's own JSON, so it is right.
function parse_json(text::AbstractString)
    bytes, at = codeunits(text), Ref(1)
    skip() = while bytes[at[]] in (0x20, 0x09, 0x0a, 0x0d, UInt8(','), UInt8(':')) at[] += 1 end
    function read_text()
        out = IOBuffer()
        at[] += 1
        while bytes[at[]] != UInt8('"')
            if bytes[at[]] == UInt8('\\')
                letter = Char(bytes[at[] + 1])
                if letter == 'u'
                    print(out, Char(parse(UInt32, String(bytes[at[]+2:at[]+5]); base = 16)))
                    at[] += 6
                else
                    print(out, get(Dict('n' => '\n', 't' => '\t', 'r' => '\r', 'b' => '\b', 'f' => '\f'), letter, letter))
                    at[] += 2
                end
            else
                write(out, bytes[at[]])
                at[] += 1
            end
        end
        at[] += 1
        return String(take!(out))
    end
    function read_value()
        skip()
        first = Char(bytes[at[]])
        first == '"' && return read_text()
        if first == '['
            at[] += 1
            items = Any[]
            while (skip(); bytes[at[]] != UInt8(']'))
                push!(items, read_value())
            end
            at[] += 1
            return isempty(items) ? items : [item for item in items]
        end
        if first == '{'
            at[] += 1
            map = Dict{String,Any}()
            while (skip(); bytes[at[]] != UInt8('}'))
                key = read_text()
                map[key] = read_value()
            end
            at[] += 1
            return special(map)
        end
        last = at[]
        while last < length(bytes) && !(Char(bytes[last+1]) in ",]} \n:")
            last += 1
        end
        token = String(bytes[at[]:last])
        at[] = last + 1
        token == "null" && return nothing
        token == "true" && return true
        token == "false" && return false
        return any(in(".eE"), token) ? parse(Float64, token) : parse(Int64, token)
    end
    return read_value()
end

function special(map)
    length(map) == 1 || return map
    key, inner = first(map)
    key == "\$int" && return parse(Int64, inner)
    key == "\$float" && return parse(Float64, inner)
    key == "\$bytes" && return hex2bytes(inner)
    key == "\$shared" && return Shared(inner["kind"], inner["object"])
    return map
end

function quoted(text::AbstractString)
    isvalid(text) || error("its text is not valid UTF-8")
    out = IOBuffer()
    print(out, '"')
    for letter in text
        if letter == '"' || letter == '\\'
            print(out, '\\', letter)
        elseif letter < ' '
            print(out, "\\u", string(UInt32(letter); base = 16, pad = 4))
        else
            print(out, letter)
        end
    end
    print(out, '"')
    return String(take!(out))
end

encode(::Nothing) = "null"
encode(::Missing) = "null"
encode(value::Bool) = string(value)
encode(value::Integer) =
    typemin(Int64) <= value <= typemax(Int64) ? string(Int64(value)) : error("$value does not fit in 64 bits")
function encode(value::Real)
    number = Float64(value)
    isnan(number) && return "{\"\$float\":\"NaN\"}"
    isinf(number) && return number > 0 ? "{\"\$float\":\"inf\"}" : "{\"\$float\":\"-inf\"}"
    return string(number)
end
encode(value::AbstractString) = quoted(value)
encode(value::Union{Symbol,AbstractChar}) = quoted(string(value))
encode(value::AbstractVector{UInt8}) = string("{\"\$bytes\":\"", bytes2hex(collect(value)), "\"}")
encode(value::Union{AbstractArray,Tuple,AbstractSet,Base.Generator}) =
    string("[", join((encode(item) for item in value), ","), "]")
encode(value::Union{AbstractDict,NamedTuple}) =
    string("{", join((string(quoted(string(key)), ":", encode(item)) for (key, item) in pairs(value)), ","), "}")
encode(value::Shared) = string("{\"\$shared\":{\"object\":", getfield(value, :number), "}}")
encode(value) = error("a Julia value of the type $(typeof(value)) is no value of a process")

function write_results(outs)
    values, problems = String[], String[]
    for name in keys(outs)
        isdefined(Main, Symbol(name)) || continue
        try
            push!(values, string(quoted(name), ":", encode(getfield(Main, Symbol(name)))))
        catch problem
            push!(problems, string(quoted(name), ":", quoted(sprint(showerror, problem))))
        end
    end
    text = string("{\"values\":{", join(values, ","), "},\"problems\":{", join(problems, ","), "}}")
    write(joinpath(folder, "assigned.json"), text)
end

const given = parse_json(read(joinpath(folder, "values.json"), String))
for (name, value) in given["values"]
    Core.eval(Main, Expr(:(=), Symbol(name), QuoteNode(value)))
end
atexit(() -> Base.invokelatest(write_results, given["outs"]))

end

Base.include(Main, joinpath(ENV["XAVANTES_DIRECTORY"], "script"))
