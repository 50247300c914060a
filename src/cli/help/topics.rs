//! The pages of the book inside the program, because an installed binary may come without documents.

use std::io::Read as _;

use super::markdown::{self, MessageRow, Section};
use super::search::SearchWords;

/// A page of the book.
pub struct Topic {
    /// Its word in `monopile help WORD`.
    pub name: &'static str,
    /// The name of its file in `docs`, without the extension.
    pub(super) file: &'static str,
    /// Its subject.
    pub subject: &'static str,
    /// The text in Markdown, as the build script compressed it.
    deflated_text: &'static [u8],
}

macro_rules! topic {
    ($name:literal, $subject:literal) => {
        topic!($name, $name, $subject)
    };
    ($name:literal, $file:literal, $subject:literal) => {
        Topic {
            name: $name,
            file: $file,
            subject: $subject,
            deflated_text: include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".deflate")),
        }
    };
}

/// All pages for operators and authors of CPIs, in the order of the book.
pub static TOPICS: [Topic; 34] = [
    topic!("index", "Find the page for a task"),
    topic!("concepts", "The words of BOSH and monopile, in five minutes"),
    topic!("install", "Install, complete commands in a shell, remove"),
    topic!("tour", "Deploy, change, kill and delete an example"),
    topic!("manifest", "All keys of a manifest"),
    topic!("examples", "Examples that ship with monopile"),
    topic!("migration", "Take over an environment from bosh"),
    topic!("env-file", "Keep the options of an environment in a file"),
    topic!("changes", "Which change keeps the VM"),
    topic!("operating", "Status, logs, ssh, repair, single disks, limits"),
    topic!("troubleshooting", "Error messages, and what to do"),
    topic!("pipelines", "Concourse, GitHub Actions, GitLab; exit codes"),
    topic!("downloads", "Downloads, proxies and the cache"),
    topic!("shared-cache", "Share downloads and compiled packages"),
    // `monopile help state` is about the command.
    topic!("state-file", "state", "The state file, its backups and versions"),
    topic!("shared-state", "Keep the state in a bucket: S3, GCS, Azure, others"),
    topic!("encryption", "Encrypt state and vars store with age"),
    topic!("vars-exec", "Take secrets from Vault, CredHub, sops, pass, …"),
    topic!("secrets", "Which passwords and other secrets are redacted"),
    topic!("local", "The CPI `local`: VMs made of processes"),
    topic!("qemu", "The CPI `qemu`: VMs with a kernel, with or without KVM"),
    topic!("userland", "Compile and run a CPI without a toolchain"),
    topic!("several-cpis", "One manifest for several clouds, and moves"),
    topic!("cloud-config", "Manifests of a director, with a cloud config"),
    topic!("ironic", "Bare metal: the CPI `ironic`"),
    topic!("contract-v1", "Old CPIs and stemcells"),
    topic!("cpi-authors", "Write, check and record a CPI"),
    topic!("templates", "Job templates without Ruby"),
    topic!("reference", "All commands and options, exit codes, files"),
    topic!("reference-baremetal", "All commands of `monopile baremetal`"),
    topic!("events", "The JSON that commands print"),
    topic!("performance", "How fast monopile is, and how to measure it"),
    topic!("safety", "Why a killed run loses nothing"),
    topic!("security", "What monopile trusts, and its bounds"),
];

impl Topic {
    /// Returns the page for a terminal, or a pipe, with this number of columns.
    pub(super) fn render(&self, columns: usize, is_styled: bool) -> String {
        render(&self.text(), columns, is_styled)
    }

    /// Returns its sections, in order.
    pub(super) fn sections(&self) -> Vec<Section> {
        markdown::sections(&self.text())
    }

    /// Returns the rows that lead from messages to sections, if the page has them.
    pub(super) fn message_rows(&self) -> Vec<MessageRow> {
        match self.name {
            "troubleshooting" => markdown::message_rows(&self.text()),
            _ => Vec::new(),
        }
    }

    /// Returns the sections of the page that the words name: by their headings or the beginning of these,
    /// else those whose headings have all words, and those that explain a message with these words.
    pub(super) fn named_sections<'s>(&self, sections: &'s [Section], words: &str) -> Vec<&'s Section> {
        let named_sections = named_sections(sections, words);
        if !named_sections.is_empty() {
            return named_sections;
        }
        let search_words = SearchWords::new(words);
        let rows = self.message_rows();
        let targets = search_words.sections_of_message(&rows);
        let is_target = |section: &Section| {
            targets.iter().any(|target| target.strip_prefix('#') == Some(&*section.anchor))
        };
        sections.iter().filter(|section| search_words.are_in(&section.title) || is_target(section)).collect()
    }

    /// Returns the text in Markdown.
    fn text(&self) -> String {
        let mut text = String::new();
        // The program contains what the build script packed, so it can always be unpacked.
        let _ = flate2::read::DeflateDecoder::new(self.deflated_text).read_to_string(&mut text);
        text
    }
}

