//! RSA keys: generated in parallel, written as PKCS#1.

use std::collections::BTreeMap;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::KeyPair as _;
use sha1::Digest;
use yasna::ASN1Result;

use super::pem_text;
use base::redact::Redactor;
use base::secret::Secret;
use base::{Error, Result};

/// The size of an RSA key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeySize {
    /// 2048 bits: the default of `rsa` and `ssh` variables.
    Rsa2048,
    /// 3072 bits: the default of certificate keys.
    Rsa3072,
    /// 4096 bits: the maximum.
    Rsa4096,
}

impl KeySize {
    /// Returns the size with this number of bits.
    pub fn from_bits(bits: i64) -> Option<Self> {
        match bits {
            2048 => Some(KeySize::Rsa2048),
            3072 => Some(KeySize::Rsa3072),
            4096 => Some(KeySize::Rsa4096),
            _ => None,
        }
    }

    /// Returns the number of bits.
    pub fn bits(self) -> usize {
        match self {
            KeySize::Rsa2048 => 2048,
            KeySize::Rsa3072 => 3072,
            KeySize::Rsa4096 => 4096,
        }
    }
}

/// An RSA key pair.
pub struct RsaKey {
    pkcs1: Vec<u8>,
    public_info: PublicKeyX509Der<'static>,
    ssh_wire: Vec<u8>,
    /// The SHA-1 of the modulus.
    key_id: Vec<u8>,
    pair: rsa::KeyPair,
}

impl RsaKey {
    /// Generates a key. This takes between a tenth of a second and a few seconds.
    pub fn generate(size: KeySize) -> Result<Self> {
        let size = match size {
            KeySize::Rsa2048 => rsa::KeySize::Rsa2048,
            KeySize::Rsa3072 => rsa::KeySize::Rsa3072,
            KeySize::Rsa4096 => rsa::KeySize::Rsa4096,
        };
        let generation_error = || Error::failure("an RSA key cannot be generated");
        let pair = rsa::KeyPair::generate(size).map_err(|_| generation_error())?;
        let pkcs8: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| generation_error())?;
        let pkcs1 = pkcs1_of_pkcs8(pkcs8.as_ref()).map_err(|_| generation_error())?;
        let public_info = pair.public_key().as_der().map_err(|_| generation_error())?;
        let (modulus, exponent) = public_parts(pair.public_key().as_ref()).map_err(|_| generation_error())?;
        let ssh_wire = ssh_wire(&modulus, &exponent);
        let key_id = sha1::Sha1::digest(modulus.strip_prefix(&[0]).unwrap_or(&modulus)).to_vec();
        Ok(RsaKey { pkcs1, public_info, ssh_wire, key_id, pair })
    }

    /// Returns the private key as `RSA PRIVATE KEY` in PEM.
    pub fn private_pem(&self) -> String {
        pem_text::encode("RSA PRIVATE KEY", &self.pkcs1)
    }

    /// Returns the public key as `PUBLIC KEY` in PEM.
    pub fn public_pem(&self) -> String {
        pem_text::encode("PUBLIC KEY", self.public_info())
    }

    /// Returns the SubjectPublicKeyInfo.
    pub fn public_info(&self) -> &[u8] {
        self.public_info.as_ref()
    }

    /// Returns the key ID for certificates: the SHA-1 of the modulus, as the bosh CLI computes it.
    pub fn key_id(&self) -> &[u8] {
        &self.key_id
    }

    /// Returns the key pair for signing.
    pub fn pair(&self) -> &rsa::KeyPair {
        &self.pair
    }

    /// Returns the public key as one line in OpenSSH's format: `ssh-rsa …`.
    pub fn ssh_public_key(&self) -> String {
        use base64::Engine;
        let wire = base64::engine::general_purpose::STANDARD.encode(self.ssh_wire());
        format!("ssh-rsa {wire}\n")
    }

    /// Returns the public key in SSH's wire format.
    pub fn ssh_wire(&self) -> &[u8] {
        &self.ssh_wire
    }
}

/// A new SSH key pair.
pub struct SshKeyPair {
    /// The private key as `RSA PRIVATE KEY` in PEM.
    pub private_key: Secret,
    /// The public key as one line: `ssh-rsa …`.
    pub public_key: String,
}

