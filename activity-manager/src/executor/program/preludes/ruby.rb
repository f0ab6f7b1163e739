# Runs the Ruby code of an activity. Its parameters are local variables; the variables of its OUT parameters are its results.
require "json"

# A shared object: its methods are those that it has in Lua.
class XavantesShared
  attr_reader :xavantes_number

  def initialize(kind, number)
    @kind, @xavantes_number = kind, number
  end

  def inspect = @kind
  alias to_s inspect

  # Ruby itself asks for conversions such as to_ary, for example in puts.
  def respond_to_missing?(method, *) = !method.start_with?("to_")

  def method_missing(method, *arguments)
    return super if method.start_with?("to_")
    call = { object: @xavantes_number, method: method, arguments: arguments.map { |it| XavantesPrelude.encode(it) } }
    answer = XavantesPrelude.ask(JSON.generate(call))
    raise answer["error"] if answer.key?("error")
    XavantesPrelude.decode(answer["value"])
  end
end

module XavantesPrelude
  FOLDER, PROCESS = ENV["XAVANTES_DIRECTORY"], Process.pid
  SCRIPT, TURN = File.join(FOLDER, "script"), Mutex.new

  def self.ask(line)
    TURN.synchronize do
      if @process != Process.pid
        require "socket"
        @process, @socket = Process.pid, UNIXSocket.new(ENV["XAVANTES_SHARED"])
      end
      @socket.write(line, "\n")
      JSON.parse(@socket.gets || raise("the worker closed the connection for shared objects"))
    end
  end

  def self.decode(value)
    case value
    when Array then value.map { |item| decode(item) }
    when Hash
      key, inner = value.first
      if value.size == 1
        case key
        when "$int" then return inner.to_i
        when "$float" then return { "NaN" => Float::NAN, "inf" => Float::INFINITY, "-inf" => -Float::INFINITY }[inner]
        when "$bytes" then return [inner].pack("H*")
        when "$shared" then return XavantesShared.new(inner["kind"], inner["object"])
        end
      end
      value.transform_values { |item| decode(item) }
    else value
    end
  end

  def self.encode(value)
    case value
    when nil, true, false then value
    when XavantesShared then { "$shared" => { "object" => value.xavantes_number } }
    when Integer
      raise "#{value} does not fit in 64 bits" unless value.between?(-(2**63), 2**63 - 1)
      value
    when Float then value.finite? ? value : { "$float" => value.nan? ? "NaN" : value.positive? ? "inf" : "-inf" }
    when Numeric then value.to_f
    when Symbol then value.to_s
    when String
      return { "$bytes" => value.unpack1("H*") } if value.encoding == Encoding::BINARY
      raise "its text is not valid #{value.encoding}" unless value.valid_encoding?
      value.encode("UTF-8")
    when Hash, Struct then value.to_h.to_h { |key, item| [key.to_s, encode(item)] }
    when Array, Range, Enumerator then value.map { |item| encode(item) }
    else
      return value.map { |item| encode(item) } if defined?(Set) && value.is_a?(Set)
      return encode(value.to_hash) if value.respond_to?(:to_hash)
      return encode(value.to_ary) if value.respond_to?(:to_ary)
      return value.to_path if value.respond_to?(:to_path)
      raise "a Ruby value of the class #{value.class} is no value of a process"
    end
  end

  def self.write(scope, outs)
    return if Process.pid != PROCESS
    values, problems = {}, {}
    outs.each_key do |name|
      next unless scope.local_variable_defined?(name)
      value = scope.local_variable_get(name)
      # The parser defines a variable where it reads an assignment, even if that never happens.
      values[name] = encode(value) unless value.nil?
    rescue StandardError => problem
      problems[name] = problem.message
    end
    File.write(File.join(FOLDER, "assigned.json"), JSON.generate({ values: values, problems: problems }))
  end

  def self.run(scope)
    given = JSON.parse(File.read(File.join(FOLDER, "values.json"), encoding: "UTF-8"))
    given["values"].each { |name, value| scope.local_variable_set(name, decode(value)) }
    $0 = SCRIPT
    begin
      scope.eval(File.read(SCRIPT, encoding: "UTF-8"), SCRIPT, 1)
    ensure
      write(scope, given["outs"])
    end
  end
end

XavantesPrelude.run(TOPLEVEL_BINDING)
