# Renders the corpus with Ruby's own ERB, for the differential test: reads cases as JSON from standard input,
# writes one result for each. The evaluation context below reimplements that of the bosh CLI. It is not the context of
# src/erb/driver.rb, because that file is tested itself, and its mistakes must not be expected here.
require "erb"
require "json"
require "yaml"

# Members by name; nil for missing ones.
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
    def initialize(names)
      super("Can't find property '#{names.join("', or '")}'")
    end
  end

  # The result of `if_p`. Its `else` runs if a property was missing.
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
    given = spec["job_properties"] || merge(spec["global_properties"], spec["cluster_properties"])
    @raw_properties = {}
    spec["default_properties"].each { |name, default| declare(given, name.split("."), default) }
    @properties = PropertyStruct.of(@raw_properties)
    @spec = PropertyStruct.of(spec)
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

# A string or number is dumped as Ruby writes it.
class << JSON
  alias plain_dump dump

  def dump(value, *rest)
    value.is_a?(String) || value.is_a?(Numeric) ? value.inspect : plain_dump(value, *rest)
  end
end

def render(source, context)
  erb = ERB.new(source, trim_mode: "-")
  erb.filename = "template"
  # The output is in base64, because it may not be text.
  { "output" => [erb.result(TemplateEvaluationContext.new(context).scope)].pack("m0") }
rescue Exception => e # rubocop:disable Lint/RescueException
  { "error" => "#{e.class}: #{e.message}".b.force_encoding(Encoding::UTF_8).scrub }
end

# Each template is rendered in a separate child process, because it may add methods to Ruby's classes.
def isolated
  reader, writer = IO.pipe
  child = fork do
    reader.close
    $stdout.reopen(File::NULL)
    $stderr.reopen(File::NULL)
    writer.write(JSON.generate(yield))
    writer.close
    exit!(true)
  end
  writer.close
  result = reader.read
  Process.wait(child)
  raise "a child ended without an answer: #{$?}" if result.empty?

  JSON.parse(result)
end

cases = JSON.parse($stdin.read)
results = cases.map { |item| isolated { render(item["source"], item["context"]) } }
puts JSON.generate(results)
