//! `monopile version`: prints the version and, with `--check`, the newest release.

use clap::{Args, ValueHint};
use semver::Version;
use serde::Deserialize;

use super::finish::CommandResult;
use super::grammar;
use super::paths;
use super::session::Session;
use artifact::limits::MAX_FEED_BYTES;
use artifact::timeouts::FEED_TIMEOUT;
use base::{Error, Result, text};

#[derive(Debug, Clone, Args)]
pub(super) struct VersionArgs {
    /// Ask a release feed for the newest release [default URL: that of the repository of this build]
    ///
    /// The feed answers like "latest release" of GitHub: JSON with `tag_name`, such as v1.2.3, and
    /// `html_url`. A mirror can serve it as a file.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "",
          value_hint = ValueHint::Url)]
    check: Option<String>,
}

/// The answer of a release feed.
#[derive(Deserialize)]
struct Release {
    tag_name: String,
    html_url: Option<String>,
}

/// Reads `1.2.3`, `v1.2.3` or `1.2.3-rc.1`.
fn parse_version(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

impl VersionArgs {
    /// Prints the version, and with `--check` compares it with the newest release of the feed.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let version = env!("CARGO_PKG_VERSION");
        let Some(feed) = self.check else {
            return match session.globals.prints_json() {
                true => CommandResult::json(&serde_json::json!({ "version": version })),
                false => Ok(CommandResult::Output(grammar::VERSION_LINE.into())),
            };
        };
        let feed =
            Some(feed).filter(|feed| !feed.is_empty()).or_else(|| feed_of(env!("CARGO_PKG_REPOSITORY")));
        let feed = feed.ok_or_else(|| {
            Error::usage(format!("this build of {version} does not know where releases are published"))
                .with_hint("name the release feed: `monopile version --check=URL`")
        })?;
        let answer = artifact::fetch_document(&feed, FEED_TIMEOUT, MAX_FEED_BYTES, &paths::env_vars());
        let (tag, newest, url) = read(&answer?).map_err(|error| {
            Error::failure("the answer of the release feed cannot be used")
                .with_source(error)
                .with_hint("name another feed: `monopile version --check=URL`")
        })?;
        let is_newer =
            parse_version(version).is_none_or(|this_version| this_version.cmp_precedence(&newest).is_lt());
        if session.globals.prints_json() {
            return CommandResult::json(&serde_json::json!({
                "version": version,
                "newest": tag,
                "newer": is_newer,
                "url": url,
            }));
        }
        let url_note = url.map(|url| format!(": {url}")).unwrap_or_default();
        let text = match is_newer {
            true => format!("monopile {tag} is available{url_note}\nThis is {version}.\n"),
            false => format!("monopile {version} is the newest release.\n"),
        };
        Ok(CommandResult::Output(text.into_bytes()))
    }
}

/// Returns the newest version as text, the same parsed, and the address of its page.
fn read(answer: &[u8]) -> Result<(String, Version, Option<String>), String> {
    let release: Release = serde_json::from_slice(answer).map_err(|error| match error.is_data() {
        true => "it does not have the string `tag_name`".to_owned(),
        false => format!("it is not JSON: {}", text::json_problem(&error)),
    })?;
    let tag = release.tag_name;
    let version = parse_version(&tag)
        .ok_or_else(|| format!("the tag '{}' is not a version such as v1.2.3", text::clean_line(&tag)))?;
    let version_text = text::clean_line(tag.strip_prefix('v').unwrap_or(&tag));
    let url = release.html_url.filter(|url| url.starts_with("https://"));
    Ok((version_text, version, url.map(|url| text::clean_line(&url))))
}

/// Returns the release feed of a repository on GitHub.
fn feed_of(repository: &str) -> Option<String> {
    let path = repository.strip_prefix("https://github.com/")?.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let (owner, name) = path.split_once('/')?;
    let is_whole = !owner.is_empty() && !name.is_empty() && !name.contains('/');
    is_whole.then(|| format!("https://api.github.com/repos/{owner}/{name}/releases/latest"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let versions = [
            "0.1.0",
            "0.2.0-1",
            "0.2.0-alpha",
            "0.2.0-alpha.1",
            "v0.2.0-rc.1",
            "v0.2.0-rc.2",
            "v0.2.0-rc.10",
            "0.2.0",
            "v0.10.0+build",
            "1.0.0",
        ];
        let order = |one: &str, other: &str| {
            parse_version(one).unwrap().cmp_precedence(&parse_version(other).unwrap())
        };
        for pair in versions.windows(2) {
            assert!(order(pair[0], pair[1]).is_lt(), "{pair:?}");
        }
        assert!(order("v1.2.3", "1.2.3+build").is_eq());
        for text in ["", "1.2", "1.2.3.4", "1.2.x", "nightly", "v", "-1.2.3", "1.2.3-", "1.2.3-rc."] {
            assert_eq!(parse_version(text), None, "{text}");
        }
    }

    #[test]
    fn feed_is_that_of_the_repository() {
        let feed = Some("https://api.github.com/repos/o/n/releases/latest".to_owned());
        for repository in ["https://github.com/o/n", "https://github.com/o/n/", "https://github.com/o/n.git"]
        {
            assert_eq!(feed_of(repository), feed, "{repository}");
        }
        for other in
            ["", "https://git.example.org/o/n", "https://github.com/o", "https://github.com/o/n/tree/x"]
        {
            assert_eq!(feed_of(other), None, "{other}");
        }
    }
}
