//! CRC-64/NVME for `object_store`: replaces the crate `crc-fast`.
//!
//! `object_store` needs this one checksum, and only if `AWS_CHECKSUM_ALGORITHM` requests it. The crate that
//! it names has tables for all CRCs, which are 700 KB of the program. `[patch.crates-io]` in `Cargo.toml`
//! replaces it with this one, which has the part of its interface that is used. The parameters are those of
//! "CRC-64/NVME" in the catalogue of parametrised CRC algorithms
//! (<https://reveng.sourceforge.io/crc-catalogue/all.htm>).

/// The polynomial, with reversed bits.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// The remainder of each byte.
static TABLE: [u64; 256] = table();

/// Computes [`TABLE`].
const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut remainder = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            remainder = (remainder >> 1) ^ (POLYNOMIAL * (remainder & 1));
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

/// An algorithm for checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrcAlgorithm {
    /// CRC-64/NVME.
    Crc64Nvme,
}

/// A checksum that is being computed.
#[derive(Debug, Clone)]
pub struct Digest {
    remainder: u64,
}

impl Digest {
    /// Begins a checksum.
    pub fn new(algorithm: CrcAlgorithm) -> Self {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Digest { remainder: u64::MAX },
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let [low, ..] = self.remainder.to_le_bytes();
            self.remainder = (self.remainder >> 8) ^ TABLE[usize::from(low ^ byte)];
        }
    }

    /// Returns the checksum of the bytes so far.
    pub fn finalize(&self) -> u64 {
        !self.remainder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_the_catalogue() {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        assert_eq!(digest.finalize(), 0);
        digest.update(b"1234");
        digest.update(b"56789");
        assert_eq!(digest.finalize(), 0xae8b_1486_0a79_9888);
    }
}
