//! Checks the layers: crates use only those below them in the table of `docs/architecture.md`, and modules
//! only those before them. Also checks that the code defines the names on the pages for developers, in the
//! files to which the pages attribute them, and in the modules of the engine that begin at them. Checks the
//! values of the table of open calls, and that the tests exist that `docs/conformance.md` names.
//!
//! `MONOPILE_UPDATE=1 cargo test --test it layers` writes the generated parts of the pages again: the graph
//! of crates, and the list of test modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::prose::names::Source;
use crate::support::is_updating;

/// The map of the code, with the table of layers.
const ARCHITECTURE_FILE: &str = "docs/architecture.md";
/// The recipes for changes, with the list of test modules.
const RECIPES_FILE: &str = "docs/recipes.md";
/// The rules of state and journal, with the table of open calls.
const JOURNAL_FILE: &str = "docs/journal.md";
/// The pages about the code.
const PAGES: [&str; 4] = [ARCHITECTURE_FILE, RECIPES_FILE, JOURNAL_FILE, "docs/glossary.md"];
/// The page with the requirements and their tests.
const REQUIREMENTS_FILE: &str = "docs/conformance.md";

/// The files of a crate that are no modules.
const ROOTS: [&str; 3] = ["build", "lib", "main"];

/// A crate, as its files describe it.
#[derive(Default)]
struct Member {
    name: String,
    /// The crates of the workspace in its `[dependencies]`.
    dependencies: BTreeSet<String>,
    /// The texts by path below the crate's root (`eval/calls.rs`).
    files: BTreeMap<PathBuf, String>,
}

/// A row of the table: a crate and its modules in order.
struct Layer {
    name: String,
    modules: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text between `<!-- name -->` and `<!-- /name -->`.
fn section<'t>(document: &'t str, name: &str) -> &'t str {
    let (start, end) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let (_, rest) = document.split_once(&start).unwrap_or_else(|| panic!("no '{start}' on the page"));
    rest.split_once(&end).unwrap_or_else(|| panic!("no '{end}' on the page")).0
}

fn layers(document: &str) -> Vec<Layer> {
    let quoted_words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = section(document, "layers").lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').collect();
        Layer { name: quoted_words(cells[1]).remove(0), modules: quoted_words(cells[2]) }
    })
    .collect()
}

/// Returns the crates of the workspace: the members below `src/`, and the root package with the remaining
/// files.
fn members() -> Vec<Member> {
    let manifest = read("Cargo.toml");
    let list = manifest.lines().find(|line| line.starts_with("members = ")).expect("a workspace");
    let folders: Vec<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let names: BTreeSet<String> =
        folders.iter().map(|folder| folder.trim_start_matches("src/").to_owned()).collect();
    let mut members: Vec<Member> = folders
        .iter()
        .map(|folder| Member {
            name: folder.trim_start_matches("src/").to_owned(),
            dependencies: dependencies(&read(format!("{folder}/Cargo.toml")), &names),
            files: sources(&root().join(folder), &|_| true),
        })
        .collect();
    members.push(Member {
        name: "monopile".to_owned(),
        dependencies: dependencies(&manifest, &names),
        files: sources(&root().join("src"), &|path| {
            path.iter().next().is_none_or(|first| !names.contains(&*first.to_string_lossy()))
        }),
    });
    members
}

fn dependencies(manifest: &str, names: &BTreeSet<String>) -> BTreeSet<String> {
    let section = manifest.split("\n[").find_map(|part| part.strip_prefix("dependencies]")).unwrap_or("");
    section
        .lines()
        .filter_map(|line| line.split_once('.').or_else(|| line.split_once(' ')))
        .map(|(name, _)| name.to_owned())
        .filter(|name| names.contains(name))
        .collect()
}

