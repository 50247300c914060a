//! Names in code and comments: variables are named by their role, and comments name only what exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::layers::rust_files;

/// Rust code, taken apart.
pub(crate) struct Source {
    /// The code without comments. Strings are empty, but keep their line ends.
    pub(crate) code: String,
    /// The contents of strings.
    strings: Vec<String>,
    /// The comments, with the numbers of their lines.
    comments: Vec<(usize, String)>,
}

/// A comment, or a literal in quotes.
static COMMENT_OR_LITERAL: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        r"(?<comment>//[^\n]*)",
        r###"(?-u:\b)b?r##".*?"##|(?-u:\b)b?r#".*?"#|(?-u:\b)b?r"[^"]*""###,
        r#"b?"([^"\\]|\\.)*""#,
        r"'([^'\\\n]|\\[^\n]*?)'",
    ];
    Regex::new(&format!("(?s){}", parts.join("|"))).unwrap()
});

impl Source {
    pub(crate) fn of(text: &str) -> Self {
        let mut source = Source { code: String::new(), strings: Vec::new(), comments: Vec::new() };
        let (mut rest, mut line) = (0, 1);
        for token in COMMENT_OR_LITERAL.captures_iter(text) {
            let all = token.get(0).unwrap();
            source.code.push_str(&text[rest..all.start()]);
            line += text[rest..all.start()].matches('\n').count();
            rest = all.end();
            let line_ends = all.as_str().matches('\n').count();
            match token.name("comment") {
                Some(comment) => source.comments.push((line, comment.as_str().to_owned())),
                None => {
                    source.code.push_str(&format!("\"{}\"", "\n".repeat(line_ends)));
                    let inside = all.as_str().trim_start_matches(['b', 'r', '#']).trim_end_matches('#');
                    source.strings.push(inside.trim_matches(['"', '\'']).to_owned());
                }
            }
            line += line_ends;
        }
        source.code.push_str(&text[rest..]);
        source
    }
}

/// Words that say nothing about the role of what they name, also as constants.
static VAGUE: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        "known|found|said|seen|here|there|wanted|given|own",
        "looked|looking|looks|got|named|asked|waited|visited|admitted|signalled|told|way|of",
        "near|lost|below|above|beside|broken|bare|due|again|apart|abroad|ahead|alone|also",
        "elsewhere|nowhere|anywhere|nearly|regardless|still|twice|thrice",
    ];
    let words = words.join("|");
    Regex::new(&format!(r"(?-u)\b({words}|{})\b", words.to_uppercase())).unwrap()
});

