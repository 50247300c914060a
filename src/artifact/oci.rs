//! Documents of OCI images: indexes, which have a manifest for each platform, and manifests, which have
//! layers. Formats: `image-index.md` and `manifest.md` of the OCI image specification. Those of Docker have
//! the same fields.

use serde::Deserialize;

use crate::digest::{Algorithm, Digest};
use base::text::json_problem;
use base::{Error, Result};

/// The maximum number of layers, as that of overlay file systems.
const MAX_LAYERS: usize = 500;
/// The maximum depth of indexes. An index may have another one with a manifest for each platform.
const MAX_INDEX_DEPTH: usize = 2;

/// A reference to a document or a layer.
#[derive(Debug, Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<Platform>,
}

/// The platform of a manifest in an index.
#[derive(Debug, Deserialize)]
struct Platform {
    architecture: String,
}

/// An index or a manifest.
#[derive(Debug, Deserialize)]
pub(crate) struct ImageDocument {
    /// The manifests of an index.
    #[serde(default)]
    manifests: Vec<Descriptor>,
    /// The layers of a manifest, the lowest first.
    #[serde(default)]
    layers: Vec<Descriptor>,
}

impl ImageDocument {
    /// Decodes a document. `document_name` names it in errors.
    pub(crate) fn decode(json: &[u8], document_name: &str) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| {
            Error::invalid(format!("{document_name} is not valid: {}", json_problem(&error)))
        })
    }
}

/// Returns the digests of the layers of an image, the lowest first.
///
/// `document` is its index or its manifest. `read` returns the document with a digest, which it must verify.
pub(crate) fn resolve_layers(
    mut document: ImageDocument,
    image_name: &str,
    read: &mut dyn FnMut(&Digest) -> Result<ImageDocument>,
) -> Result<Vec<Digest>> {
    for _ in 0..MAX_INDEX_DEPTH {
        if document.manifests.is_empty() {
            break;
        }
        document = read(&manifest_digest(&document.manifests, image_name)?)?;
    }
    check_layer_count(document.layers.len(), image_name)?;
    document.layers.iter().map(|layer| parse_digest(&layer.digest, image_name)).collect()
}

/// Parses a digest of an image, which is SHA-256 or SHA-512. `owner` describes the thing with the digest, for
/// errors.
pub(crate) fn parse_digest(text: &str, owner: &str) -> Result<Digest> {
    let digest = Digest::parse(text, owner)?;
    if digest.strongest() == Algorithm::Sha1 {
        return Err(Error::invalid(format!(
            "the digest '{text}' of {owner} is SHA-1, but images have SHA-256 or SHA-512"
        )));
    }
    Ok(digest)
}

/// Returns the digest of the manifest for the architecture of this machine.
fn manifest_digest(manifests: &[Descriptor], image_name: &str) -> Result<Digest> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is_for_this_machine = |manifest: &&Descriptor| {
        manifest.platform.as_ref().is_none_or(|platform| platform.architecture == architecture)
    };
    let manifest = manifests.iter().find(is_for_this_machine).ok_or_else(|| {
        Error::invalid(format!("{image_name} has no image for the architecture '{architecture}'"))
            .with_hint(format!("use an image of the platform linux/{architecture}"))
    })?;
    parse_digest(&manifest.digest, image_name)
}

/// Fails if an image has no layers or too many.
pub(crate) fn check_layer_count(count: usize, image_name: &str) -> Result<()> {
    if (1..=MAX_LAYERS).contains(&count) {
        return Ok(());
    }
    Err(Error::invalid(format!("{image_name} has {count} layers, but must have 1 to {MAX_LAYERS}")))
}
