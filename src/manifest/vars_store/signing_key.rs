//! A CA's private key in any common format, and signing with it.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use yasna::models::ObjectIdentifier;

use super::pem_text;
use base::{Error, Result};

/// A private key that signs certificates.
pub enum SigningKey {
    /// RSA of at least 2048 bits. It signs with SHA-256.
    Rsa(Box<rsa::KeyPair>),
    /// ECDSA on a NIST curve, with the OID of its signature algorithm.
    Ecdsa(Box<EcdsaKeyPair>, &'static [u64]),
    /// Ed25519.
    Ed25519(Box<Ed25519KeyPair>),
}

// The OIDs of the signature algorithms.
/// RSA with SHA-256 (sha256WithRSAEncryption).
const SHA256_WITH_RSA: &[u64] = &[1, 2, 840, 113549, 1, 1, 11];
/// ECDSA with SHA-256 (ecdsa-with-SHA256).
const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
/// ECDSA with SHA-384 (ecdsa-with-SHA384).
const ECDSA_WITH_SHA384: &[u64] = &[1, 2, 840, 10045, 4, 3, 3];
/// ECDSA with SHA-512 (ecdsa-with-SHA512).
const ECDSA_WITH_SHA512: &[u64] = &[1, 2, 840, 10045, 4, 3, 4];
/// Ed25519 (id-Ed25519).
const ED25519: &[u64] = &[1, 3, 101, 112];

impl SigningKey {
    /// Reads a key from PEM: PKCS#1, PKCS#8 or SEC 1.
    pub fn from_pem(text: &str) -> Result<Self> {
        let blocks = pem_text::parse_blocks(text);
        if blocks.iter().any(|block| block.tag() == "ENCRYPTED PRIVATE KEY")
            || text.contains("Proc-Type: 4,ENCRYPTED")
        {
            return Err(Error::invalid("the private key is encrypted")
                .with_hint("remove the passphrase: `openssl pkey -in KEY -out KEY.plain`"));
        }
        // `openssl ecparam -genkey` writes a block of parameters before the key.
        let block = blocks
            .iter()
            .find(|block| block.tag().ends_with("PRIVATE KEY"))
            .ok_or_else(|| Error::invalid("there is no private key in PEM form"))?;
        Self::from_der(block.contents()).ok_or_else(|| {
            Error::invalid(format!("the private key ('{}') cannot be used", block.tag())).with_hint(
                "use a key that is RSA of 2048 bits and more, EC on P-256, P-384 or P-521, or Ed25519, in \
                 PKCS#1, PKCS#8 or SEC 1 form",
            )
        })
    }

    fn from_der(key: &[u8]) -> Option<Self> {
        if let Ok(pair) = rsa::KeyPair::from_pkcs8(key).or_else(|_| rsa::KeyPair::from_der(key)) {
            return Some(SigningKey::Rsa(Box::new(pair)));
        }
        for (algorithm, oid) in [
            (&ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_WITH_SHA256),
            (&ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_WITH_SHA384),
            (&ECDSA_P521_SHA512_ASN1_SIGNING, ECDSA_WITH_SHA512),
        ] {
            if let Ok(pair) = EcdsaKeyPair::from_private_key_der(algorithm, key) {
                return Some(SigningKey::Ecdsa(Box::new(pair), oid));
            }
        }
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(key).ok().map(|pair| SigningKey::Ed25519(Box::new(pair)))
    }

    /// Returns the content of the BIT STRING in the SubjectPublicKeyInfo.
    pub fn public_bits(&self) -> &[u8] {
        match self {
            SigningKey::Rsa(pair) => pair.public_key().as_ref(),
            SigningKey::Ecdsa(pair, _) => pair.public_key().as_ref(),
            SigningKey::Ed25519(pair) => pair.public_key().as_ref(),
        }
    }

    /// Returns the AlgorithmIdentifier of its signatures.
    pub fn algorithm(&self) -> Vec<u8> {
        let id = match self {
            SigningKey::Rsa(_) => SHA256_WITH_RSA,
            SigningKey::Ecdsa(_, id) => id,
            SigningKey::Ed25519(_) => ED25519,
        };
        yasna::construct_der(|writer| {
            writer.write_sequence(|algorithm| {
                algorithm.next().write_oid(&ObjectIdentifier::from_slice(id));
                if matches!(self, SigningKey::Rsa(_)) {
                    algorithm.next().write_null();
                }
            });
        })
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let signing_error = |_| Error::failure("signing a certificate failed");
        match self {
            SigningKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
                    .map_err(signing_error)?;
                Ok(signature)
            }
            SigningKey::Ecdsa(pair, _) => {
                pair.sign(&SystemRandom::new(), message).map(|it| it.as_ref().to_vec()).map_err(signing_error)
            }
            SigningKey::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}