/// Participles, prepositions and other words that do not say what they name, as variables, fields, constants
/// and functions. A participle with a noun does, such as `recorded_disks`. Methods and fields of other crates
/// may have these names.
static PARTICIPLE: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        "about|absent|accepting|added|allowed|answered|answering|applied|assigned|at|attached|began|begun",
        "between|both|bounded|built|by|cached|called|came|carried|changed|checked|chosen|cleaned",
        "closed|combined|compared|compiled|compiles|compiling|completed|computed|concerned|connected",
        "consumed|copied|counted|covered|created|crossed|decided|declared|decoded|decrypted|defined",
        "delayed|deleted|denied|deployed|derived|described|destroyed|detached|detected|discarded",
        "done|down|downloaded|drained|drawn|dropped|duplicated|earlier|edited|encoded|encrypted",
        "ended|entered|escaped|evaluated|examined|excluded|existing|expired|exported|extended|failed|failing",
        "fetched|few|filled|filtered|finished|fixed|forgotten|formatted|forwarded|from|generated",
        "gone|grown|guessed|has|have|heard|held|hidden|ignored|imported|included|indented|independent|indexed",
        "inherited|inserted|installed|interrupted|into|issued|joined|kept|killed|later|learnt|less",
        "limited|linked|listed|loaded|located|locked|logged|lowered|made|making|many|mapped|marked",
        "matched|maybe|meant|measured|merged|missed|misspelled|most|mounted|moved|narrowed|needed",
        "needless|nested|never|noted|numbered|observed|obtained|occupied|off|offered|omitted|only",
        "opened|ordered|others|over|overwritten|owned|packed|padded|paired|parsed|partial|passed",
        "pending|permitted|pinned|placed|planned|polled|prepared|present|preserved|pressed|printed",
        "probed|produced|promised|prompted|proposed|pruned|published|publishing|pulled|pushed",
        "quoted|raised|ran|ranked|reached|received|recorded|reduced|referenced|refused|registered",
        "rejected|related|released|remained|remembered|removed|renamed|rendered|repeated|replaced",
        "replied|reported|requested|required|reserved|resolved|restored|retried|returned|reused",
        "rewritten|rotated|rounded|running|salted|saved|scanned|sealed|searched|selected|sent",
        "separated|served|settled|several|shared|shortened|showing|shown|signed|since|single|sized|spare",
        "skipped|sorted|spawned|spelled|spent|staged|started|stated|stopped|stored|stripped",
        "suggested|superseded|supplied|supported|swapped|tagged|taken|temporary|tested|then|titled",
        "to|took|tracked|transferred|translated|tried|trimmed|trouble|trusted|typed|unchecked",
        "undoing|unmounted|unpacked|unpromised|until|untouched|up|updated|uploaded|uploading|used",
        "usual|verified|waiting|warned|went|whole|with|within|without|wrapped|written|wrong|wrote",
        "after|before|buffered|committed|configured|damaged|dated|drifted|explored|fitted|flipped|folded",
        "labelled|latest|launched|learned|longest|misplaced|mixed|more|outermost|overlong|panicked|played",
        "plugged|poisoned|precompiled|reloaded|reopened|reparsed|synced|touched|traced|treated|truncated",
        "undecided|undefined|undisturbed|unfinished|unmarked|unnamed|unreported|unsolved|watched",
    ];
    let words = words.join("|");
    Regex::new(&format!(r"(?:^|[^.:#\w])(?:{words}|{})(?:$|[^\w!])", words.to_uppercase())).unwrap()
});

/// An attribute, whose keys are not ours.
static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"#!?\[[^\]\n]*\]?").unwrap());

/// A name that is only a preposition and its object, and a timeout under another name.
static PREPOSITION_OR_LIMIT: LazyLock<Regex> = LazyLock::new(|| {
    let timeout = r"(?i:\w*(limit|grace|wait|retries|retry_period)): (Option<)?Duration\b";
    Regex::new(&format!(r"(?-u)\blet (mut )?\(?of_\w|\bof_\w+: |\b(fn of|OF)_|\b{timeout}")).unwrap()
});

/// A variable that is named by a gerund, and the start of its value.
static GERUND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\blet (mut )?_?(?<name>[a-z]+ing)\b(: [^=;]+)? =\s*(?<value>[^;]{0,200})").unwrap()
});

/// Nouns that end like gerunds.
const NOUNS_IN_ING: &[&str] = &[
    "beginning",
    "drawing",
    "encoding",
    "ending",
    "finding",
    "greeting",
    "heading",
    "listing",
    "mapping",
    "meaning",
    "missing",
    "nothing",
    "ordering",
    "packaging",
    "padding",
    "remaining",
    "setting",
    "sibling",
    "spelling",
    "staging",
    "string",
    "warning",
];

/// The plural that belongs to documents, as the name of numbers.
static INDEXES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(^|[^.\w])(\w+_)?indexes\b").unwrap());

/// Adjectives, participles and nouns without their role, as constants: of which file, which key, which
/// process, or the time for what.
static BARE_CONSTANT: LazyLock<Regex> = LazyLock::new(|| {
    let words = "FILE|FOREIGN|KEY|LOG|LONG|MISSING|OPTIONS|OTHER|PLANTED|PROCESS|PROTECTED|SHORT|TIMEOUT";
    Regex::new(&format!(r"(?-u)\b(?:const|static) (?:(?:{words}|MAX_LENGTH|MAX_SHOWN):|VM: &)")).unwrap()
});

