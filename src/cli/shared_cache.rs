//! The cache that a team shares: its bucket or directory, and the keys that sign its packages, from the
//! global options and the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::encryption;
use super::globals::Globals;
use super::paths;
use artifact::shared_cache::{
    KeyError, OpenStorage, SharedCacheSettings, SharedDirectory, SharedStorage, SshKey, VerifyingKey,
};
use artifact::{InterruptCheck, SharedCache};
use base::events::Reporter;
use base::redact::Redactor;
use base::text::shell_word;
use base::{Error, Result};
use engine::state::{BucketPrefix, SharedBucket};

/// The words in a private key by which it is recognised.
const PRIVATE_KEY: &str = "PRIVATE KEY";
/// The starts of public keys that sign.
const KEY_TYPES: [&str; 2] = ["ssh-", "ecdsa-"];

/// The location of a shared cache.
#[derive(Debug)]
enum CacheLocation {
    Directory(PathBuf),
    Bucket(BucketPrefix),
}

/// Opens the shared cache that the options name. Reads the keys, and makes no request.
pub(super) fn open(
    globals: &Globals,
    reporter: &Reporter,
    redactor: &Redactor,
    interrupt_check: InterruptCheck,
) -> Result<SharedCache> {
    let trusted_keys = load_trusted_keys(globals)?;
    let Some(url) = url(globals) else {
        if globals.cache_write {
            reporter.warn("--cache-write has no effect without --cache URL or MONOPILE_CACHE");
        }
        return Ok(SharedCache::for_keys(trusted_keys));
    };
    let location = parse_location(url)?;
    let settings = SharedCacheSettings {
        url: url.trim_end_matches('/').to_owned(),
        needs_network: matches!(location, CacheLocation::Bucket(_)),
        open: opener(location, globals.cache_write, redactor),
        may_upload: globals.cache_write,
        signing_key: if globals.cache_write { load_signing_key(globals)? } else { None },
        reporter: reporter.clone(),
        interrupt_check,
    };
    Ok(SharedCache::new(trusted_keys, settings))
}

/// Returns the URL of the shared cache. CI systems set variables without a value to an empty text, which
/// counts as none.
fn url(globals: &Globals) -> Option<&str> {
    globals.cache.as_deref().filter(|url| !url.is_empty())
}

/// Opens the storage of the shared cache that the options name, for commands on the cache itself.
pub(super) fn open_storage(globals: &Globals, redactor: &Redactor) -> Result<Arc<dyn SharedStorage>> {
    let url = url(globals).ok_or_else(|| {
        Error::usage("no shared cache is given")
            .with_hint("name its URL: `monopile SAME-COMMAND --cache URL`")
    })?;
    let location = parse_location(url)?;
    if let CacheLocation::Directory(root) = &location
        && !root.is_dir()
    {
        let root = root.to_string_lossy();
        return Err(Error::invalid(format!("the cache '{url}' does not exist"))
            .with_hint(format!("correct --cache, or create it: `mkdir -p {}`", shell_word(&root))));
    }
    // A signal ends the process itself.
    opener(location, false, redactor)(Arc::new(|| Ok(())))
}

/// Returns the key that signs compiled packages, if one is named.
pub(super) fn load_signing_key(globals: &Globals) -> Result<Option<SshKey>> {
    let path = globals.cache_sign.as_deref().filter(|path| !path.is_empty());
    path.map(Path::new).map(read_signing_key).transpose()
}

/// Returns the keys whose signatures are accepted.
pub(super) fn load_trusted_keys(globals: &Globals) -> Result<Vec<VerifyingKey>> {
    let values = globals.cache_trust.iter().filter(|value| !value.is_empty());
    let keys = values.map(|value| read_trusted_keys(value));
    Ok(keys.collect::<Result<Vec<_>>>()?.concat())
}

fn parse_location(url: &str) -> Result<CacheLocation> {
    let url_error = |why: &str| {
        Error::usage(format!("'{url}' (--cache, MONOPILE_CACHE) is not the URL of a cache: {why}"))
    };
    let form_error = |why: &str| {
        url_error(why).with_hint(
            "name a bucket or a directory: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or \
             file:///DIRECTORY",
        )
    };
    match url.split_once("://") {
        Some(("file", path)) if Path::new(path).is_absolute() => Ok(CacheLocation::Directory(path.into())),
        Some(("file", _)) => Err(form_error("the path of a directory must begin with '/'")),
        Some(("s3" | "gs" | "az", "")) => Err(form_error("it names no bucket")),
        Some(("s3" | "gs" | "az", _)) => BucketPrefix::parse(url)
            .map(CacheLocation::Bucket)
            .map_err(|error| form_error("it cannot be used").with_source(error)),
        Some((scheme, _)) => {
            Err(form_error(&format!("the scheme must be s3, gs, az or file, not '{scheme}'")))
        }
        None => Err(match url.split_once(":/") {
            Some((scheme @ ("s3" | "gs" | "az"), rest)) => {
                url_error("a '/' is missing").with_hint(format!("write {scheme}://{rest}"))
            }
            Some(("file", path)) => {
                url_error("two '/' are missing").with_hint(format!("write file:///{path}"))
            }
            _ if url.starts_with('/') => {
                url_error("it does not begin with SCHEME://").with_hint(format!("write file://{url}"))
            }
            _ => form_error("it does not begin with SCHEME://"),
        }),
    }
}

