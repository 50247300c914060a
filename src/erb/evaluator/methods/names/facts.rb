# Compares facts.rs with the reflection of Ruby 3.1. Prints a line for each difference that is not in the
# tables below. If the arguments are names of classes or modules, prints their facts in the form of facts.rs.
#
#     ruby src/erb/evaluator/methods/names/facts.rb [NAME …]
#
# Inherited methods are included in the comparison, because the evaluator does not care which class in the
# chain of superclasses lists a method.
unless RUBY_VERSION.start_with?("3.1.")
  warn "the facts are those of Ruby 3.1, and this is Ruby #{RUBY_VERSION}"
  exit 2
end
%w[base64 bigdecimal cgi date digest erb fileutils forwardable ipaddr json logger net/http openssl ostruct
   pathname resolv securerandom set shellwords singleton socket stringio strscan tempfile time timeout tmpdir
   uri yaml zlib].each { |library| require library }

# Classes that only the evaluator has.
OWN = %w[PropertyStruct TemplateEvaluationContext TemplateEvaluationContext::UnknownProperty
         TemplateEvaluationContext::ActiveElseBlock TemplateEvaluationContext::InactiveElseBlock].freeze
# Methods that only some patch releases of Ruby 3.1, or versions of its libraries, have. Facts may
# list them or not.
SOMETIMES = %w[Net::HTTP#ignore_eof Net::HTTP#ignore_eof= Net::HTTP#response_body_encoding
               Net::HTTP#response_body_encoding= StringIO#pread URI.decode_uri_component
               URI.encode_uri_component URI::Generic#decoded_password URI::Generic#decoded_user].freeze
# Inherited methods that a class undefines. Facts cannot express that.
TAKEN_AWAY = %w[Complex#% Complex#< Complex#<= Complex#> Complex#>= Complex#between? Complex#ceil
                Complex#clamp Complex#div Complex#divmod Complex#floor Complex#i Complex#modulo
                Complex#negative? Complex#positive? Complex#remainder Complex#round Complex#step
                Complex#truncate DateTime.today Pathname#=~].freeze
# Methods that facts.rs leaves out.
LEFT_OUT = {
  # Methods that implement the delegation.
  "Tempfile" => /\A(.*instance_methods?|const_missing|public_api|delegating_block)\z/
}.freeze
# Methods whose number of arguments is right, although Ruby does not reject other numbers, or rejects them for
# another reason.
NOT_REFUSED = {
  "Integer#define_singleton_method" => "the receiver is refused first",
  "Float#define_singleton_method" => "the receiver is refused first",
  "Symbol#define_singleton_method" => "the receiver is refused first",
  "StringIO#entries" => "arguments go on to each", "StringIO#to_a" => "arguments go on to each",
  "StringIO#to_h" => "arguments go on to each",
  "Numeric#ceil" => "a number's own class refuses", "Numeric#floor" => "a number's own class refuses",
  "Numeric#round" => "a number's own class refuses", "Numeric#truncate" => "a number's own class refuses"
}.freeze
# Libraries that change error messages, which need not be loaded.
NOT_LOADED = /\A(DidYouMean|ErrorHighlight)\b/

# For each class whose facts have numbers of arguments, creates an object on which to try methods.
OBJECTS = {
  "Array" => -> { [1, 2] }, "Class" => -> { Class.new }, "Enumerator" => -> { [1].each },
  "Exception" => -> { Exception.new("x") }, "FalseClass" => -> { false }, "Float" => -> { 1.5 },
  "Hash" => -> { { 1 => 2 } }, "IPAddr" => -> { IPAddr.new("10.0.0.1") }, "Integer" => -> { 5 },
  "KeyError" => -> { KeyError.new }, "MatchData" => -> { /a/.match("a") }, "Method" => -> { 1.method(:+) },
  "Module" => -> { Module.new }, "NilClass" => -> {}, "Numeric" => -> { Class.new(Numeric).new },
  "Object" => -> { Object.new }, "OpenSSL::X509::Certificate" => -> { OpenSSL::X509::Certificate.new },
  "OpenSSL::X509::Name" => -> { OpenSSL::X509::Name.new }, "OpenStruct" => -> { OpenStruct.new(a: 1) },
  "Proc" => -> { proc {} }, "Range" => -> { 1..3 }, "Regexp" => -> { /a/ }, "Set" => -> { Set[1] },
  "String" => -> { +"abc" }, "StringIO" => -> { StringIO.new("x") }, "Struct" => -> { Struct.new(:a).new(1) },
  "Symbol" => -> { :abc }, "Time" => -> { Time.at(0) }, "TrueClass" => -> { true },
  "URI::Generic" => -> { URI("a:b") }, "URI::HTTP" => -> { URI("http://a/") }
}.freeze


Fact = Struct.new(:name, :superclass, :kind, :includes, :methods, :class_methods)
FORM = /ClassFact \{ name: "(.*?)", superclass: (?:None|Some\("(.*?)"\)), is_module: (\w+), includes: "(.*?)",
\s+methods: "(.*?)",\s+class_methods: "(.*?)" \}/

found = File.read(File.join(__dir__, "facts.rs")).scan(FORM).map do |name, superclass, is_module, *lists|
  includes, methods, class_methods = lists.map(&:split)
  counts = methods.to_h { |method| [method[/\A[^:]+/], method[/:(.*)/, 1]] }
  Fact.new(name, superclass, is_module == "true" ? Module : Class, includes, counts, class_methods)
end
FACTS = found.to_h { |fact| [fact.name, fact] }.freeze

# Returns the instance methods with their numbers of arguments, as the evaluator finds them: in the class, its
# modules and its superclasses.
def methods_by_facts(name)
  fact = FACTS[name]
  return {} unless fact

  [*fact.includes, fact.superclass].reduce(fact.methods) { |all, from| methods_by_facts(from).merge(all) }
end

def class_methods_by_facts(name)
  fact = FACTS[name]
  fact ? fact.class_methods + class_methods_by_facts(fact.superclass) : []
end

def methods_by_ruby(type)
  names = type.public_instance_methods.reject do |name|
    type.public_instance_method(name).owner.to_s.match?(NOT_LOADED) && !Exception.method_defined?(name)
  end
  names.map(&:to_s)
end

# Returns the methods of a class itself, without those that all objects have.
def class_methods_by_ruby(type)
  type.singleton_methods.map(&:to_s)
end

# Returns the nearest superclass that has a fact.
def superclass_by_ruby(type)
  return unless type.is_a?(Class)

  above = type.superclass
  above = above.superclass until above.nil? || FACTS.key?(above.name)
  above&.name
end

# Returns the modules with facts that a class includes and its superclass does not.
def includes_by_ruby(type)
  inherited = type.is_a?(Class) && type.superclass ? type.superclass.ancestors : []
  # The fact of Object also lists the methods of Kernel.
  (type.ancestors - [type, Kernel] - inherited).map(&:name).select { |name| FACTS.key?(name) }
end

# Calls a method with this number of arguments, without a block and with one. Returns the numbers of arguments
# that Ruby's errors say it expects. Output of the method is dropped.
def refusals(name, method, given, blocks = [nil, proc {}])
  blocks.filter_map do |block|
    stdout = $stdout
    $stdout = StringIO.new
    OBJECTS.fetch(name).call.public_send(method, *[nil] * given, &block)
    nil
  rescue ArgumentError => e
    e.message[/given #{given}, expected ([^;)]*)/, 1]
  rescue StandardError, NotImplementedError
    nil
  ensure
    $stdout = stdout
  end
end

# Returns the minimum and maximum number of arguments from the parameters of a method. Returns nil for methods
# in C with optional arguments, whose parameters do not show the numbers.
def parameters(method)
  kinds = method.parameters.map(&:first)
  return if method.arity.negative? && method.parameters == [[:rest]]

  least = kinds.count(:req)
  [least, kinds.include?(:rest) ? nil : least + kinds.count(:opt)]
end

def bounds(count)
  least, most = count.split("..")
  [least.to_i, count.end_with?("+") ? nil : (most || least).to_i]
end

def count(least, most)
  return least.zero? ? nil : "#{least}+" if most.nil?

  least == most ? least.to_s : "#{least}..#{most}"
end

# Returns true if Ruby accepts the numbers of arguments in the fact, and rejects lower and higher ones. If a
# block changes the number, the fact covers both cases.
def counted?(name, method, count)
  least, most = bounds(count)
  known = parameters(Object.const_get(name).public_instance_method(method))
  return known == [least, most] if known

  (least.zero? || refusals(name, method, least - 1).any? { |expected| bounds(expected).first == least }) &&
    (most.nil? || refusals(name, method, most + 1).any? { |expected| bounds(expected).last == most })
end

def differences(fact)
  type = Object.const_get(fact.name)
  return ["is a #{type.class}"] unless type.instance_of?(fact.kind)

  found = []
  superclass = superclass_by_ruby(type)
  found << "has the superclass #{superclass}" unless superclass == fact.superclass
  includes = includes_by_ruby(type)
  found << "includes #{includes.join(" ")}" unless includes.sort == fact.includes.sort
  found + named(fact, "#", method(:methods_by_ruby), ->(name) { methods_by_facts(name).keys }) +
    named(fact, ".", method(:class_methods_by_ruby), method(:class_methods_by_facts)) + miscounted(fact)
end

# Returns the differences of names, without those that a superclass also has.
def named(fact, sign, in_ruby, in_facts)
  by_ruby = in_ruby.call(Object.const_get(fact.name))
  by_facts = in_facts.call(fact.name)
  above = fact.superclass ? in_ruby.call(Object.const_get(fact.superclass)) : []
  above_facts = fact.superclass ? in_facts.call(fact.superclass) : []
  missing = by_ruby - by_facts - (above - above_facts)
  missing.reject! { |name| name.match?(LEFT_OUT[fact.name]) } if LEFT_OUT.key?(fact.name)
  surplus = by_facts - by_ruby - (above_facts - above)
  known = (SOMETIMES + TAKEN_AWAY).map { |name| name.delete_prefix("#{fact.name}#{sign}") }
  (missing - known).map { |name| "has #{sign}#{name}" } +
    (surplus - known).map { |name| "has no #{sign}#{name}" }
end

def miscounted(fact)
  return [] unless OBJECTS.key?(fact.name)

  type = Object.const_get(fact.name)
  methods_by_facts(fact.name).filter_map do |method, count|
    next if count.nil? || !type.public_method_defined?(method) || NOT_REFUSED.key?("#{fact.name}##{method}")

    "does not take #{count} arguments in ##{method}" unless counted?(fact.name, method, count)
  end
end

# Returns the fact of a class or module in the form of facts.rs.
def text(type)
  superclass = superclass_by_ruby(type)
  above = superclass ? methods_by_facts(superclass).keys : []
  includes = includes_by_ruby(type)
  above += includes.flat_map { |name| methods_by_facts(name).keys }
  defined = type.public_instance_methods(false).map(&:to_s)
  methods = (methods_by_ruby(type) - (above - defined)).sort.map do |name|
    method = type.public_instance_method(name)
    known = parameters(method)
    expected = count(*known) if known
    # The method gets no block, because with a block some methods would never end.
    if OBJECTS.key?(type.name)
      expected ||= [99, 0].flat_map { |given| refusals(type.name, name, given, [nil]) }.first
    end
    expected ? "#{name}:#{expected}" : name
  end
  class_methods = class_methods_by_ruby(type) - (superclass ? class_methods_by_ruby(Object.const_get(superclass)) : [])
  class_methods |= type.singleton_methods(false).map(&:to_s)
  <<~FACT.gsub(/^(?=.)/, "    ")
    ClassFact { name: "#{type.name}", superclass: #{superclass ? "Some(\"#{superclass}\")" : "None"}, \
    is_module: #{!type.is_a?(Class)}, includes: "#{includes.join(" ")}",
        methods: "#{methods.join(" ")}",
        class_methods: "#{class_methods.sort.join(" ")}" },
  FACT
end

if ARGV.any?
  ARGV.each { |name| print text(Object.const_get(name)) }
  exit
end
twice = found.map(&:name).tally.select { |_, times| times > 1 }.keys
twice.each { |name| puts "#{name} is listed twice" }
(FACTS.values.reject { |fact| OWN.include?(fact.name) }).each do |fact|
  differences(fact).each { |difference| puts "#{fact.name} #{difference}" }
end