/// A constant of one word whose value is a path. Its name ends in FILE, DIRECTORY, PROGRAM or PATH.
static PATH_CONSTANT: LazyLock<Regex> = LazyLock::new(|| {
    let path = r#"/[^":\s]*|\.[a-z][^"\s]*|[\w./-]*[\w-]\.[A-Za-z]{1,6}"#;
    Regex::new(&format!(r#"\b(?:const|static) [A-Z]+: &(?:'static )?(?:str|Path) =\s*"(?:{path})""#)).unwrap()
});

/// A function whose name is a question, not an action or a value.
static QUESTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)\bfn (?:how|what|when|where|whether|which|who|why)_").unwrap());

/// The name of a method or an associated function, where it is defined or called, such as `fn of`,
/// `Type::of`, `.named(` and `fn from` of a trait. A type or an argument completes the name.
static FUNCTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)(fn |::)(of|named)\b|fn from\(|\.named\(").unwrap());

/// `left` names a role only beside `right`.
static LEFT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?-u)\bleft\b").unwrap());
static RIGHT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?-u)\bright\b").unwrap());

/// The distance from a `left` to its `right`, at most.
const NEARBY_LINES: usize = 6;

/// Returns the numbers of lines that name a variable, a parameter or a field by a word that says nothing
/// about its role.
fn vague_names(text: &str) -> Vec<usize> {
    let code = Source::of(text).code;
    let code = ATTRIBUTE.replace_all(&code, "");
    let code = FUNCTION.replace_all(&code, "");
    let lines: Vec<&str> = code.lines().collect();
    let is_beside_right = |index: usize| {
        let mut nearby = lines.iter().take(index + NEARBY_LINES + 1).skip(index.saturating_sub(NEARBY_LINES));
        nearby.any(|line| RIGHT.is_match(line))
    };
    let is_vague = |(index, line): &(usize, &&str)| {
        VAGUE.is_match(line)
            || PARTICIPLE.is_match(line)
            || PREPOSITION_OR_LIMIT.is_match(line)
            || BARE_CONSTANT.is_match(line)
            || QUESTION.is_match(line)
            || INDEXES.is_match(line)
            || (LEFT.is_match(line) && !is_beside_right(*index))
    };
    let vague_lines = lines.iter().enumerate().filter(is_vague).map(|(index, _)| index + 1);
    let path_constants = PATH_CONSTANT.find_iter(text).map(|constant| line_number(text, constant.start()));
    // A gerund names a stage.
    let gerunds = GERUND.captures_iter(&code).filter(|variable| {
        !NOUNS_IN_ING.contains(&&variable["name"]) && !variable["value"].contains("stage")
    });
    let gerund_lines = gerunds.map(|variable| line_number(&code, variable.get(0).unwrap().start()));
    let numbers: BTreeSet<usize> = vague_lines.chain(path_constants).chain(gerund_lines).collect();
    numbers.into_iter().collect()
}

/// Returns the number of the line at an offset of a text.
fn line_number(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[test]
fn variables_are_named_by_their_role() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut problems = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz/fuzz_targets"] {
        for (path, text) in rust_files(&root.join(folder), &|_| true) {
            let lines = vague_names(&text).into_iter();
            problems.extend(lines.map(|line| format!("{folder}/{}:{line}", path.display())));
        }
    }
    assert!(problems.is_empty(), "\"Names\" in CONTRIBUTING.md:\n{}", problems.join("\n"));
}

/// Names in comments that are of other programs, of Rust, or examples.
const OTHER_NAMES: &[&str] = &[
    "AWS_CHECKSUM_ALGORITHM",
    "ConfigDrive",
    "DiskSettings",
    "Display",
    "Outer",
    "PREFIX_",
    "RFC3986_Parser",
    "U000000e4",
    "_1",
    "_2",
    "__LINE__",
    "_args",
    "a10",
    "a2",
    "accessKey",
    "async_trait",
    "ba",
    "copytruncate",
    "direnv",
    "flock",
    "httpproxy",
    "kIF_MOD",
    "key_name",
    "nohup",
    "object_store",
    "openstack_cpi",
    "u00",
    "u00e4",
    "write_printable_string",
];

