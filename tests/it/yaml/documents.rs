//! Documents as operators write them, with their meaning.

/// A document and its normal form.
pub(super) struct Case {
    /// The feature that the document shows.
    pub name: &'static str,
    /// The text as the operator writes it.
    pub text: &'static str,
    /// The text as the program prints it.
    pub emitted: &'static str,
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "block and flow",
        text: "a: {b: [1, {c: d}], e: }\nf:\n- g\n-   h: 1\n    i: 2\n",
        emitted: "a:\n  b:\n  - 1\n  - c: d\n  e: null\nf:\n- g\n- h: 1\n  i: 2\n",
    },
    Case {
        name: "indented sequences lose their indent",
        text: "a:\n  - b\n  -   - c\n      - d\n",
        emitted: "a:\n- b\n- - c\n  - d\n",
    },
    Case {
        name: "empty collections",
        text: "a: []\nb: {}\nc: [[], {}]\n",
        emitted: "a: []\nb: {}\nc:\n- []\n- {}\n",
    },
    Case { name: "nothing at all", text: "", emitted: "null\n" },
    Case { name: "only a comment", text: "# x\n", emitted: "null\n" },
    Case { name: "only a document start", text: "---\n", emitted: "null\n" },
    Case { name: "a scalar", text: "hello\n", emitted: "hello\n" },
    Case { name: "a quoted scalar", text: "'yes'\n", emitted: "\"yes\"\n" },
    Case {
        name: "natural order of keys",
        text: "a10: 1\na2: 1\na1: 1\nb: 1\nB: 1\n_: 1\n\"-\": 1\na-b: 1\na_b: 1\nab: 1\na: 1\n\"1\": 1\n",
        emitted: "'-': 1\n_: 1\n\"1\": 1\nB: 1\na: 1\na-b: 1\na_b: 1\na1: 1\na2: 1\na10: 1\nab: 1\nb: 1\n",
    },
    Case {
        name: "keys of every kind",
        text: "b: 1\n2: 1\n1: 1\ntrue: 1\n1.5: 1\n~: 1\na: 1\n\"1\": 1\nno: 1\n",
        emitted: "false: 1\ntrue: 1\n1: 1\n1.5: 1\n2: 1\nnull: 1\n\"1\": 1\na: 1\nb: 1\n",
    },
    Case {
        name: "leading zeros in keys",
        text: "a007: 1\na7: 1\na07: 1\na100: 1\na0100: 1\n",
        emitted: "a7: 1\na07: 1\na007: 1\na100: 1\na0100: 1\n",
    },
    Case {
        name: "anchors are written out",
        text: "a: &x [1, &y {b: c}]\nd: *x\ne: *y\n",
        emitted: "a:\n- 1\n- b: c\nd:\n- 1\n- b: c\ne:\n  b: c\n",
    },
    Case {
        name: "an anchor may be set again",
        text: "a: &x 1\nb: *x\nc: &x 2\nd: *x\n",
        emitted: "a: 1\nb: 1\nc: 2\nd: 2\n",
    },
    Case {
        name: "merge",
        text: "x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\n  c: 4\n",
        emitted: "true:\n  a: 1\n  b: 3\n  c: 4\nx:\n  a: 1\n  b: 2\n",
    },
    Case {
        name: "a merge overwrites what stands before it",
        text: "x: &x {a: 1, b: 2}\ny:\n  b: 3\n  <<: *x\n",
        emitted: "true:\n  a: 1\n  b: 2\nx:\n  a: 1\n  b: 2\n",
    },
    Case {
        name: "merge of several: the first wins",
        text: "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz:\n  <<: [*x, *y]\n",
        emitted: "true:\n  b: 3\n  c: 4\nx:\n  a: 1\n  b: 2\nz:\n  a: 1\n  b: 2\n  c: 4\n",
    },
    Case {
        name: "merge of a mapping written in place",
        text: "z:\n  <<: {a: 1}\n  b: 2\n",
        emitted: "z:\n  a: 1\n  b: 2\n",
    },
    Case {
        name: "a merge in a merge",
        text: "x: &x {a: 1}\ny: &y {<<: *x, b: 2}\nz: {<<: *y, c: 3}\n",
        emitted: "true:\n  a: 1\n  b: 2\nx:\n  a: 1\nz:\n  a: 1\n  b: 2\n  c: 3\n",
    },
    Case { name: "a quoted << is a key", text: "a: {\"<<\": 1}\n", emitted: "a:\n  <<: 1\n" },
    Case {
        name: "tags",
        text: "- !!str 1\n- !!int \"2\"\n- !!float 3\n- !!bool yes\n- !!null \"\"\n- !!binary aGVsbG8=\n- \
            !!timestamp 2001-01-01\n- !custom 4\n- ! 5\n- !!set {a, b}\n- !!seq [x]\n- \
            !<tag:yaml.org,2002:int> \"6\"\n",
        emitted: "- \"1\"\n- 2\n- 3\n- true\n- null\n- hello\n- \"2001-01-01\"\n- \"4\"\n- \"5\"\n- a: \
            null\n  b: null\n- - x\n- 6\n",
    },
    Case {
        name: "literal block scalars",
        text: "a: |\n  x\n   y\n\n  z\nb: |-\n  x\nc: |+\n  x\n\nd: |2\n    x\n  y\n",
        emitted: "a: |\n  x\n   y\n\n  z\nb: x\nc: |+\n  x\n\nd: |2\n    x\n  y\n",
    },
    Case {
        name: "folded block scalars",
        text: "a: >\n  x\n  y\n\n  z\nb: >-\n  x\n  y\nc: >+\n  x\n\nd: >\n  x\n    y\n  z\n",
        emitted: "a: |\n  x y\n  z\nb: x y\nc: |+\n  x\n\nd: |\n  x\n    y\n  z\n",
    },
    Case { name: "a block scalar cut off by the end", text: "a: |\n  x", emitted: "a: x\n" },
    Case {
        name: "plain scalars over lines",
        text: "a: x\n  y\n\n  z\nb: c\n",
        emitted: "a: |-\n  x y\n  z\nb: c\n",
    },
    Case {
        name: "quoted scalars over lines",
        text: "a: \"x\n  y\\\n  z\n\n  w\"\nb: 'x\n  y'\n",
        emitted: "a: |-\n  x yz\n  w\nb: x y\n",
    },
    Case {
        name: "quoted scalars over lines that are not indented",
        text: "a:\n  b: \"x\ny\n\nz\"\n  c: 'd\ne'\nf: 1\n",
        emitted: "a:\n  b: |-\n    x y\n    z\n  c: d e\nf: 1\n",
    },
    Case {
        name: "escapes",
        text: "a: \"\\x41\\u00e9\\U0001F600\\n\\t\\0\\e\\\"\\\\\\N\\_\\L\\P\\ \\a\"\n",
        emitted: "a: \"Aé\\U0001F600\\n\\t\\0\\e\\\"\\\\\\N\u{a0}\\L\\P \\a\"\n",
    },
    Case { name: "only the first document", text: "a: 1\n---\nb: 2\n", emitted: "a: 1\n" },
    Case {
        name: "only the first document, even when the next is broken",
        text: "a: 1\n---\n[\n",
        emitted: "a: 1\n",
    },
    Case { name: "a document end", text: "a: 1\n...\n", emitted: "a: 1\n" },
    Case {
        name: "directives",
        text: "%YAML 1.1\n%TAG !e! tag:yaml.org,2002:\n---\na: !e!str 1\n",
        emitted: "a: \"1\"\n",
    },
    Case { name: "complex key syntax", text: "? a\n: 1\n? |\n  b\n: 2\n", emitted: "a: 1\n? |\n  b\n: 2\n" },
    Case {
        name: "single pair in a flow sequence",
        text: "[a: 1, b, ? c : 2]\n",
        emitted: "- a: 1\n- b\n- c: 2\n",
    },
    Case {
        name: "windows line ends",
        text: "a: 1\r\nb:\r\n- x\r\nc: |\r\n  y\r\n",
        emitted: "a: 1\nb:\n- x\nc: |\n  y\n",
    },
    Case { name: "a byte order mark", text: "\u{feff}a: 1\n", emitted: "a: 1\n" },
    Case {
        name: "tabs between tokens",
        text: "a:\t1\nb:\t[\t2,\t3]\t# x\n",
        emitted: "a: 1\nb:\n- 2\n- 3\n",
    },
    Case {
        name: "comments",
        text: "# a\na: 1 # b\n# c\nb: # d\n  # e\n  c: \"#\" # f\n",
        emitted: "a: 1\nb:\n  c: '#'\n",
    },
    Case {
        name: "urls and colons",
        text: "a: http://x:80/y?z=1#w\nb: c::d\ne: :f\n",
        emitted: "a: http://x:80/y?z=1#w\nb: c::d\ne: :f\n",
    },
    Case {
        name: "long keys",
        text: "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk: 1\n? lllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll\n: 2\n",
        emitted: "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk: 1\n? lllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll\n: 2\n",
    },
    Case {
        name: "a key of several lines",
        text: "? \"a\\nb\"\n: [1]\n\"c\\nd\": {e: f}\n",
        emitted: "? |-\n  a\n  b\n: - 1\n? |-\n  c\n  d\n: e: f\n",
    },
    Case {
        name: "long text folds",
        text: "a: word word word word word word word word word word word word word word word word word word \
            word word word word word word word word word word word word word word word word word word word \
            word word word \nb: \"word word word word word word word word word word word word word word word \
            word word word word word word word word word word word word word word word word word word word \
            word word word word word word \"\nc:\n- x y x y x y x y x y x y x y x y x y x y x y x y x y x y \
            x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y x y \
            x y x y \n",
        emitted: "a: word word word word word word word word word word word word word word word word\n  word \
            word word word word word word word word word word word word word word word\n  word word word \
            word word word word word\nb: 'word word word word word word word word word word word word word \
            word word word\n  word word word word word word word word word word word word word word word \
            word\n  word word word word word word word word '\nc:\n- x y x y x y x y x y x y x y x y x y x y \
            x y x y x y x y x y x y x y x y x y x y\n  x y x y x y x y x y x y x y x y x y x y x y x y x y x \
            y x y x y x y x y x y x y\n",
    },
    Case { name: "next line characters end lines", text: "a: 1\u{85}b: 2\n", emitted: "a: 1\nb: 2\n" },
    Case {
        name: "variables stay",
        text: "a: ((b))\nc: x-((d))-y\ne: [((f)), ((g))]\n",
        emitted: "a: ((b))\nc: x-((d))-y\ne:\n- ((f))\n- ((g))\n",
    },
    Case { name: "a comment right after a quote", text: "a: 'b'#c\nd: [e]#f\n", emitted: "a: b\nd:\n- e\n" },
    Case {
        name: "keys in brackets without a value",
        text: "{a: , \"b\":, c : , d, ? e}\n",
        emitted: "a: null\nb: null\nc: null\nd: null\ne: null\n",
    },
];