/// Returns the Rust files below a folder, without files of tests.
pub(crate) fn sources(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> BTreeMap<PathBuf, String> {
    rust_files(folder, &|path| is_wanted(path) && !path.to_string_lossy().ends_with("tests.rs"))
}

/// Returns the Rust files below a folder. Their paths are relative to it.
pub(crate) fn rust_files(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> BTreeMap<PathBuf, String> {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"))
        .map(|entry| entry.path().strip_prefix(folder).unwrap().to_owned())
        .filter(|path| is_wanted(path))
        .map(|path| {
            let text = fs::read_to_string(folder.join(&path)).unwrap();
            (path, text)
        })
        .collect()
}

/// Returns the text without the tests at its end.
pub(crate) fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Returns the text without comments, string literals and the tests at its end.
fn code(text: &str) -> String {
    let text = without_tests(text);
    let noise = regex::Regex::new(r##"(?m)//.*$|r#"[\s\S]*?"#|"(?:[^"\\]|\\[\s\S])*""##);
    noise.unwrap().replace_all(text, " ").into_owned()
}

/// Returns the full paths that a `use` tree names.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.split_whitespace().next().unwrap_or_default().to_owned()];
    };
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start, mut paths) = (0_usize, 0, Vec::new());
    for (index, character) in inner.char_indices().chain([(inner.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = inner[start..index].trim();
                if !item.is_empty() {
                    paths.extend(expand(item).into_iter().map(|path| format!("{}{path}", prefix.trim())));
                }
                start = index + 1;
            }
            _ => {}
        }
    }
    paths
}

/// Returns the top-level name of a path, seen from the module `module_path`.
fn top(path: &str, module_path: &[String]) -> Option<String> {
    let mut parts = path.split("::").peekable();
    let mut module = match *parts.peek()? {
        "crate" => {
            parts.next();
            Vec::new()
        }
        "super" => module_path.to_vec(),
        _ => return None,
    };
    while parts.next_if_eq(&"super").is_some() {
        module.pop();
    }
    module.into_iter().chain(parts.map(str::to_owned)).find(|part| !part.is_empty())
}

/// Returns the names that a crate's root re-exports, with their modules.
fn exports(files: &BTreeMap<PathBuf, String>) -> BTreeMap<String, String> {
    let text = files.get(Path::new("lib.rs")).map(|text| code(text)).unwrap_or_default();
    let uses = regex::Regex::new(r"\bpub(?:\([^)]*\))? use ([^;]*);").unwrap();
    let mut exports = BTreeMap::new();
    for tree in uses.captures_iter(&text) {
        // `a::b as c` is known as c.
        let alias = tree[1].rsplit_once(" as ").map(|(_, name)| name.trim().to_owned());
        for path in expand(&tree[1]) {
            let path = path.trim_start_matches("crate::").trim_start_matches("self::").to_owned();
            if let (Some((module, _)), Some(name)) = (path.split_once("::"), path.rsplit("::").next()) {
                exports.insert(alias.clone().unwrap_or_else(|| name.to_owned()), module.to_owned());
            }
        }
    }
    exports
}

/// Returns the uses between top-level modules of a crate, each with a file that contains it.
fn uses(member: &Member) -> BTreeMap<(String, String), PathBuf> {
    let exports = exports(&member.files);
    let trees = regex::Regex::new(r"\buse ((?:crate|super)::[^;]*);").unwrap();
    let paths = regex::Regex::new(r"\b((?:crate|super)(?:::\w+)+)").unwrap();
    let mut uses = BTreeMap::new();
    for (file, text) in &member.files {
        let mut module_path: Vec<String> =
            file.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let last = module_path.pop().unwrap_or_default();
        if last != "mod.rs" {
            module_path.push(last.trim_end_matches(".rs").to_owned());
        }
        let Some(module) = module_path.first().filter(|module| !ROOTS.contains(&module.as_str())).cloned()
        else {
            continue;
        };
        let text = code(text);
        let used_paths = trees.captures_iter(&text).flat_map(|tree| expand(&tree[1]));
        let rest = trees.replace_all(&text, "");
        let used_paths: Vec<String> =
            used_paths.chain(paths.captures_iter(&rest).map(|path| path[1].to_owned())).collect();
        for name in used_paths.iter().filter_map(|path| top(path, &module_path)) {
            let used_module = exports.get(&name).cloned().unwrap_or(name);
            if used_module != module {
                uses.entry((module.clone(), used_module)).or_insert_with(|| file.clone());
            }
        }
    }
    uses
}