impl Section {
    /// Returns the section for a terminal, or a pipe, with this number of columns.
    pub(super) fn render(&self, columns: usize, is_styled: bool) -> String {
        render(&self.markdown, columns, is_styled)
    }
}

/// Renders a page or a section of one.
fn render(text: &str, columns: usize, is_styled: bool) -> String {
    let name_of = |file: &str| TOPICS.iter().find(|topic| topic.file == file).map(|topic| topic.name);
    markdown::render(text, columns, is_styled, &name_of)
}

/// Returns the sections that the words name: the one with this anchor or heading, else those whose headings
/// begin with the words. Upper and lower case are the same, and an article at the beginning does not matter.
fn named_sections<'s>(sections: &'s [Section], words: &str) -> Vec<&'s Section> {
    let anchor = markdown::anchor(words);
    let bare_anchor = without_article(&anchor);
    // The references have a section for each command.
    let command_anchor = format!("monopile-{anchor}");
    let begins_so = |section: &&Section| {
        section.anchor.starts_with(&anchor) || without_article(&section.anchor).starts_with(bare_anchor)
    };
    let same = sections.iter().find(|section| section.anchor == anchor || section.anchor == command_anchor);
    let same =
        same.or_else(|| sections.iter().find(|section| without_article(&section.anchor) == bare_anchor));
    if let Some(section) = same {
        return vec![section];
    }
    sections.iter().filter(begins_so).collect()
}

/// Returns an anchor without an article at its beginning.
fn without_article(anchor: &str) -> &str {
    ["the-", "an-", "a-"].iter().find_map(|article| anchor.strip_prefix(article)).unwrap_or(anchor)
}

/// Returns the section whose anchor the words may be, with a typing error.
pub(super) fn similar_section<'s>(sections: &'s [Section], words: &str) -> Option<&'s Section> {
    let anchor = markdown::anchor(words);
    let similar_anchor = base::error::nearest(&anchor, sections.iter().map(|section| &*section.anchor));
    sections.iter().find(|section| Some(&*section.anchor) == similar_anchor)
}

