//! RSA keys: made in parallel, written as PKCS#1.

use std::collections::BTreeMap;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::KeyPair as _;
use sha1::Digest;

use super::{der, pem_text};
use base::{Error, Result};

/// How long a key is, in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeySize {
    /// The size of `rsa` and `ssh` variables.
    Rsa2048,
    /// The size of certificates' keys unless `key_length` says otherwise.
    Rsa3072,
    /// The largest.
    Rsa4096,
}

impl KeySize {
    /// The size of this many bits.
    pub fn from_bits(bits: i64) -> Option<Self> {
        match bits {
            2048 => Some(KeySize::Rsa2048),
            3072 => Some(KeySize::Rsa3072),
            4096 => Some(KeySize::Rsa4096),
            _ => None,
        }
    }

    /// The size in bits.
    pub fn bits(self) -> usize {
        match self {
            KeySize::Rsa2048 => 2048,
            KeySize::Rsa3072 => 3072,
            KeySize::Rsa4096 => 4096,
        }
    }
}

/// A new RSA key.
pub struct RsaKey {
    pkcs1: Vec<u8>,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
    pair: rsa::KeyPair,
}

impl RsaKey {
    /// Makes one. Takes from a tenth of a second to a few seconds.
    pub fn generate(size: KeySize) -> Result<Self> {
        let size = match size {
            KeySize::Rsa2048 => rsa::KeySize::Rsa2048,
            KeySize::Rsa3072 => rsa::KeySize::Rsa3072,
            KeySize::Rsa4096 => rsa::KeySize::Rsa4096,
        };
        let failed = || Error::environment("an RSA key cannot be generated");
        let pair = rsa::KeyPair::generate(size).map_err(|_| failed())?;
        let pkcs8 = pair.as_der().map_err(|_| failed())?;
        let pkcs1 = pkcs1_of_pkcs8(pkcs8.as_ref()).ok_or_else(failed)?.to_vec();
        let (modulus, exponent) = public_parts(pair.public_key().as_ref()).ok_or_else(failed)?;
        Ok(RsaKey { pkcs1, modulus, exponent, pair })
    }

    /// The private key, `RSA PRIVATE KEY`.
    pub fn private_pem(&self) -> String {
        pem_text::encode("RSA PRIVATE KEY", &self.pkcs1)
    }

    /// The public key, `PUBLIC KEY`.
    pub fn public_pem(&self) -> String {
        pem_text::encode("PUBLIC KEY", &self.public_info())
    }

    /// The SubjectPublicKeyInfo.
    pub fn public_info(&self) -> Vec<u8> {
        let algorithm = der::sequence([&der::oid(RSA_ENCRYPTION), &der::null()]);
        let key = der::sequence([&der::unsigned(&self.modulus), &der::unsigned(&self.exponent)]);
        der::sequence([&algorithm, &der::bit_string(&key)])
    }

    /// What certificates name the key by: the SHA-1 of the modulus, as upstream.
    pub fn key_id(&self) -> Vec<u8> {
        sha1::Sha1::digest(&self.modulus).to_vec()
    }

    /// The pair, to sign with.
    pub fn pair(&self) -> &rsa::KeyPair {
        &self.pair
    }

    /// The public key in the wire form of SSH.
    pub fn ssh_wire(&self) -> Vec<u8> {
        ssh_wire(&self.modulus, &self.exponent)
    }
}

/// A new pair of keys for ssh.
pub struct SshKeyPair {
    /// `RSA PRIVATE KEY` in PEM form.
    pub private_key: String,
    /// `ssh-rsa …`, one line.
    pub public_key: String,
}

impl SshKeyPair {
    /// Makes one of a kind that every sshd takes.
    pub fn generate() -> Result<Self> {
        RsaKey::generate(KeySize::Rsa3072).map(|key| SshKeyPair::of(&key))
    }

    /// The pair that a key is.
    pub fn of(key: &RsaKey) -> Self {
        use base64::Engine;
        let wire = base64::engine::general_purpose::STANDARD.encode(key.ssh_wire());
        SshKeyPair { private_key: key.private_pem(), public_key: format!("ssh-rsa {wire}\n") }
    }
}

