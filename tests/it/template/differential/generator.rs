//! Generates Ruby expressions: calls of methods with values at the edges of what they accept.

use crate::support::dice::Dice;

/// A generator of expressions. A seed gives the same expressions everywhere.
pub(super) struct Generator {
    dice: Dice,
    calls: Vec<&'static str>,
    methods: Vec<(&'static str, Vec<&'static str>)>,
}

/// An expression, and the call that it is an instance of.
pub(super) struct Expression {
    pub(super) call: String,
    pub(super) source: String,
    /// True if the arguments may have any class. Then only values are compared, and exceptions are not.
    pub(super) has_any_arguments: bool,
}

/// The pieces of strings. Several have a meaning for the methods called with them.
const PIECES: &[&str] = &[
    "",
    "a",
    "b",
    "ab",
    "abc",
    "A",
    "Z",
    "z",
    "az",
    "zz",
    "Zz",
    "a9",
    "0",
    "1",
    "9",
    "99",
    "12",
    "-1",
    "+7",
    "0x1f",
    "0b1",
    "0o7",
    "1_000",
    "1.5",
    "1e3",
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\u{b}",
    ",",
    ";",
    ", ",
    ".",
    "-",
    "_",
    "^",
    "a-c",
    "^a",
    "\\",
    "/",
    "(",
    "[",
    "'",
    "\"",
    "é",
    "É",
    "ß",
    "ﬁ",
    "ı",
    "İ",
    "ǆ",
    "ǅ",
    "Ǆ",
    "ÿ",
    "ſ",
    "K",
    "σ",
    "ς",
    "Σ",
    "я",
    "日本",
    "😀",
    "e\u{301}",
    "\u{a0}",
    "\u{85}",
    "\u{2028}",
    "\u{3000}",
    "٣",
    "²",
    "Ⅷ",
    "ª",
    "foo",
    "foo bar",
    "hello world",
    "Hello",
    "a\nb\n",
    "a\nb",
    "\na",
    "key=value",
    "aaa",
    "abab",
    "a,b,,c,,",
    "%d",
    "%s",
    "::",
    "~",
];
const INTS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "10",
    "16",
    "36",
    "37",
    "62",
    "63",
    "64",
    "65",
    "100",
    "255",
    "256",
    "1000",
    "-1",
    "-2",
    "-3",
    "-7",
    "-10",
    "-64",
    "9007199254740993",
    "4611686018427387903",
    "4611686018427387904",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "12345678901234567890123",
    "-12345678901234567890123",
    "100000000000000000000000000000000",
];
const SMALL: &[&str] = &["0", "1", "2", "3", "4", "5", "-1", "-2", "-3", "-5", "10", "-10"];
const FLOATS: &[&str] = &[
    "0.0",
    "-0.0",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "-2.5",
    "1e20",
    "-1e20",
    "1e-5",
    "3.7",
    "-3.7",
    "1e16",
    "123456.789",
    "9007199254740993.0",
    "0.1",
];
const TIMES: &[&str] = &[
    "Time.utc(2024, 2, 29, 12, 30, 45)",
    "Time.utc(2023, 2, 31)",
    "Time.utc(2024, 12, 31, 23, 59, 60)",
    "Time.utc(1969, 12, 31, 23, 59, 59, 999_999)",
    "Time.utc(7, 1, 2, 3)",
    "Time.at(0).utc",
    "Time.at(1_700_000_000).getutc",
    "Time.at(-1.5).utc",
    "Time.at(0.25).utc",
    "Time.parse(\"2024-01-02 03:04:05 +02:00\")",
    "Time.parse(\"2024-11-30T23:04:05.000123Z\")",
    "Time.parse(\"2001-09-09 01:46:40 UTC\")",
    "Time.iso8601(\"1999-12-31T00:00:00-05:30\")",
    "Time.iso8601(\"2038-01-19T03:14:07.5Z\")",
];
/// Expressions with placeholders, one a line: `$s` string, `$i` integer, `$n` small integer, `$f` float, `$a`
/// array, `$h` hash, `$e` element, `$r` regular expression, `$g` range with ends, `$l` range, `$k` radix,
/// `$c` set of characters, `$o` replacement, `$j` JSON, `$d` directive of `format`, `$y` symbol, `$u` text of
/// a URI, `$p` text of an IP address, `$t` time, `$w` layout of `strftime`, `$q` path, `$m` text of HTML,
/// `$b` text in base64, `$v` any.
const CALLS: &str = include_str!("calls.txt");
/// The methods of each class that are called with any arguments, a class a line: the placeholder of its
/// values, and the names.
const METHODS: &str = include_str!("methods.txt");
/// Blocks of these calls. Most have none.
const BLOCKS: &[&str] = &[
    "",
    "",
    "",
    " { |x| x }",
    " { |x, y| x }",
    " { |x, y| y }",
    " { |x, y| [y, x] }",
    "(&:to_s)",
    " { |x| x.to_s }",
    " { true }",
    " { nil }",
    " { 1 }",
    " { |*x| x }",
    " { |(x, y), z| [x, y, z] }",
    " { |x, y = 5, *z| [x, y, z] }",
];

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        let calls = CALLS.lines().filter(|line| !line.starts_with('#')).collect();
        let methods = METHODS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (kind, names) = line.split_once(' ')?;
            Some((kind, names.split(' ').collect()))
        });
        Generator { dice: Dice::new(seed), calls, methods: methods.collect() }
    }

    fn join_some(
        &mut self,
        max_count: usize,
        separator: &str,
        mut make: impl FnMut(&mut Self) -> String,
    ) -> String {
        let count = self.dice.number_below(max_count + 1);
        (0..count).map(|_| make(self)).collect::<Vec<_>>().join(separator)
    }

    /// Returns an expression.
    pub(super) fn expression(&mut self) -> Expression {
        if self.dice.number_below(3) == 0 {
            return self.method_call();
        }
        let number = self.dice.number_below(self.calls.len());
        let call = self.calls[number];
        Expression { call: call.to_owned(), source: self.fill(call), has_any_arguments: false }
    }

    /// Returns a call of any method with any arguments, which shows the result and the receiver.
    fn method_call(&mut self) -> Expression {
        let number = self.dice.number_below(self.methods.len());
        let kind = self.methods[number].0;
        let number_of_method = self.dice.number_below(self.methods[number].1.len());
        let name = self.methods[number].1[number_of_method];
        let receiver = self.fill(kind);
        let arguments = match self.dice.number_below(4) {
            0 => Vec::new(),
            1 | 2 => vec![self.any()],
            _ => vec![self.any(), self.any()],
        };
        let arguments = match name.ends_with('=') && name.starts_with(|c: char| c.is_alphabetic() || c == '[')
        {
            true => vec![self.any(); 1 + usize::from(name == "[]=")],
            false => arguments,
        };
        // With a block that does not compare, a method may return its elements in any order. Without a block,
        // a method that changes its receiver ends at the third element.
        let edits = name.ends_with('!') || name == "keep_if" || name == "delete_if";
        let block = match self.dice.pick(BLOCKS) {
            _ if ["min", "max", "minmax", "sort", "sort!"].contains(&name) => "",
            "" if edits => " { |x| x }",
            block => block,
        };
        let call = match (arguments.is_empty(), block.strip_prefix("(&")) {
            (true, _) => format!("x.{name}{block}"),
            (false, Some(rest)) => format!("x.{name}({}, &{rest}", arguments.join(", ")),
            (false, None) => format!("x.{name}({}){block}", arguments.join(", ")),
        };
        let source = format!("(x = {receiver}; r = {call}; [r.is_a?(Enumerator) ? r.first(3) : r, x])");
        Expression { call: format!("{kind}.{name}"), source, has_any_arguments: true }
    }

    /// Returns a value of any class.
    fn any(&mut self) -> String {
        match self.dice.number_below(12) {
            0 | 1 => self.element(1),
            2 | 3 => self.dice.pick(SMALL).to_owned(),
            4 => self.string(),
            5 => {
                self.dice.pick(&["\"a\"", "\"\"", "\"b\"", "\" \"", "\"\\n\"", "\"a-c\"", "\"1\""]).to_owned()
            }
            6 => self.dice.pick(&["/a/", "/\\s*/", "/(b)?/", "/./m", "//", "/$/", "/(?<x>\\w)/"]).to_owned(),
            7 => self.range(false),
            8 => self.array(),
            9 => self.hash(),
            10 => self.dice.pick(&[":a", ":to_s", ":+", ":size", ":b", "nil", "true"]).to_owned(),
            _ => self
                .dice
                .pick(&["Integer", "String", "0.5", "-0.0", "(1..)", "2.7", "NilClass", "1e3"])
                .to_owned(),
        }
    }

    /// Fills the placeholders of a call.
    fn fill(&mut self, call: &str) -> String {
        let mut source = String::new();
        let mut rest = call;
        while let Some(position) = rest.find('$') {
            source.push_str(&rest[..position]);
            let kind = rest[position + 1..].chars().next().unwrap_or('/');
            let value = match kind {
                's' => self.string(),
                'i' => self.integer(),
                'n' => self.dice.pick(SMALL).to_owned(),
                'f' => self.dice.pick(FLOATS).to_owned(),
                'a' => self.array(),
                'h' => self.hash(),
                'e' => self.element(1),
                'r' => self.regexp(),
                'g' => self.range(true),
                'l' => self.range(false),
                'k' => self.dice.pick(&["2", "8", "10", "16", "36", "37", "0", "1", "-2", "3"]).to_owned(),
                'c' if rest[..position].ends_with('[') => self
                    .dice
                    .pick(&[
                        "a-c",
                        "^a-c",
                        "é-ü",
                        "\\w",
                        "^\\s",
                        "[:alpha:]",
                        "^[:space:]x",
                        "a&&b",
                        "\\-a",
                        "a-c&&b-d",
                    ])
                    .to_owned(),
                'c' => format!(
                    "\"{}\"",
                    self.dice.pick(&[
                        "a-c", "^a-c", "a-y", "b-z", "é-ü", "^", "a", "", "\\\\-a", "z-a", "-", "a-", "^b",
                        "0-9a-f", "A-Z"
                    ])
                ),
                'o' => format!(
                    "'{}'",
                    self.dice.pick(&[
                        "x", "", "<\\0>", "\\1", "[\\\\1]", "\\\\\\\\", "\\&\\&", "\\`", "\\'", "\\k<x>",
                        "é", "\\9"
                    ])
                ),
                'j' => self.json(),
                'd' => self.directive(),
                'y' => self.symbol(),
                'u' => self.uri(),
                'p' => self.address(),
                't' => self.dice.pick(TIMES).to_owned(),
                'q' => {
                    let parts = ["/", "/", "a", "b.rb", ".x", ".", "..", "//", "c.", ".tar.gz", "é", " "];
                    literal(&self.join_some(5, "", |it| it.dice.pick(&parts).to_owned()))
                }
                'm' => {
                    let parts = [
                        "&lt;",
                        "&#65;",
                        "&#x41;",
                        "&apos;",
                        "&amp;",
                        "&#",
                        ";",
                        "&x;",
                        "&#x110000;",
                        "&#0;",
                    ];
                    literal(&self.join_some(4, "", |it| it.dice.pick(&parts).to_owned()))
                }
                'b' => {
                    let parts = ["YWJj", "YQ==", "YQ", "YWI", "-_-_", "+/+/", "=", "\n", "é", "YR==", "    "];
                    literal(&self.join_some(3, "", |it| it.dice.pick(&parts).to_owned()))
                }
                'w' => self.layout(),
                'v' => self.any(),
                other => {
                    source.push('$');
                    source.push(other);
                    rest = &rest[position + 1 + other.len_utf8()..];
                    continue;
                }
            };
            // A negative number gets parentheses: `-1.abs` and `-1 ** 2` mean something else.
            if value.starts_with('-') {
                source.push_str(&format!("({value})"))
            } else {
                source.push_str(&value)
            }
            rest = &rest[position + 2..];
        }
        source.push_str(rest);
        source
    }

    /// Returns a directive of `format`.
    fn directive(&mut self) -> String {
        let flags = self.join_some(2, "", |it| it.dice.pick(&["-", "+", "0", " ", "#"]).to_owned());
        let width = self.dice.pick(&["", "", "1", "5", "12"]);
        let precision = self.dice.pick(&["", "", ".0", ".1", ".3", ".10", "."]);
        let letter = self.dice.pick(&[
            "d", "i", "u", "f", "e", "E", "g", "G", "s", "p", "x", "X", "o", "b", "B", "c", "%", "a",
        ]);
        format!("%{flags}{width}{precision}{letter}")
    }

    /// Returns a layout of `strftime`.
    fn layout(&mut self) -> String {
        let directive = |it: &mut Self| {
            let flag = it.dice.pick(&["", "", "", "-", "^", "0", "_", ":"]);
            let letters = "YCymdejHIMSLNpPAaBbhuwsFTXDxRrcvzZklnt%";
            let letter = letters.chars().nth(it.dice.number_below(letters.len())).unwrap_or('Y');
            format!("%{flag}{letter}")
        };
        format!("\"{}\"", self.join_some(3, " ", directive))
    }

    /// Returns the text of a URI, which may be invalid.
    fn uri(&mut self) -> String {
        let scheme = self
            .dice
            .pick(&["http:", "https:", "HTTP:", "nats:", "file:", "ldap:", "a+b:", "1:", "", "", ""]);
        let authority = self.dice.pick(&[
            "//h",
            "//a.b:80",
            "//u:p@h:81",
            "//u@h",
            "//:p@h:443",
            "//u:@h:",
            "//[::1]:8",
            "//[::1:2:3:4:5:6]",
            "//EXAMPLE.com",
            "//a_b",
            "//h:x",
            "//@h",
            "//",
            "",
            "",
            "//localhost",
            "//a%20b",
            "//[fe80::1%25e]",
            "//u@v@h",
            "//[v1.a]",
        ]);
        let path = self.dice.pick(&[
            "",
            "/",
            "/a",
            "/a/b/",
            "/a/../b",
            "a",
            "a/b:c",
            "../x",
            "./",
            "..",
            "/%41%zz",
            "/a b",
            "//x",
            "/a;b=c",
            "/é",
            "a:b",
            "/%c3%a9",
            "/a//b/./c/..",
            "/a'\\\"<b>",
            "/[a]",
        ]);
        let query = self.dice.pick(&["", "", "?", "?a=b&c", "?a b", "?<é>", "?%", "?a%2Fb'", "?x?y", "?%zz"]);
        let fragment = self.dice.pick(&["", "", "", "#", "#f", "#a#b", "#a b", "#%41/?"]);
        format!("\"{scheme}{authority}{path}{query}{fragment}\"")
    }

    /// Returns the text of an IP address or network, which may be invalid.
    fn address(&mut self) -> String {
        let address = self.dice.pick(&[
            "10.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "192.168.1.77",
            "127.0.0.1",
            "169.254.1.2",
            "172.31.0.9",
            "256.0.0.1",
            "01.2.3.4",
            "1.2.3",
            "::",
            "::1",
            "fe80::1",
            "FE80::ABCD",
            "::ffff:1.2.3.4",
            "::1.2.3.4",
            "::1:2",
            "2001:db8:0:0:1::",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "1:0:0:2:0:0:0:3",
            "1:2:3:4:5:6:1.2.3.4",
            "::1:2:3:4:5:1.2.3.4",
            "1::2::3",
            "fe80::1%eth0",
            "::%00a",
            "[::1]",
            "[1.2.3.4]",
            "fc00::1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "",
            "x",
            "0:0:1:0:0:0:0:0",
            "1.2.3.4%e",
        ]);
        let network = self.dice.pick(&[
            "",
            "",
            "",
            "",
            "/8",
            "/24",
            "/32",
            "/0",
            "/64",
            "/128",
            "/33",
            "/08",
            "/255.255.0.0",
            "/255.0.255.0",
            "/ffff::",
            "/x",
            "/",
        ]);
        format!("\"{address}{network}\"")
    }

    fn symbol(&mut self) -> String {
        self.dice
            .pick(&[":a", ":abc", ":\"a b\"", ":a?", ":[]", ":é", ":Az", ":\"\"", ":b", ":az9"])
            .to_owned()
    }

    /// Returns a literal of a string that is not frozen.
    fn string(&mut self) -> String {
        let text = self.join_some(3, "", |it| it.dice.pick(PIECES).to_owned());
        literal(&text)
    }

    fn integer(&mut self) -> String {
        match self.dice.number_below(8) {
            0 => (self.dice.any() as i64 >> self.dice.number_below(60)).to_string(),
            1 => format!("{}{:09}", self.dice.any(), self.dice.number_below(1_000_000_000)),
            _ => self.dice.pick(INTS).to_owned(),
        }
    }

    fn element(&mut self, depth: u32) -> String {
        match self.dice.number_below(if depth == 0 { 9 } else { 11 }) {
            0 => "nil".into(),
            1 => self.dice.pick(&["true", "false"]).to_owned(),
            2 | 3 => self.dice.pick(SMALL).to_owned(),
            4 => self.integer(),
            5 => self.dice.pick(FLOATS).to_owned(),
            6 | 7 => self.string(),
            8 => self.dice.pick(&[":a", ":b", ":\"a b\"", ":a?", ":[]", ":é"]).to_owned(),
            9 => self.list(depth - 1),
            _ => self.pairs(depth - 1),
        }
    }

    fn list(&mut self, depth: u32) -> String {
        format!("[{}]", self.join_some(4, ", ", |it| it.element(depth)))
    }

    fn array(&mut self) -> String {
        match self.dice.number_below(4) {
            0 => format!("[{}]", self.join_some(5, ", ", |it| it.dice.pick(SMALL).to_owned())),
            1 => format!("[{}]", self.join_some(5, ", ", |it| it.string())),
            2 => format!("[{}]", self.join_some(4, ", ", |it| it.list(0))),
            _ => self.list(1),
        }
    }

    fn pairs(&mut self, depth: u32) -> String {
        format!("{{{}}}", self.join_some(3, ", ", |it| format!("{} => {}", it.element(0), it.element(depth))))
    }

    fn hash(&mut self) -> String {
        format!("({})", self.pairs(1))
    }

    fn range(&mut self, has_both_ends: bool) -> String {
        let dots = self.dice.pick(&["..", "..", "..."]);
        let (start, end) = match self.dice.number_below(6) {
            0 if !has_both_ends => ("", self.dice.pick(SMALL)),
            1 if !has_both_ends => (self.dice.pick(SMALL), ""),
            _ => (self.dice.pick(SMALL), self.dice.pick(SMALL)),
        };
        format!("({start}{dots}{end})")
    }

    /// Draws a text that is JSON, or almost.
    fn json(&mut self) -> String {
        let scalar = |it: &mut Self| {
            it.dice
                .pick(&[
                    "1",
                    "-1",
                    "0",
                    "-0",
                    "01",
                    "1.0",
                    "1.",
                    ".5",
                    "-",
                    "+1",
                    "1e5",
                    "1E-2",
                    "1e400",
                    "-1e400",
                    "12345678901234567890",
                    "null",
                    "true",
                    "nul",
                    "NaN",
                    "Infinity",
                    "-Infinity",
                    "\\\"a\\\"",
                    "\\\"\\\\n\\\"",
                    "\\\"\\\\u00e9\\\"",
                    "\\\"\\\\q\\\"",
                    "\\\"\\t\\\"",
                    "''",
                    "\\\"\\\\ud83d\\\\ude00\\\"",
                    "",
                    "123456789012345678901234567890.5",
                    "0.1",
                    "-0.0",
                    "1e2",
                    "100000000000000000000000",
                ])
                .to_owned()
        };
        let text = match self.dice.number_below(4) {
            0 => scalar(self),
            1 => format!("[{}]", self.join_some(3, ", ", scalar)),
            2 => format!(
                "{{{}}}",
                self.join_some(3, ",", |it| format!(
                    "\\\"{}\\\": {}",
                    it.dice.pick(&["a", "b", "é"]),
                    scalar(it)
                ))
            ),
            _ => format!(
                "{}[{}]{}",
                self.dice.pick(&["", " ", "/* c */", "// c\\n"]),
                self.join_some(2, ",", scalar),
                self.dice.pick(&["", "\\n", "x", ","])
            ),
        };
        format!("\"{text}\"")
    }

    /// Returns a regular expression with up to three alternatives.
    fn regexp(&mut self) -> String {
        let source = self.alternatives(2);
        format!("/{source}/{}", self.dice.pick(&["", "", "", "i", "m", "x", "mi"]))
    }

    fn alternatives(&mut self, depth: u32) -> String {
        let count = 1 + self.dice.number_below(4) / 2;
        (0..count).map(|_| self.sequence(depth)).collect::<Vec<_>>().join("|")
    }

    fn sequence(&mut self, depth: u32) -> String {
        let count = 1 + self.dice.number_below(3);
        (0..count).map(|_| self.quantified_atom(depth)).collect()
    }

    fn quantified_atom(&mut self, depth: u32) -> String {
        if self.dice.number_below(4) == 0 {
            return self.dice.pick(&["^", "$", "\\A", "\\z", "\\Z", "\\b", "\\B"]).to_owned();
        }
        let atom = self.atom(depth);
        let quantifier = match self.dice.number_below(3) {
            0 => self.dice.pick(&[
                "*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "*?", "+?", "??", "{1,2}?", "*+", "?+", "++",
            ]),
            _ => "",
        };
        format!("{atom}{quantifier}")
    }

    /// Draws an atom of a regular expression.
    fn atom(&mut self, depth: u32) -> String {
        match self.dice.number_below(if depth == 0 { 8 } else { 11 }) {
            0..=2 => self
                .dice
                .pick(&[
                    "a", "b", "c", "A", "é", "É", "ß", "9", "1", "\\n", "\\.", "-", ",", " ", "o", "日",
                    "\\t", "=", "ǆ", "σ", "k", "s",
                ])
                .to_owned(),
            3 => self
                .dice
                .pick(&[
                    ".",
                    ".",
                    ".",
                    "\\x41",
                    "\\u00e9",
                    "\\u{e9}",
                    "\\0",
                    "\\101",
                    "\\cA",
                    "\\1",
                    "\\k<x>",
                    "\\K",
                    "\\G",
                    "\\X",
                    "(?#c)",
                    "\\e",
                    "\\v",
                    "\\f",
                    "\\/",
                    "]",
                    "{",
                    "}",
                    "\\u{61 62}",
                    "\\x0a",
                ])
                .to_owned(),
            4 | 5 => self
                .dice
                .pick(&[
                    "\\w",
                    "\\W",
                    "\\d",
                    "\\D",
                    "\\s",
                    "\\S",
                    "\\h",
                    "\\H",
                    "\\p{Alpha}",
                    "\\p{Upper}",
                    "\\p{L}",
                    "\\P{L}",
                    "\\p{Alnum}",
                    "\\p{Space}",
                    "\\p{^Lu}",
                    "\\p{Punct}",
                    "\\P{alnum}",
                    "\\p{^Word}",
                    "\\p{Greek}",
                    "\\R",
                ])
                .to_owned(),
            6 | 7 => {
                let parts = self.join_some(2, "", |it| {
                    it.dice
                        .pick(&[
                            "a",
                            "b",
                            "a-c",
                            "é",
                            "à-ÿ",
                            "\\d",
                            "\\w",
                            "\\s",
                            "\\W",
                            "\\S",
                            "\\D",
                            "\\h",
                            "[:alpha:]",
                            "[:upper:]",
                            "[:lower:]",
                            "[:digit:]",
                            "[:space:]",
                            "[:punct:]",
                            "[:word:]",
                            "[:alnum:]",
                            "[:^alpha:]",
                            "[:^space:]",
                            "[:print:]",
                            "[:graph:]",
                            "[:cntrl:]",
                            "[:blank:]",
                            "[:xdigit:]",
                            "[:ascii:]",
                            "^",
                            "-",
                            "\\-",
                            "\\]",
                            ".",
                            "$",
                            "\\n",
                            "[bc]",
                            "&&[a-b]",
                            "[^a]",
                            "A-Z",
                            " ",
                            "\\b",
                            "\\p{L}",
                            "\\p{^Alnum}",
                            "\\x41",
                            "\\u{e9}",
                            "\\u00e0-\\u00ff",
                            "[:alpha",
                            "\\[",
                            "[",
                            "&&",
                            "|",
                            "{",
                            "(",
                            "a-",
                        ])
                        .to_owned()
                });
                format!(
                    "[{}{}{}]",
                    self.dice.pick(&["", "", "^"]),
                    self.dice.pick(&["a", "x", "\\n", "é"]),
                    parts
                )
            }
            8 => format!("({})", self.alternatives(depth - 1)),
            9 => format!(
                "{}{})",
                self.dice.pick(&["(?:", "(?=", "(?!", "(?>", "(?i:", "(?m:", "(?-i:", "(?<=", "(?<!"]),
                self.alternatives(depth - 1)
            ),
            _ => format!("(?<x>{})", self.alternatives(depth - 1)),
        }
    }
}

/// Returns a literal. Characters with a meaning in Ruby, in ERB or on a terminal are escaped.
fn literal(text: &str) -> String {
    let escaped_text: String = text
        .chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | ',' | '.' | '-' | '_' | '=' | ':' | ';' => {
                character.to_string()
            }
            other => format!("\\u{{{:x}}}", other as u32),
        })
        .collect();
    format!("String.new(\"{escaped_text}\")")
}