fn opener(location: CacheLocation, is_written: bool, redactor: &Redactor) -> OpenStorage {
    let redactor = redactor.clone();
    Box::new(move |interrupt_check| -> Result<Arc<dyn SharedStorage>> {
        Ok(match &location {
            CacheLocation::Directory(root) => Arc::new(SharedDirectory::new(root, is_written)),
            CacheLocation::Bucket(prefix) => {
                Arc::new(SharedBucket::open(prefix, &paths::env_vars(), interrupt_check, &redactor)?)
            }
        })
    })
}

/// Returns true for a public key. Other values of `--cache-trust` are paths.
pub(super) fn is_public_key(value: &str) -> bool {
    KEY_TYPES.iter().any(|start| value.starts_with(start))
}

/// Returns the keys that a value of `--cache-trust` names: a key, or those in a file.
fn read_trusted_keys(value: &str) -> Result<Vec<VerifyingKey>> {
    if value.contains(PRIVATE_KEY) {
        return Err(Error::usage("--cache-trust takes public keys, not a private key")
            .with_hint("name its public key: `ssh-keygen -y -f KEY` prints it"));
    }
    if is_public_key(value) {
        let key = VerifyingKey::parse(value)
            .map_err(|problem| Error::usage("--cache-trust is not valid").with_source(problem))?;
        return Ok(vec![key]);
    }
    let path = Path::new(value);
    let name = path.display();
    let text = encryption::read(
        path,
        "public keys (--cache-trust, MONOPILE_CACHE_TRUST)",
        "(--cache-trust, MONOPILE_CACHE_TRUST) is neither a public key (ssh-ed25519 …) nor a file",
        "name the .pub file of the key that signs, or its content in quotes",
    )?;
    let mut keys = Vec::new();
    for (number, line) in encryption::key_lines(&text) {
        let line_error = |problem| {
            Error::usage(format!(
                "line {number} of '{name}' (--cache-trust, MONOPILE_CACHE_TRUST) is not valid"
            ))
            .with_source(problem)
            .with_hint("write one public key per line, as in the .pub file of `ssh-keygen -t ed25519`")
        };
        keys.push(VerifyingKey::parse(line).map_err(line_error)?);
    }
    Ok(keys)
}

fn read_signing_key(path: &Path) -> Result<SshKey> {
    if path.to_string_lossy().contains(PRIVATE_KEY) {
        return Err(encryption::key_in_place_of_path_error("--cache-sign"));
    }
    let text = encryption::read(
        path,
        "a private key (--cache-sign, MONOPILE_CACHE_SIGN)",
        "(--cache-sign, MONOPILE_CACHE_SIGN) does not exist",
        "make a key for the cache: `ssh-keygen -t ed25519 -N '' -f cache-key`",
    )?;
    let key_error = |problem: String| {
        Error::usage(format!("'{}' (--cache-sign, MONOPILE_CACHE_SIGN) cannot sign", path.display()))
            .with_source(problem)
    };
    let key = SshKey::parse(&text, None).map_err(|error| {
        let key_error = key_error(error.to_string());
        match error {
            KeyError::Encrypted => key_error
                .with_hint("use a key without a passphrase: `ssh-keygen -t ed25519 -N '' -f cache-key`"),
            _ => key_error.with_hint("make a key for the cache: `ssh-keygen -t ed25519 -N '' -f cache-key`"),
        }
    })?;
    key.verifying_key().map_err(|problem| {
        key_error(problem.to_owned())
            .with_hint("make a key for the cache: `ssh-keygen -t ed25519 -N '' -f cache-key`")
    })?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_buckets_and_directories() {
        let location = parse_location("file:///a/b").unwrap();
        assert!(matches!(location, CacheLocation::Directory(path) if path == Path::new("/a/b")));
        for url in ["s3://b", "s3://b/", "gs://b/a/b", "az://c/p/"] {
            assert!(matches!(parse_location(url), Ok(CacheLocation::Bucket(_))), "{url}");
        }
        for (url, part) in [
            ("file://cache", "must begin with '/'"),
            ("var/cache", "does not begin with SCHEME://"),
            ("https://host/cache", "not 'https'"),
            ("s3://", "names no bucket"),
            ("s3:///a", "names no bucket"),
            ("s3://b/a//b", "cannot be used"),
        ] {
            let error = parse_location(url).unwrap_err();
            assert!(error.chain().join(": ").contains(part), "{url}: {error:?}");
            assert!(error.hints()[0].contains("file:///DIRECTORY"), "{url}");
        }
        for (text, hint) in [
            ("s3:/b/k", "write s3://b/k"),
            ("file:/var/cache", "write file:///var/cache"),
            ("/var/cache", "write file:///var/cache"),
        ] {
            assert_eq!(parse_location(text).unwrap_err().hints(), [hint]);
        }
    }
}