/// An RSA public key in the wire form of SSH (RFC 4253, 6.6).
fn ssh_wire(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [b"ssh-rsa".to_vec(), mpint(exponent), mpint(modulus)] {
        bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&part);
    }
    bytes
}

/// As [`RsaKey::ssh_wire`], from an RSAPublicKey (RFC 8017, A.1.1).
pub(crate) fn ssh_wire_of(rsa_public_key: &[u8]) -> Option<Vec<u8>> {
    public_parts(rsa_public_key).map(|(modulus, exponent)| ssh_wire(&modulus, &exponent))
}

/// 1.2.840.113549.1.1.1
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// A number as SSH writes it (RFC 4251, 5).
fn mpint(magnitude: &[u8]) -> Vec<u8> {
    if magnitude.first().is_some_and(|byte| byte & 0x80 != 0) {
        [&[0], magnitude].concat()
    } else {
        magnitude.to_vec()
    }
}

/// The key inside a PKCS#8 frame (RFC 5208).
fn pkcs1_of_pkcs8(pkcs8: &[u8]) -> Option<&[u8]> {
    let mut frame = der::Reader::new(der::Reader::new(pkcs8).read(der::SEQUENCE)?);
    frame.read(der::INTEGER)?;
    frame.read(der::SEQUENCE)?;
    frame.read(der::OCTET_STRING)
}

/// Modulus and exponent of an RSAPublicKey (RFC 8017, A.1.1), without leading zeroes.
fn public_parts(rsa_public_key: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut frame = der::Reader::new(der::Reader::new(rsa_public_key).read(der::SEQUENCE)?);
    let modulus = der::strip_zeroes(frame.read(der::INTEGER)?);
    let exponent = der::strip_zeroes(frame.read(der::INTEGER)?);
    Some((modulus.to_vec(), exponent.to_vec()))
}

/// Keys made ahead, because making them is what takes time and each processor can make one.
#[derive(Default)]
pub struct KeyPool {
    ready: BTreeMap<KeySize, Vec<RsaKey>>,
}

impl KeyPool {
    /// Makes keys of these sizes, as many at once as there are processors. A failure shows when the key
    /// is taken.
    pub fn fill(&mut self, sizes: impl Iterator<Item = KeySize>) {
        let mut sizes: Vec<KeySize> = sizes.collect();
        // The longest jobs first, so that no processor is left with one at the end.
        sizes.sort_unstable();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(sizes.len());
        let queue = std::sync::Mutex::new(sizes);
        let next = || queue.lock().map_or(None, |mut queue| queue.pop());
        let made = std::thread::scope(|scope| {
            let work = || {
                let mut made = Vec::new();
                while let Some(size) = next() {
                    made.push((size, RsaKey::generate(size)));
                }
                made
            };
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect::<Vec<_>>()
        });
        for (size, key) in made {
            if let Ok(key) = key {
                self.ready.entry(size).or_default().push(key);
            }
        }
    }

    /// A key of this size: one made ahead, or a new one.
    pub fn take(&mut self, size: KeySize) -> Result<RsaKey> {
        match self.ready.get_mut(&size).and_then(Vec::pop) {
            Some(key) => Ok(key),
            None => RsaKey::generate(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_ahead_in_every_size_asked_for() {
        let mut pool = KeyPool::default();
        pool.fill([KeySize::Rsa2048, KeySize::Rsa3072, KeySize::Rsa2048].into_iter());
        assert_eq!(pool.ready.values().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let key = pool.take(KeySize::Rsa3072).unwrap();
        assert_eq!(key.modulus.len() * 8, 3072);
        assert_eq!(key.exponent, [1, 0, 1]);
        assert!(aws_lc_rs::rsa::KeyPair::from_der(&key.pkcs1).is_ok());
        assert_eq!(pool.take(KeySize::Rsa3072).unwrap().modulus.len() * 8, 3072);
    }

    #[test]
    fn numbers_of_ssh_have_no_sign() {
        assert_eq!(mpint(&[0x80]), [0, 0x80]);
        assert_eq!(mpint(&[0x7f]), [0x7f]);
    }
}