/// Returns one sentence for each violation of the table.
fn violations(members: &[Member], layers: &[Layer]) -> Vec<String> {
    let mut problems = Vec::new();
    let position = |name: &str| layers.iter().position(|layer| layer.name == name);
    for member in members {
        let Some(own_position) = position(&member.name) else {
            problems.push(format!("the table lacks the crate '{}'", member.name));
            continue;
        };
        for dependency in &member.dependencies {
            if position(dependency).is_none_or(|other| other <= own_position) {
                problems
                    .push(format!("crate '{}' may not use '{dependency}', which is above it", member.name));
            }
        }
        let modules = &layers[own_position].modules;
        let order = |module: &str| modules.iter().position(|other| other == module);
        let module_name = |path: &PathBuf| {
            let first = path.iter().next().unwrap_or_default().to_string_lossy().into_owned();
            first.trim_end_matches(".rs").to_owned()
        };
        let module_names: BTreeSet<String> =
            member.files.keys().map(module_name).filter(|name| !ROOTS.contains(&name.as_str())).collect();
        for module in module_names.iter().filter(|module| order(module).is_none()) {
            problems.push(format!("the table lacks the module '{module}' of the crate '{}'", member.name));
        }
        for module in modules.iter().filter(|module| !module_names.contains(*module)) {
            problems.push(format!("the table names a module '{module}' that crate '{}' lacks", member.name));
        }
        for ((module, used_module), file) in uses(member) {
            if module_names.contains(&used_module) && order(&used_module) > order(&module) {
                problems.push(format!(
                    "{}: {} uses '{used_module}', which stands after '{module}' in the table",
                    member.name,
                    file.display()
                ));
            }
        }
    }
    problems
}

#[test]
fn crates_and_modules_keep_the_order_of_the_table() {
    let problems = violations(&members(), &layers(&read(ARCHITECTURE_FILE)));
    assert!(problems.is_empty(), "see {ARCHITECTURE_FILE}:\n{}", problems.join("\n"));
}

#[test]
fn crate_graph_is_up_to_date() {
    let document = read(ARCHITECTURE_FILE);
    let members = members();
    let lines = layers(&document).into_iter().filter_map(|layer| {
        let member = members.iter().find(|member| member.name == layer.name)?;
        let dependencies: Vec<&str> = member.dependencies.iter().map(String::as_str).collect();
        Some(format!("{} -> {}", layer.name, dependencies.join(" ")).trim_end().to_owned())
    });
    let graph = format!("\n```text\n{}\n```\n", lines.collect::<Vec<_>>().join("\n"));
    assert_section(ARCHITECTURE_FILE, "crates", &graph);
}

/// Fails if a generated section of a page is stale. Writes it first when updating.
fn assert_section(path: &str, name: &str, expected: &str) {
    let document = read(path);
    if is_updating() {
        fs::write(root().join(path), document.replace(section(&document, name), expected)).unwrap();
    }
    let hint = "run MONOPILE_UPDATE=1 cargo test --test it layers";
    assert_eq!(section(&read(path), name), expected, "'{name}' in {path} is stale; {hint}");
}

/// Returns the first sentence of a file's head (`//!`).
fn summary(text: &str) -> String {
    let head = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let head = head.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let sentence = head.split(". ").next().unwrap_or_default();
    sentence.trim_end_matches('.').to_owned()
}

#[test]
fn list_of_test_modules_is_up_to_date() {
    let main = read("tests/it/main.rs");
    let modules = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let rows = modules.map(|module| {
        let folder = format!("tests/it/{module}/mod.rs");
        let file = if root().join(&folder).exists() { folder } else { format!("tests/it/{module}.rs") };
        format!("| `{module}` | {} |\n", summary(&read(file)))
    });
    let table = format!("\n| module | subject |\n|---|---|\n{}", rows.collect::<String>());
    assert_section(RECIPES_FILE, "tests", &table);
}

#[test]
fn table_of_the_engine_has_every_module_in_order() {
    let document = read(ARCHITECTURE_FILE);
    let rows =
        section(&document, "engine").lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let layers = layers(&document);
    let engine = layers.iter().find(|layer| layer.name == "engine").expect("the table has the engine");
    assert_eq!(rows.collect::<Vec<_>>(), engine.modules);
}

/// Returns the variants of an enum.
fn variants(text: &str, name: &str) -> BTreeSet<String> {
    let body = regex::Regex::new(&format!(r"(?s)\benum {name}\b.*?\n\}}")).unwrap().find(text);
    let variant = regex::Regex::new(r"(?m)^    ([A-Z]\w*)").unwrap();
    variant
        .captures_iter(body.map_or("", |body| body.as_str()))
        .map(|variant| variant[1].to_owned())
        .collect()
}

#[test]
fn table_of_open_calls_has_the_values_of_each_type() {
    let document = read(JOURNAL_FILE);
    let row = regex::Regex::new(r"(?m)^\| `(\w+)` in `(.+?)` \|.*\|(.*)\|$").unwrap();
    let rows: Vec<_> = row.captures_iter(section(&document, "open calls")).collect();
    assert!(!rows.is_empty());
    for row in rows {
        let values = row[3].split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(values, variants(&read(format!("src/engine/{}", &row[2])), &row[1]), "{}", &row[1]);
    }
}

