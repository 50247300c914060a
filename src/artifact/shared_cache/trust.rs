//! Signatures of compiled packages. Their content cannot be known in advance, so a package is used only if a
//! trusted key has signed its digest together with the key under which it is looked up.

use serde::{Deserialize, Serialize};

use crate::digest::{Algorithm, Digest};
use base::{Error, Result};
use net::ssh::{self, SshKey, VerifyingKey};

/// The namespace of the signatures, which keeps them from being valid for other purposes.
const SIGNATURE_NAMESPACE: &str = "monopile-cache";

/// The kind of a compiled package. The keys of different kinds have nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageKind {
    /// Compiled on a VM.
    Vm,
    /// A package of a CPI, compiled in a userland.
    Cpi,
}

/// The id of a compiled package in the cache: its kind, and the digest of its inputs as hex digits.
#[derive(Debug, Clone, Copy)]
pub struct PackageId<'a> {
    /// The kind of the package.
    pub kind: PackageKind,
    /// The digest of everything that determines the package.
    pub key: &'a str,
}

/// The digest of a compiled package, signed together with the id of the package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedDigest {
    /// The SHA-256 of the archive, as hex digits.
    sha256: String,
    /// The size of the archive in bytes.
    size: u64,
    /// The signature in the format of OpenSSH.
    signature: String,
}

impl PackageKind {
    /// Returns the folder of the kind, in this machine's cache as well as in a shared one.
    pub fn folder(self) -> &'static str {
        match self {
            PackageKind::Vm => "compiled",
            PackageKind::Cpi => "cpi",
        }
    }
}

impl PackageId<'_> {
    /// Returns the name of the object with the signed digest.
    pub(super) fn signed_digest_object(&self) -> String {
        format!("{}/{}.json", self.kind.folder(), self.key)
    }

    /// Returns the name of the object with the archive of this SHA-256.
    pub(super) fn archive_object(&self, sha256: &str) -> String {
        format!("{}/{}.{sha256}.tgz", self.kind.folder(), self.key)
    }

    /// Returns the text that is signed. It names the package, so that a signed archive is of no use under
    /// another id.
    fn message(&self, sha256: &str, size: u64) -> String {
        let folder = self.kind.folder();
        format!("package {folder}/{}\nsha256 {sha256}\nsize {size}\n", self.key)
    }
}

impl SignedDigest {
    /// Signs the digest and the size of a package. `digest` must include SHA-256.
    pub(super) fn sign(id: &PackageId<'_>, digest: &Digest, size: u64, signing_key: &SshKey) -> Result<Self> {
        let sha256 = digest
            .hex(Algorithm::Sha256)
            .ok_or_else(|| Error::failure("the digest of a compiled package lacks SHA-256"))?;
        let signature = signing_key
            .sign(SIGNATURE_NAMESPACE, id.message(sha256, size).as_bytes())
            .map_err(|problem| Error::failure("signing a compiled package failed").with_source(problem))?;
        Ok(SignedDigest { sha256: sha256.to_owned(), size, signature })
    }

    /// Returns the SHA-256 of the archive, as hex digits.
    pub(super) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the size of the archive in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the digest if one of `trusted_keys` has signed it for this package, and otherwise the reason.
    pub(super) fn verify(&self, id: &PackageId<'_>, trusted_keys: &[VerifyingKey]) -> Result<Digest, String> {
        let digest = format!("sha256:{}", self.sha256).parse::<Digest>().ok();
        // The digits become a part of a path, so only one spelling is accepted.
        let digest = digest
            .filter(|digest| digest.hex(Algorithm::Sha256) == Some(self.sha256.as_str()))
            .ok_or_else(|| "its digest is damaged".to_owned())?;
        let message = id.message(&self.sha256, self.size);
        ssh::verify(&self.signature, SIGNATURE_NAMESPACE, message.as_bytes(), trusted_keys)
            .map(|_| digest)
            .map_err(|error| error.to_string())
    }
}
