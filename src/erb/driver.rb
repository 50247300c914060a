# Renders templates with Ruby's own ERB. The first line on standard output is Ruby's version. Then each line
# on standard input is a request, and each line on standard output is its answer, both in JSON.
require "erb"
require "json"
require "yaml"

# An object whose members are called like methods. A missing member is nil.
class PropertyStruct
  def initialize(members)
    @members = members.to_h { |name, value| [name.to_sym, PropertyStruct.of(value)] }
  end

  def self.of(value)
    case value
    when Hash then new(value)
    when Array then value.map { |item| of(item) }
    else value
    end
  end

  def method_missing(name, *values)
    return @members[name] unless name.end_with?("=")

    @members[name.to_s.chomp("=").to_sym] = PropertyStruct.of(values.first)
  end

  def respond_to_missing?(name, _private = false)
    name.end_with?("=") || @members.key?(name)
  end
end

class TemplateEvaluationContext
  class UnknownProperty < StandardError
    attr_reader :names

    def initialize(names)
      @names = names
      super("Can't find property '#{names.join("', or '")}'")
    end
  end

  # The result of `if_p` when a property is missing: its `else` runs.
  class ActiveElseBlock
    def initialize(context)
      @context = context
    end

    def else
      yield
    end

    def else_if_p(*names, &block)
      @context.if_p(*names, &block)
    end
  end

  # The result of `if_p` when no property is missing: its `else` does not run.
  class InactiveElseBlock
    def else; end

    def else_if_p(*_names)
      self
    end
  end

  attr_reader :name, :index, :spec, :properties, :raw_properties

  def initialize(spec)
    @name = spec.dig("job", "name")
    @index = spec["index"]
    given = spec["job_properties"] || merge(spec["global_properties"] || {}, spec["cluster_properties"] || {})
    @raw_properties = {}
    (spec["default_properties"] || {}).each { |name, default| declare(given, name.split("."), default) }
    @properties = PropertyStruct.of(@raw_properties)
    @spec = PropertyStruct.of(spec)
  end

  # Ruby shows the receiver of a failed call in its errors. The properties may be secret, so they are left
  # out.
  def inspect
    "#<TemplateEvaluationContext>"
  end

  def p(names, *default)
    found = Array(names).lazy.map { |name| look_up(name) }.find { |value| !value.nil? }
    return found unless found.nil?
    return default.first unless default.empty?

    raise UnknownProperty, Array(names)
  end

  def if_p(*names)
    values = names.map { |name| look_up(name) }
    return ActiveElseBlock.new(self) if values.any?(&:nil?)

    yield(*values)
    InactiveElseBlock.new
  end

  def if_link(_name)
    false
  end

  def scope
    binding
  end

  private

  def merge(left, right)
    left.merge!(right) { |_, old, new| old.is_a?(Hash) && new.is_a?(Hash) ? merge(old, new) : new }
  end

  def declare(given, keys, default)
    *groups, last = keys
    value = keys.reduce(given) { |at, key| at.nil? ? nil : at[key] }
    groups.reduce(@raw_properties) { |at, key| at[key] ||= {} }[last] = value.nil? ? default : value
  end

  def look_up(name)
    name.split(".").reduce(@raw_properties) { |at, key| at.nil? ? nil : at[key] }
  end
end

# `JSON.dump` writes a string or number as `inspect` does.
class << JSON
  alias plain_dump dump

  def dump(value, *rest)
    value.is_a?(String) || value.is_a?(Numeric) ? value.inspect : plain_dump(value, *rest)
  end
end

def failure(error)
  message = error.message.dup.force_encoding(Encoding::UTF_8).scrub
  place = ([message] + error.backtrace.to_a).grep(/\A\(template\):\d+/).first
  answer = { "class" => error.class.name, "message" => message, "line" => place && place[/\d+/].to_i }
  error.is_a?(TemplateEvaluationContext::UnknownProperty) ? answer.merge("property" => error.names.first) : answer
end

def render(source, context)
  erb = ERB.new(source, trim_mode: "-")
  erb.filename = "(template)"
  # The output may be binary, so it is sent in base64.
  { "output" => [erb.result(TemplateEvaluationContext.new(context).scope)].pack("m0") }
rescue Exception => e # rubocop:disable Lint/RescueException
  failure(e)
end

# Runs the block in a child process, because a template may change Ruby's classes. The answer is empty if the
# child ends without one.
def isolated
  reader, writer = IO.pipe
  child = fork do
    reader.close
    writer.write(JSON.generate(yield))
    writer.close
    exit!(true)
  end
  writer.close
  result = reader.read
  Process.wait(child)
  result.empty? ? "{}" : result
end

# The output that templates print is discarded, so that it does not mix with the answers. Templates have no
# input.
answers = $stdout.dup
answers.sync = true
$stdout.reopen(File::NULL)
input = $stdin.dup
$stdin.reopen(File::NULL)

# The end of the input ends this process, and a child that still renders: the caller is gone, or no longer waits
# for the answer. The caller made this process the leader of a process group.
requests = Queue.new
Thread.new do
  input.each_line { |line| requests << line }
ensure
  Process.kill(:KILL, -Process.pid)
end

answers.puts(RUBY_VERSION)
while (line = requests.pop)
  answers.puts(isolated do
    request = JSON.parse(line)
    render(request["source"], request["context"])
  end)
end