/// Words on the pages that are of Rust, of other crates and of BOSH.
const OTHER_WORDS: &[&str] = &[
    "Arg",
    "BOSH_ALL_PROXY",
    "HTTP_PROXY",
    "conflicts_with_all",
    "instance_groups",
    "object_store",
    "serde_yaml",
    "tokio",
    "type",
    "unwrap",
    "use",
];

/// Returns the names that Rust code defines: items, closures, fields, variants, and keys of `serde`.
fn definitions(text: &str) -> BTreeSet<String> {
    let item = r"\b(?:fn|struct|enum|union|const|static|type|trait|mod|macro_rules!)\s+(?:mut\s+)?(\w+)";
    let item = regex::Regex::new(&format!(r"{item}|\blet (\w+) = (?:move )?\|")).unwrap();
    let key = regex::Regex::new("\\brename = \"(\\w+)\"").unwrap();
    // rustfmt puts a body on one line, or its end below its start.
    let body_start = r"^( *)(?:pub(?:\([^)]*\))? )?(?:struct|enum|union)\b[^{;]*\{(?: (.*) \})?$";
    let body_start = regex::Regex::new(body_start).unwrap();
    let member = r"^\s*(?:pub(?:\([^)]*\))? )?(?:(\w+):|([A-Z]\w*)\s*(?:[(=]|$))";
    let member = regex::Regex::new(member).unwrap();
    let names_of = |pattern: &regex::Regex, text: &str| -> Vec<String> {
        let groups = pattern.captures_iter(text).filter_map(|groups| groups.iter().flatten().nth(1));
        groups.map(|name| name.as_str().to_owned()).collect()
    };
    let mut names: BTreeSet<String> = names_of(&key, without_tests(text)).into_iter().collect();
    let code = Source::of(without_tests(text)).code;
    names.extend(names_of(&item, &code));
    let members_in =
        |text: &str| text.split([',', '{']).flat_map(|part| names_of(&member, part)).collect::<Vec<_>>();
    let mut body_end: Option<String> = None;
    for line in code.lines().map(str::trim_end) {
        match (&body_end, body_start.captures(line)) {
            (Some(end), _) if line == end => body_end = None,
            (Some(_), _) => names.extend(members_in(line)),
            (None, Some(start)) => match start.get(2) {
                Some(members) => names.extend(members_in(members.as_str())),
                None => body_end = Some(format!("{}}}", &start[1])),
            },
            (None, None) => {}
        }
    }
    names
}

/// Returns the quoted names of a page that do not exist: paths below the root of the repository, `src` or
/// `src/engine`, and identifiers (`a::b`), each part of which must be among the `defined_names`.
fn unknown_names(page: &str, defined_names: &BTreeSet<String>, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let code_block = regex::Regex::new(r"(?m)^```[\s\S]*?^```").unwrap();
    let backtick_text = regex::Regex::new("`([^`\n]+)`").unwrap();
    let path = regex::Regex::new(r"^[\w.-]*/[\w./-]+$|^\w+\.rs$").unwrap();
    let identifier = regex::Regex::new(r"^[A-Za-z]\w*(::\w+)*(\(\))?$").unwrap();
    let page = code_block.replace_all(page, "");
    let names = backtick_text.captures_iter(&page).map(|name| name[1].to_owned());
    names
        .filter(|name| {
            let is_placeholder = name.contains("NAME") || name.contains("ID.");
            if path.is_match(name) {
                !is_placeholder
                    && !["", "src/", "src/engine/"].iter().any(|base| exists(&format!("{base}{name}")))
            } else {
                let is_known = |part: &str| defined_names.contains(part) || OTHER_WORDS.contains(&part);
                identifier.is_match(name) && !name.trim_end_matches("()").split("::").all(is_known)
            }
        })
        .collect()
}

/// Returns the names that the code defines, those of its files, folders and packages, and the names of
/// variants in snake case, which files have.
fn defined_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let word_start = regex::Regex::new("([a-z0-9])([A-Z])").unwrap();
    for folder in ["src", "tests", "benches"] {
        for (path, text) in rust_files(&root().join(folder), &|path| !path.ends_with("layers.rs")) {
            for name in definitions(&text) {
                names.insert(word_start.replace_all(&name, "${1}_$2").to_lowercase());
                names.insert(name);
            }
            for part in path.iter().map(|part| part.to_string_lossy().into_owned()) {
                names.extend(part.strip_suffix(".rs").map(str::to_owned));
                names.insert(part);
            }
        }
    }
    names.extend(members().into_iter().map(|member| member.name));
    names
}

