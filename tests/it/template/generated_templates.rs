//! Generated properties, used as in templates, rendered natively and in one Ruby process.
//!
//! The default run has a few hundred fixed sets. `MONOPILE_SWEEP=full` uses many more with a new seed.

use std::collections::HashSet;

use erb::{Context, Renderer, native::NativeRenderer};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::{Case, lossy_text, reference};

/// Strings with a meaning in YAML, JSON, shells, Ruby or HTML.
const PECULIAR: &[&str] = &[
    "",
    " ",
    "  two  ",
    "yes",
    "No",
    "on",
    "null",
    "~",
    "true",
    "y",
    "n",
    "1",
    "-1",
    "+1",
    "007",
    "0o7",
    "0x1F",
    "1_000",
    "1.5",
    ".5",
    "1.",
    "1e3",
    "1.0e+3",
    ".inf",
    "-.INF",
    ".nan",
    "12:30",
    "12:30:45",
    "2024-01-01",
    "2024-13-01",
    "2024-01-01 10:00:00",
    "2024-01-01T10:00:00Z",
    "- a",
    "-",
    "--",
    "---",
    "--- a",
    "...",
    "a: b",
    "a:b",
    "a:",
    ":a",
    ":",
    "a #b",
    "a#b",
    "#a",
    "'",
    "''",
    "\"",
    "\\",
    "\\n",
    "it's",
    "say \"hi\"",
    "\n",
    "a\n",
    "a\n\n",
    "a\nb",
    "\na",
    "a\n b\n",
    " a\nb",
    "a\n\n  b\n",
    "a\r\nb",
    "\t",
    "a\tb",
    "\ta",
    "trailing ",
    " leading",
    "!tag",
    "!",
    "&a",
    "*a",
    "%x",
    "@a",
    "`a`",
    "{",
    "}",
    "{a}",
    "[",
    "]",
    "[a]",
    ",",
    "?",
    "? a",
    "|",
    ">",
    "=",
    "<<",
    "<%= x %>",
    "#{x}",
    "$HOME",
    "a b",
    "a;b",
    "a&b",
    "<a href='x'>",
    "é",
    "naïve",
    "☃",
    "日本語",
    "😀",
    "a\u{a0}b",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "\u{0}",
    "\u{1}",
    "\u{7f}",
    "\u{9f}",
    "\u{e000}",
    "a/b?c=d&e=f",
    "100%",
    "%d %s",
    "10.0.0.1",
    "10.0.0.0/24",
    "::1",
    "user@example.com",
    "https://user:pw@example.com:8443/a?b#c",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "a long text that is folded, for it has more than eighty characters, which is where lines end in YAML \
        that is dumped",
    "averyveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryverylongwordwithoutanyblanks",
    "1,000",
    "0",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(PECULIAR).prop_map(str::to_owned),
        1 => proptest::collection::vec(proptest::sample::select(PECULIAR),
            2..4).prop_map(|parts| parts.concat()),
        1 => proptest::collection::vec(proptest::sample::select(PECULIAR),
            2..4).prop_map(|parts| parts.join(" ")),
        2 => "[ -~]{0,24}",
        1 => "[ -~\\n\\t]{0,120}",
        1 => "[a-z À-ɏΑ-ΡΣ-ωА-я一-鿿☀-☯😀-😿]{0,16}",
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    let float = prop_oneof![
        any::<f64>().prop_filter("JSON has no others", |float| float.is_finite()),
        (-100_000i32..100_000).prop_map(|number| f64::from(number) / 8.0),
        proptest::sample::select(&[0.1, 1e15, 1e16, 1e-4, 1e-5, 123_456_789.123, -0.0, 1e100, 5e-324][..]),
    ];
    prop_oneof![
        6 => text().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        2 => (-20i64..2000).prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        2 => float.prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Expressions of templates with `v` and `w`. Each prints its result or error.
const EXPRESSIONS: &[&str] = &[
    "v",
    "\"<#{v}>\"",
    "v.inspect",
    "v.to_s",
    "v.to_json",
    "JSON.generate(v)",
    "JSON.dump(v)",
    "JSON.pretty_generate([v])",
    "JSON.pretty_generate('k' => v)",
    "v.to_yaml",
    "YAML.dump('k' => v, 'l' => [w])",
    "{ a: v, 'b' => { 'c' => v } }.to_yaml",
    "[v, [v]].to_yaml",
    "v.to_json =~ /[\u{2028}\u{85}\u{feff}]/ || YAML.load(YAML.dump(v)) == v",
    "v.to_json =~ /[\u{2028}\u{85}\u{feff}]/ || YAML.load(\"k: #{v}\").inspect",
    "JSON.parse(v.to_json).inspect",
    "JSON.parse(JSON.generate(v)) == v",
    "format('%s|%p|%10s|%-10s|', v, v, w, w)",
    "'%d' % v",
    "'%.3f' % v",
    "'%05d|%x|%+d' % [v, v.abs, v]",
    "v.nil? || v == false ? 'no' : 'yes'",
    "v.class",
    "v.to_i",
    "v.to_f",
    "Integer(v)",
    "Float(v)",
    "v + w",
    "v == w",
    "v <=> w",
    "v * 2",
    "v.length",
    "v.empty?",
    "v.keys.inspect",
    "v.values.inspect",
    "v.sort.inspect",
    "v.map { |x| x }.inspect",
    "v.to_a.inspect",
    "v.each_with_index.map { |x, i| \"#{i}:#{x}\" }.join(',')",
    "v.join(', ')",
    "v.first.inspect",
    "v.flatten.inspect",
    "v.uniq.inspect",
    "v.map { |k, x| \"#{k}=#{x}\" }.join(' ')",
    "v.select { |k, x| x }.inspect",
    "v.to_h.inspect",
    "v.sum",
    "v.max.inspect",
    "v.min_by(&:to_s).inspect",
    "v.group_by(&:class).inspect",
    "v.split.inspect",
    "v.split(',').inspect",
    "v.lines.inspect",
    "v.strip.inspect",
    "v.chomp.inspect",
    "v.gsub(/[^a-z]/, '_')",
    "v.gsub(\"\\n\", '\\n').inspect",
    "v.upcase",
    "v.capitalize",
    "v.reverse.inspect",
    "v.tr('a-y', 'b-z').inspect",
    "v[0].inspect",
    "v[0, 3].inspect",
    "v.is_a?(Integer) ? 0 : v[-2..-1].inspect",
    "v.start_with?('a')",
    "v =~ /\\d+/ ? $~[0] : 'none'",
    "v.scan(/\\w+/).inspect",
    "v.center(30, '*')",
    "v.each_char.to_a.inspect",
    "v.bytes.inspect",
    "v.hex",
    "v.succ.inspect",
    "v.chars.map(&:succ).join.inspect",
    "v.to_f.to_s",
    "v.to_f / 3",
    "v.to_f.round(3)",
    "v.round(1, half: :even)",
    "v.round(-2, half: :down)",
    "v.floor(2)",
    "v.ceil(2)",
    "v.truncate(3)",
    "v.to_i(16)",
    "v.oct",
    "Integer(v, 16)",
    "v.partition('a').inspect",
    "v.rpartition(/[b-d]/).inspect",
    "v.squeeze",
    "v.delete('a-c')",
    "v.count('a-z')",
    "v.chars.tally.inspect",
    "v.each_slice(2).to_a.inspect",
    "v.zip(v).inspect",
    "v.rotate.inspect",
    "v.minmax.inspect",
    "v.sum { |x| x.to_f }",
    "'%e|%g' % [v, v]",
    "'%c' % [v].flatten(1).map { |x| x.is_a?(Integer) ? x.abs : x }",
    "'%8.3s|' % v",
    "Shellwords.split(v).inspect",
    "Shellwords.join([v, w])",
    "v.keys.map(&:to_sym).inspect",
    "v.transform_keys(&:to_sym).to_json",
    "v.to_sym.inspect",
    "v.dump",
    "v.encoding",
    "v.hash == v.dup.hash",
    "v.round(2)",
    "v.floor",
    "v.divmod(7).inspect",
    "v / 3",
    "v % 7",
    "-v",
    "v ** 2",
    "v.to_s(16)",
    "v.abs",
    "v.dig('a')",
    "v.fetch('a', w).inspect",
    "v.is_a?(Hash)",
    "v.respond_to?(:each)",
    "v.freeze.frozen?",
    "v.dup.inspect",
    "Array(v).inspect",
    "[v, w].compact.inspect",
    "[v, w].flatten.inspect",
    "[v, w].to_json",
    "{ v => w }.inspect",
    "{ v => w }.to_json",
    "{ v => w }.to_yaml",
    "Shellwords.escape(v)",
    "Shellwords.split(v).join('|')",
    "Base64.strict_encode64(v)",
    "Base64.encode64(v)",
    "Digest::SHA256.hexdigest(v)",
    "ERB::Util.html_escape(v)",
    "ERB::Util.url_encode(v)",
    "CGI.escape(v)",
    "URI.encode_www_form_component(v)",
    "v =~ /\\?/ || URI.parse(v).host.inspect",
    "IPAddr.new(v).to_s",
    "v.to_s.length",
    "v.to_s.inspect.length",
    "p('v', 'default').inspect",
    "p(['none', 'v'], 'd').inspect",
    "if_p('v') { |x| x.inspect }.class",
    "properties.v.class == v.class",
    "raw_properties['v'].inspect",
    "v&.to_s.inspect",
    "v || w",
    "v && w",
    "case v when String then 's' when Numeric then 'n' when nil then 'nil' when Array then 'a' when Hash \
        then 'h' else 'b' end",
];

/// The first line loads the libraries that the director loads for templates.
const PREAMBLE: &str = "<% require 'json'; require 'yaml'; require 'shellwords'; require 'base64'; require \
                        'digest'; require 'erb'; require 'cgi'; require 'uri'; require 'ipaddr'; v = p('v', \
                        nil); w = p('w', nil) -%>\n";

fn template() -> String {
    let mut text = PREAMBLE.to_owned();
    for (number, expression) in EXPRESSIONS.iter().enumerate() {
        text.push_str(&format!(
            "{number} <%= begin; ({expression}).to_s; rescue StandardError; '! error'; end %>\u{1e}\n"
        ));
    }
    text
}

#[test]
fn generated_properties_render_the_same_as_in_ruby() {
    let is_full = crate::support::is_full_sweep();
    let mut runner = if is_full { TestRunner::default() } else { TestRunner::deterministic() };
    let sets = if is_full { 5000 } else { 250 };
    let contexts: Vec<Value> = (0..sets)
        .map(|_| {
            let (v, w) = (value(), value()).new_tree(&mut runner).unwrap().current();
            json!({"index": 0, "job": {"name": "generated"}, "job_properties": {"v": v, "w": w},
                   "default_properties": {"v": null, "w": null}})
        })
        .collect();
    let source = template();
    let cases: Vec<Case> = contexts
        .iter()
        .map(|context| Case {
            name: context["job_properties"].to_string(),
            source: source.clone(),
            context: context.clone(),
        })
        .collect();
    let renderer = NativeRenderer::new();
    let mut differences: Vec<(usize, String)> = Vec::new();
    for (case, expected) in cases.iter().zip(reference(&cases)) {
        let context = Context::from_json(&case.context).unwrap();
        let native = renderer.render("generated.erb", &case.source, &context);
        let (ours, theirs) = (lossy_text(&native), lossy_text(&expected));
        let (Ok(native), Ok(expected)) = (&ours, &theirs) else {
            differences.push((0, format!("{}\n  Ruby: {theirs:?}\n  native: {ours:?}", case.name)));
            continue;
        };
        for ((ours, theirs), expression) in
            native.split("\u{1e}\n").zip(expected.split("\u{1e}\n")).zip(EXPRESSIONS)
        {
            if ours != theirs {
                let text =
                    format!("{expression}  of {}\n  Ruby:   {theirs:?}\n  native: {ours:?}", case.name);
                differences.push((case.name.len(), text));
            }
        }
    }
    // For each expression, the smallest set is the most useful one.
    differences.sort();
    let mut expressions = HashSet::new();
    let smallest_differences: Vec<&str> = differences
        .iter()
        .map(|(_, text)| text.as_str())
        .filter(|text| expressions.insert(text.split("  of ").next()))
        .collect();
    assert!(
        differences.is_empty(),
        "{} differ, of each:\n{}",
        differences.len(),
        smallest_differences.join("\n")
    );
}