impl SshKeyPair {
    /// Generates a pair of a type that every sshd accepts.
    pub fn generate(redactor: &Redactor) -> Result<Self> {
        let key = RsaKey::generate(KeySize::Rsa3072)?;
        Ok(SshKeyPair {
            private_key: Secret::new(key.private_pem(), redactor),
            public_key: key.ssh_public_key(),
        })
    }
}

/// Encodes an RSA public key in SSH's wire format (RFC 4253, 6.6). SSH writes numbers as DER does (RFC 4251,
/// 5).
fn ssh_wire(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [b"ssh-rsa", exponent, modulus] {
        bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Converts an RSAPublicKey (RFC 8017, A.1.1) to SSH's wire format.
pub(crate) fn ssh_wire_of(rsa_public_key: &[u8]) -> Option<Vec<u8>> {
    public_parts(rsa_public_key).ok().map(|(modulus, exponent)| ssh_wire(&modulus, &exponent))
}

/// Extracts the key from PKCS#8 (RFC 5208).
fn pkcs1_of_pkcs8(pkcs8: &[u8]) -> ASN1Result<Vec<u8>> {
    yasna::parse_der(pkcs8, |reader| {
        reader.read_sequence(|frame| {
            let _version = frame.next().read_u8()?;
            let _algorithm = frame.next().read_der()?;
            frame.next().read_bytes()
        })
    })
}

/// Returns the modulus and exponent of an RSAPublicKey (RFC 8017, A.1.1). A number whose first bit is set has
/// a leading zero byte.
fn public_parts(rsa_public_key: &[u8]) -> ASN1Result<(Vec<u8>, Vec<u8>)> {
    yasna::parse_der(rsa_public_key, |reader| {
        reader.read_sequence(|key| {
            let (modulus, _) = key.next().read_bigint_bytes()?;
            let (exponent, _) = key.next().read_bigint_bytes()?;
            Ok((modulus, exponent))
        })
    })
}

/// Keys generated ahead on all processors, because generating them takes most of the time.
#[derive(Default)]
pub struct KeyPool {
    ready_keys: BTreeMap<KeySize, Vec<RsaKey>>,
}

impl KeyPool {
    /// Generates keys of these sizes in parallel, one thread per processor. A key that cannot be generated is
    /// left out; [`Self::take`] tries again.
    pub fn fill(&mut self, sizes: impl Iterator<Item = KeySize>) {
        let mut sizes: Vec<KeySize> = sizes.collect();
        // The slowest keys come first, so that they do not finish last on one processor.
        sizes.sort_unstable();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(sizes.len());
        let queue = parking_lot::Mutex::new(sizes);
        let next_size = || queue.lock().pop();
        let keys = std::thread::scope(|scope| {
            let work = || {
                let mut keys = Vec::new();
                while let Some(size) = next_size() {
                    keys.push((size, RsaKey::generate(size)));
                }
                keys
            };
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect::<Vec<_>>()
        });
        for (size, key) in keys {
            if let Ok(key) = key {
                self.ready_keys.entry(size).or_default().push(key);
            }
        }
    }

    /// Takes a key of this size from the pool, or generates one.
    pub fn take(&mut self, size: KeySize) -> Result<RsaKey> {
        match self.ready_keys.get_mut(&size).and_then(Vec::pop) {
            Some(key) => Ok(key),
            None => RsaKey::generate(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_pool_generates_keys_of_every_size() {
        let mut pool = KeyPool::default();
        pool.fill([KeySize::Rsa2048, KeySize::Rsa3072, KeySize::Rsa2048].into_iter());
        assert_eq!(pool.ready_keys.values().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let key = pool.take(KeySize::Rsa3072).unwrap();
        assert_eq!(key.pair.public_modulus_len() * 8, 3072);
        let (modulus, exponent) = public_parts(key.pair.public_key().as_ref()).unwrap();
        assert_eq!((modulus.len(), exponent), (1 + 3072 / 8, vec![1, 0, 1]));
        assert!(aws_lc_rs::rsa::KeyPair::from_der(&key.pkcs1).is_ok());
        assert_eq!(pool.take(KeySize::Rsa3072).unwrap().pair.public_modulus_len() * 8, 3072);
    }
}