#[test]
fn names_on_the_pages_exist() {
    let defined_names = defined_names();
    for path in PAGES {
        let page = read(path);
        let exists = |path: &str| root().join(path).exists() || defined_names.contains(path);
        let unknown_names = unknown_names(&page, &defined_names, &exists);
        let hint = "names what is defined nowhere (OTHER_WORDS lists those of other programs)";
        assert!(unknown_names.is_empty(), "{path} {hint}:\n{}", unknown_names.join("\n"));
        let misplaced_names = misplaced_names(&page, &|path| {
            let bases = ["", "src", "src/engine"].into_iter();
            bases.map(|base| root().join(base).join(path)).find_map(|path| fs::read_to_string(path).ok())
        });
        assert!(misplaced_names.is_empty(), "{path} names a wrong file:\n{}", misplaced_names.join("\n"));
    }
}

/// Returns the names that a page attributes to a file (`` `X`, `Y` of `path.rs` ``) and that it does not
/// define. `` `X` there `` belongs to the file that the paragraph or table names before it.
fn misplaced_names(page: &str, text_of: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let attribution =
        regex::Regex::new(r"((?:`\w+`(?:,\s|\sand\s|\sor\s)?)+)\s(?:of|in)\s`([\w./-]+\.rs)`").unwrap();
    let attribution_there = regex::Regex::new(r"((?:`\w+`(?:,\s|\sand\s|\sor\s)?)+)\sthere\b").unwrap();
    let file = regex::Regex::new(r"`([\w./-]+\.rs)`").unwrap();
    let backtick_text = regex::Regex::new(r"`(\w+)`").unwrap();
    let direct = attribution.captures_iter(page).map(|captures| {
        let [names, path] = captures.extract().1;
        (names, path)
    });
    let indirect = attribution_there.captures_iter(page).filter_map(|captures| {
        let names = captures.get(1).unwrap();
        let paragraph = page[..names.start()].rsplit("\n\n").next().unwrap();
        Some((names.as_str(), file.captures_iter(paragraph).last()?.extract::<1>().1[0]))
    });
    let mut misplaced_names = Vec::new();
    for (names, path) in direct.chain(indirect) {
        let names_of_file = definitions(&text_of(path).unwrap_or_default());
        let names = backtick_text.captures_iter(names).map(|name| name[1].to_owned());
        let missing = names.filter(|name| !names_of_file.contains(name));
        misplaced_names.extend(missing.map(|name| format!("{name} of {path}")));
    }
    misplaced_names
}

#[test]
fn each_module_of_the_engine_has_its_beginnings() {
    let document = read(ARCHITECTURE_FILE);
    let backtick_text = regex::Regex::new(r"`([\w:]+)`").unwrap();
    let mut missing = Vec::new();
    for row in section(&document, "engine").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let module = cells[1].trim_matches('`');
        let path = root().join("src/engine").join(module);
        let mut names = BTreeSet::from([module.to_owned()]);
        if path.is_dir() {
            names.extend(rust_files(&path, &|_| true).values().flat_map(|text| definitions(text)));
        } else {
            names.extend(definitions(&read(path.with_extension("rs"))));
        }
        for begin in backtick_text.captures_iter(cells[3]) {
            let parts = begin[1].split("::").filter(|part| !names.contains(*part));
            missing.extend(parts.map(|part| format!("{part} of {module}")));
        }
    }
    assert!(missing.is_empty(), "{ARCHITECTURE_FILE} begins at what is not there:\n{}", missing.join("\n"));
}

#[test]
fn finds_names_that_are_in_another_file() {
    let page = "`A`, `B` of `x.rs`, `C` and `D` in\n`y.rs`, `E` of that file, `A` in `gone.rs`\n\n\
                `C`, `A` there; `Bc` in `x.rs`, and `A` or `D` there\n";
    let text_of = |path: &str| match path {
        "x.rs" => Some("struct A; struct Bc; // B\nfn f(B: u8) { let a = \"struct B\"; }".to_owned()),
        "y.rs" => Some("struct C {\n    D: u8,\n}".to_owned()),
        _ => None,
    };
    assert_eq!(misplaced_names(page, &text_of), ["B of x.rs", "A of gone.rs", "D of x.rs"]);
}