/// Returns a name as it is compared: the name of a variant is the same word in JSON, in lower case.
fn comparable_name(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

/// Returns the words of a text, as they are compared.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|character: char| !character.is_alphanumeric() && character != '_').map(comparable_name)
}

/// A name or a path in backticks.
static PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)`([A-Za-z_]\w*(?:::\w+)*)(?:\(\))?!?`").unwrap());

/// A link of rustdoc without a target of its own, up to the first word of its path.
static LINK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[`([A-Za-z_]\w*)(?:::\w+)*(?:\(\))?!?`\](?:[^(]|$)").unwrap());

/// Returns the links in a comment whose target is neither in the code of the same file nor in a crate.
fn links_without_target(comment: &str, file_words: &BTreeSet<String>, crates: &Names) -> Vec<String> {
    let links = LINK.captures_iter(comment).map(|link| link.get(1).unwrap().as_str());
    let has_target =
        |name: &str| file_words.contains(&comparable_name(name)) || crates.words_by_crate.contains_key(name);
    let is_in_scope = |name: &str| ["Self", "self", "super", "crate"].contains(&name) || has_target(name);
    links.filter(|name| !is_in_scope(name)).map(str::to_owned).collect()
}

/// The names that exist.
#[derive(Default)]
struct Names {
    /// By crate, all words of its code.
    words_by_crate: BTreeMap<String, BTreeSet<String>>,
    /// Names outside of code: whole strings, such as the name of a method or a key, and code in documents.
    outside: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, crate_name: &str, source: &Source) {
        let crate_words = self.words_by_crate.entry(crate_name.to_owned()).or_default();
        crate_words.extend(words(&source.code));
        crate_words.extend(source.strings.iter().flat_map(|string| words(string)));
        self.outside.extend(source.strings.iter().map(|string| comparable_name(string)));
    }

    /// Returns the names in backticks in a comment of a crate that do not exist. Other code in backticks is
    /// ignored.
    fn missing(&self, crate_name: &str, comment: &str) -> Vec<String> {
        let mut missing = Vec::new();
        for path in PATH.captures_iter(comment).map(|code| code.get(1).unwrap().as_str()) {
            let first = path.split("::").next().unwrap();
            let exists = |name: &&str| {
                let in_crate = |name_of_crate: &str| {
                    self.words_by_crate
                        .get(name_of_crate)
                        .is_some_and(|names| names.contains(&comparable_name(name)))
                };
                in_crate(crate_name)
                    || in_crate(first)
                    || self.words_by_crate.contains_key(*name)
                    || (*name == first && self.outside.contains(&comparable_name(name)))
                    || OTHER_NAMES.contains(name)
            };
            missing.extend(path.split("::").filter(|name| !exists(name)).map(str::to_owned));
        }
        missing
    }
}

#[test]
fn comments_name_what_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crate_of = |path: &Path| {
        let folder = path.iter().next().unwrap().to_string_lossy().into_owned();
        if root.join("src").join(&folder).join("Cargo.toml").exists() {
            folder
        } else {
            "monopile".to_owned()
        }
    };
    let files: Vec<_> = rust_files(&root.join("src"), &|_| true)
        .into_iter()
        .map(|(path, text)| (crate_of(&path), path, Source::of(&text)))
        .collect();
    let mut names = Names::default();
    for (crate_name, _, source) in &files {
        names.add(crate_name, source);
    }
    let in_document = Regex::new("`([^`\n]+)`").unwrap();
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "md") {
            let text = std::fs::read_to_string(path).unwrap();
            names.outside.extend(in_document.captures_iter(&text).map(|code| comparable_name(&code[1])));
        }
    }
    let mut problems = Vec::new();
    for (crate_name, path, source) in &files {
        let file_words: BTreeSet<String> = words(&source.code).collect();
        for (line, comment) in &source.comments {
            let links = links_without_target(comment, &file_words, &names);
            let missing = names.missing(crate_name, comment).into_iter().chain(links);
            problems.extend(missing.map(|name| format!("src/{}:{line}: `{name}`", path.display())));
        }
    }
    let hint = "no code has these names (OTHER_NAMES lists those of other programs)";
    assert!(problems.is_empty(), "{hint}:\n{}", problems.join("\n"));
}