/// Returns the page with this name, or with this file in `docs`. Upper and lower case are the same.
pub(super) fn find_topic(name: &str) -> Option<&'static Topic> {
    let file = name.strip_suffix(".md").map(|path| path.strip_prefix("docs/").unwrap_or(path));
    TOPICS.iter().find(|topic| topic.name.eq_ignore_ascii_case(name) || file == Some(topic.file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::grammar;
    use crate::cli::help::DEVELOPER_PAGES;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn program_has_the_pages_of_the_book_in_their_order() {
        let summary = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/SUMMARY.md"));
        let book_pages = summary.split("](").skip(1).filter_map(|rest| Some(rest.split_once(".md)")?.0));
        let book_pages: Vec<&str> = book_pages.filter(|name| !DEVELOPER_PAGES.contains(name)).collect();
        assert_eq!(TOPICS.iter().map(|topic| topic.file).collect::<Vec<_>>(), book_pages);
    }

    #[test]
    fn pages_have_names_that_no_command_has() {
        let grammar = grammar::for_all_commands();
        for topic in &TOPICS {
            assert!(grammar.find_subcommand(topic.name).is_none(), "{}", topic.name);
            assert!(topic.subject.len() < 55 && topic.text().starts_with("# "), "{}", topic.name);
        }
        assert!(find_topic("plan").is_none());
        for name in ["tour", "Tour", "tour.md", "docs/tour.md"] {
            assert_eq!(find_topic(name).map(|topic| topic.name), Some("tour"), "{name}");
        }
    }

    /// Each link to a section of a page names one that `monopile help PAGE SECTION` prints.
    #[test]
    fn links_lead_to_sections() {
        let anchors_of = |topic: &Topic| topic.sections().into_iter().map(|section| section.anchor);
        let anchors: BTreeMap<&str, Vec<String>> =
            TOPICS.iter().map(|topic| (topic.file, anchors_of(topic).collect())).collect();
        for topic in &TOPICS {
            let own_anchors: BTreeSet<&String> = anchors[topic.file].iter().collect();
            assert_eq!(own_anchors.len(), anchors[topic.file].len(), "{}", topic.name);
            for event in Parser::new_ext(&topic.text(), Options::ENABLE_TABLES) {
                let Event::Start(Tag::Link { dest_url, .. }) = event else { continue };
                let Some((file, anchor)) = dest_url.split_once('#') else { continue };
                let file = if file.is_empty() { topic.file } else { file.trim_end_matches(".md") };
                let Some(anchors) = anchors.get(file) else { continue };
                assert!(anchors.iter().any(|other| other == anchor), "{dest_url}");
            }
        }
    }

    /// Returns the anchors of the sections of `troubleshooting` that the words name.
    fn named_anchors<'s>(sections: &'s [Section], words: &str) -> Vec<&'s str> {
        let sections = find_topic("troubleshooting").unwrap().named_sections(sections, words).into_iter();
        sections.map(|section| section.anchor.as_str()).collect()
    }

    #[test]
    fn sections_are_named_by_their_first_words() {
        let sections = find_topic("troubleshooting").unwrap().sections();
        let anchors = |words: &str| named_anchors(&sections, words);
        for words in ["the-lock-is-held", "#the-lock-is-held", "The lock is held", "the LOCK"] {
            assert_eq!(anchors(words), ["the-lock-is-held"], "{words}");
        }
        for words in ["lock is held", "lock", "a lock", "held", "locks held"] {
            assert_eq!(anchors(words), ["the-lock-is-held"], "{words}");
        }
        assert!(anchors("the").len() > 5);
        assert_eq!(anchors("xyzzy"), [""; 0]);
        assert_eq!(similar_section(&sections, "the-lokc-is-held").unwrap().anchor, "the-lock-is-held");
        assert!(similar_section(&sections, "xyzzy").is_none());
        let sections = find_topic("reference").unwrap().sections();
        for (words, anchor) in [("create-env", "monopile-create-env"), ("state show", "monopile-state-show")]
        {
            assert_eq!(named_sections(&sections, words)[0].anchor, anchor, "{words}");
        }
    }

    #[test]
    fn sections_are_named_by_a_message_that_they_explain() {
        let sections = find_topic("troubleshooting").unwrap().sections();
        let anchors = |words: &str| named_anchors(&sections, words);
        for (words, anchor) in [
            ("the agent's certificate cannot be verified", "a-certificate-is-not-accepted"),
            ("error: writing the state '/tmp/s.json' failed", "the-disk-is-full"),
            ("failed calls of earlier runs may have created", "the-outcome-of-a-call-is-unknown"),
            ("'s3://b/x' is in no cache, and --offline forbids the download", "the-shared-cache-is-not-used"),
        ] {
            assert_eq!(anchors(words).first(), Some(&anchor), "{words}: {:?}", anchors(words));
        }
        assert_eq!(anchors("cannot xyzzy"), [""; 0]);
    }

    /// Code that is wider would be broken by the terminal, so that it could not be copied.
    #[test]
    fn pages_fit_80_columns() {
        const COLUMNS: usize = 80;
        for topic in &TOPICS {
            let page = topic.render(COLUMNS, false);
            let is_too_wide = |line: &&str| crate::ui::width(line) > COLUMNS;
            // The program prints a command in a hint in one line, too.
            let is_hint = |line: &&str| line.trim().starts_with('`') && line.ends_with('`');
            let wide_lines: Vec<&str> =
                page.lines().filter(is_too_wide).filter(|line| !is_hint(line)).collect();
            assert_eq!(wide_lines, [""; 0], "{}", topic.name);
        }
    }

    #[test]
    fn pictures_are_shown_as_text() {
        let tour = find_topic("tour").unwrap().render(80, false);
        assert!(tour.contains("\n$ monopile plan hello/manifest.yml -o port.yml\n"), "{tour}");
        assert!(tour.contains("▸ Validating\n  ✓ Unpacking release 'hello' 0."), "{tour}");
        assert!(TOPICS.iter().all(|topic| !topic.text().contains("![")));
    }

    /// A paragraph that ends with a colon announces a block: a list, a table or code.
    #[test]
    fn announced_blocks_are_there() {
        for topic in &TOPICS {
            let (page, mut text, mut announced) = (topic.text(), String::new(), None);
            for event in Parser::new_ext(&page, Options::ENABLE_TABLES) {
                match event {
                    Event::Start(Tag::Paragraph | Tag::Heading { .. }) => {
                        assert_eq!(announced.take(), None, "{}", topic.name);
                        text.clear();
                    }
                    Event::Start(Tag::CodeBlock(_) | Tag::List(_) | Tag::Table(_)) => announced = None,
                    Event::Text(part) | Event::Code(part) => text.push_str(&part),
                    Event::End(TagEnd::Paragraph) => announced = text.ends_with(':').then(|| text.clone()),
                    _ => {}
                }
            }
            assert_eq!(announced, None, "{}", topic.name);
        }
    }
}