#[test]
fn definitions_are_no_words() {
    let code = "mod m;\nmacro_rules! n { () => {} }\n\
                pub(crate) struct A {\n    pub(super) b: C,\n    d: E,\n}\n\
                enum F { G, H(I) }\nenum J {\n    #[serde(rename = \"k\")]\n    L { o: P },\n    Q = 1,\n}\n\
                fn r(s: T) {\n    let u = 1;\n    let v = |w| U {\n        x: w,\n    };\n}\n";
    let expected = ["A", "F", "G", "H", "J", "L", "Q", "b", "d", "k", "m", "n", "o", "r", "v"];
    assert_eq!(definitions(code).iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn finds_names_that_do_not_exist() {
    let page = "`a::B` `a::C` `gone.rs` `here/x.rs` `here/NAME.rs` `here/y.rs` `any words` `C` `tokio`\n\
                ```text\n`gone.rs`\n```\n";
    let defined_names = ["a", "B"].map(str::to_owned).into();
    let unknown = unknown_names(page, &defined_names, &|path| path == "src/here/x.rs");
    assert_eq!(unknown, ["a::C", "gone.rs", "here/y.rs", "C"]);
}

/// Returns the tests that a page names (`path.rs::function`) and that do not exist.
fn missing_tests(page: &str, text_of: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let test_path = regex::Regex::new(r"`([\w./-]+\.rs)::(\w+)`").unwrap();
    let names = test_path.captures_iter(page).map(|name| (name[1].to_owned(), name[2].to_owned()));
    names
        .filter(|(path, function)| {
            text_of(path).is_none_or(|text| !text.contains(&format!("fn {function}(")))
        })
        .map(|(path, function)| format!("{path}::{function}"))
        .collect()
}

#[test]
fn tests_of_requirements_exist() {
    let missing = missing_tests(&read(REQUIREMENTS_FILE), &|path| fs::read_to_string(root().join(path)).ok());
    assert!(missing.is_empty(), "{REQUIREMENTS_FILE} names what does not exist:\n{}", missing.join("\n"));
}

#[test]
fn finds_tests_that_do_not_exist() {
    let page = "| `a/x.rs::one` | `a/x.rs::two` |\n`gone.rs::one` `one`\n";
    let text_of = |path: &str| (path == "a/x.rs").then(|| "fn one() {}\nfn two_more() {}".to_owned());
    assert_eq!(missing_tests(page, &text_of), ["a/x.rs::two", "gone.rs::one"]);
}

/// Checks that every kind of violation is found.
#[test]
fn finds_a_dependency_against_the_order() {
    let layer = |name: &str, modules: &[&str]| Layer {
        name: name.to_owned(),
        modules: modules.iter().map(|module| (*module).to_owned()).collect(),
    };
    let layers = [layer("high", &["only"]), layer("low", &["first", "second"])];
    let violations_of = |name: &str, dependencies: &[&str], files: &[(&str, &str)]| {
        let member = Member {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
            files: files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect(),
        };
        violations(&[member], &layers)
    };
    let low = |first: &str, lib: &str| {
        violations_of(
            "low",
            &[],
            &[("lib.rs", lib), ("first/deep.rs", first), ("second.rs", "use crate::first::A;")],
        )
    };
    assert_eq!(low("// crate::second::X\nlet a = \"crate::second\";", ""), [""; 0]);
    for code in [
        "use crate::second::X;",
        "use crate::{first::Y, second::{X, Z}};",
        "use super::super::second;",
        "fn f() { crate::second::g() }",
        "use crate::X;",
    ] {
        let problems = low(code, "mod first; mod second; pub use second::X;");
        assert_eq!(
            problems,
            ["low: first/deep.rs uses 'second', which stands after 'first' in the table"],
            "{code}"
        );
    }
    assert_eq!(violations_of("low", &["high"], &[("first.rs", ""), ("second.rs", "")]).len(), 1);
    assert_eq!(violations_of("high", &["low"], &[("only.rs", "")]), [""; 0]);
    assert_eq!(violations_of("high", &[], &[("only.rs", ""), ("other.rs", "")]).len(), 1);
    assert_eq!(violations_of("high", &[], &[]).len(), 1);
    assert_eq!(violations_of("unknown", &[], &[]).len(), 1);
}