#[test]
fn finds_vague_names() {
    let code = "let mut found = 1;\nlet found_jobs = 2; // found\nf(|here| \"there\n{known}\");\n\
                struct S {\n    wanted: bool,\n}\nlet quote = '\"'; let said = r#\"\"seen\"#;\n";
    assert_eq!(vague_names(code), [1, 3, 6, 8]);
    let far_apart = format!("let left = 1;{}let right = left;", "\n".repeat(NEARBY_LINES + 1));
    assert_eq!(vague_names(&far_apart), [1]);
    assert_eq!(vague_names("let left = 1;\n\nlet right = left;"), [0; 0]);
    assert_eq!(vague_names("f(own, &self.given);"), [1]);
    assert_eq!(
        vague_names("let near = near_name();\nf(|lost| { let nearest = 1; });\nlet below = 1;"),
        [1, 2, 3]
    );
    assert_eq!(vague_names("let of_jobs = of_type();\nf(|of_job: u8| 1);\nfn of_type() {}"), [1, 2, 3]);
    assert_eq!(vague_names("limit: Option<Duration>,\nlimit: usize,\ntimeout: Duration,"), [1]);
    assert_eq!(vague_names("const TERM_GRACE: Duration =\nconst RETRY_PAUSE: Duration ="), [1]);
    assert_eq!(
        vague_names("const OWN: u8 = 1;\nlet of = 2;\nfn of(a: u8) {}\nType::of(a.named(b));"),
        [1, 2]
    );
    assert_eq!(
        vague_names(
            "let _asking = a;\nlet asking = run.begin_stage(b);\nlet padding = 1;\nconst KEY: u8 = 1;\n\
             f(&list_indexes);"
        ),
        [1, 4, 5]
    );
}

#[test]
fn finds_constants_without_role_and_functions_that_ask() {
    assert_eq!(
        vague_names(
            "const LOCK: &str = \"state.lock\";\nconst SOCKETS: &str =\n    \"/run/x\";\n\
             const LOCK_FILE: &str = \"state.lock\";\nconst HOST: &str = \"127.0.0.1\";\nfn why_not() {}"
        ),
        [1, 2, 6]
    );
}

#[test]
fn finds_links_without_target() {
    let mut names = Names::default();
    names.add("ui", &Source::of("enum Line { Begun }"));
    let file_words = words("const OWN_OPTIONS: u8 = 1;").collect();
    let links = |comment: &str| links_without_target(comment, &file_words, &names);
    assert_eq!(
        links("// [`OPTIONS`], [`OPTIONS`](super::OPTIONS), `OPTIONS`, [`OPTIONS::a()`]"),
        ["OPTIONS"; 2]
    );
    assert_eq!(links("// [`OWN_OPTIONS`], [`ui::Line`], [`Self::new`]"), [""; 0]);
}

#[test]
fn finds_names_that_do_not_exist() {
    let mut names = Names::default();
    let code = "fn numbered_flag(to_stderr: bool) {} // numbered\n\
                struct Interp { is_patched: bool }\nf(\"create_vm\");";
    names.add("erb", &Source::of(code));
    names.add("ui", &Source::of("enum Line { Begun }"));
    let missing = |comment: &str| names.missing("erb", comment);
    assert_eq!(
        missing("// If `trouble`, see [`numbered`] and `Interp::patched`."),
        ["trouble", "numbered", "patched"]
    );
    assert_eq!(
        missing("// `to_stderr`, [`Interp::is_patched`], `ui::Line`, `create_vm`, `a b`, `ui`"),
        [""; 0]
    );
    assert_eq!(names.missing("ui", "// `begun`, `create_vm`, `erb::numbered_flag()`, `Interp`"), ["Interp"]);
}
