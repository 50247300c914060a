//! The little DER that keys and certificates take: writing them, and reading the frames of keys.
//!
//! Certificates are written here and not by a library, because an issuer's name has to be copied byte for
//! byte from a CA that anybody may have made; libraries rebuild it, and lose repeated attributes.

use time::OffsetDateTime;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// One element: tag, length, content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    let length = content.len();
    if length < 0x80 {
        bytes.push(length as u8);
    } else {
        let all = length.to_be_bytes();
        let significant = &all[all.iter().take_while(|&&byte| byte == 0).count()..];
        bytes.push(0x80 | significant.len() as u8);
        bytes.extend_from_slice(significant);
    }
    bytes.extend_from_slice(content);
    bytes
}

/// A SEQUENCE of these elements.
pub(super) fn sequence<const N: usize>(elements: [&[u8]; N]) -> Vec<u8> {
    element(SEQUENCE, &elements.concat())
}

/// A SET of one element.
pub(super) fn set(only: &[u8]) -> Vec<u8> {
    element(SET, only)
}

/// An INTEGER from its magnitude, most significant byte first.
pub(super) fn unsigned(magnitude: &[u8]) -> Vec<u8> {
    let stripped = strip_zeroes(magnitude);
    let mut content = Vec::with_capacity(stripped.len() + 1);
    if stripped.first().is_none_or(|byte| byte & 0x80 != 0) {
        content.push(0);
    }
    content.extend_from_slice(stripped);
    element(INTEGER, &content)
}

/// Without leading zero bytes.
pub(super) fn strip_zeroes(magnitude: &[u8]) -> &[u8] {
    &magnitude[magnitude.iter().take_while(|&&byte| byte == 0).count()..]
}

/// A BOOLEAN that is true.
pub(super) const TRUE: &[u8] = &[0x01, 0x01, 0xff];

/// A NULL.
pub(super) fn null() -> Vec<u8> {
    element(NULL, &[])
}

/// An OBJECT IDENTIFIER from its encoded content.
pub(super) fn oid(content: &[u8]) -> Vec<u8> {
    element(OID, content)
}

/// A BIT STRING of whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// A BIT STRING of flags, bit 0 first, trailing zero bits left off.
pub(super) fn flags(bits: u16) -> Vec<u8> {
    let reversed = bits.reverse_bits();
    let bytes = reversed.to_be_bytes();
    let used = if bits == 0 { 0 } else { 16 - bits.leading_zeros() as usize };
    let count = used.div_ceil(8);
    let unused = (count * 8 - used) as u8;
    let mut content = vec![unused];
    content.extend_from_slice(&bytes[..count]);
    element(BIT_STRING, &content)
}

/// An OCTET STRING.
pub(super) fn octet_string(bytes: &[u8]) -> Vec<u8> {
    element(OCTET_STRING, bytes)
}

/// A PrintableString where the text allows it, else a UTF8String.
pub(super) fn text(text: &str) -> Vec<u8> {
    let printable = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b' ' | b'\'' | b'(' | b')' | b'+'..=b'/' | b':' | b'=' | b'?')
    };
    let tag = if text.bytes().all(printable) { PRINTABLE_STRING } else { UTF8_STRING };
    element(tag, text.as_bytes())
}

/// A time to the second: UTCTime up to 2049, GeneralizedTime from 2050 on (RFC 5280, 4.1.2.5).
pub(super) fn time(moment: OffsetDateTime) -> Vec<u8> {
    let utc = moment.to_offset(time::UtcOffset::UTC);
    let (year, rest) = (
        utc.year(),
        format!(
            "{:02}{:02}{:02}{:02}{:02}Z",
            u8::from(utc.month()),
            utc.day(),
            utc.hour(),
            utc.minute(),
            utc.second()
        ),
    );
    if (1950..2050).contains(&year) {
        element(UTC_TIME, format!("{:02}{rest}", year % 100).as_bytes())
    } else {
        element(GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes())
    }
}

/// Reads elements one after the other.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of these bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The content of the next element, if it has this tag.
    pub(super) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&found, after_tag) = self.rest.split_first()?;
        let (&first, after_length) = after_tag.split_first()?;
        let (length, content) = if first < 0x80 {
            (usize::from(first), after_length)
        } else {
            let count = usize::from(first & 0x7f);
            if count == 0 || count > 4 || after_length.len() < count {
                return None;
            }
            let (bytes, content) = after_length.split_at(count);
            (bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), content)
        };
        if found != tag || content.len() < length {
            return None;
        }
        let (content, rest) = content.split_at(length);
        self.rest = rest;
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short_or_long() {
        assert_eq!(element(4, &[7; 3]), [4, 3, 7, 7, 7]);
        assert_eq!(element(4, &[0; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(element(4, &[0; 0x1234])[..4], [4, 0x82, 0x12, 0x34]);
    }

    #[test]
    fn integers_are_positive_and_minimal() {
        assert_eq!(unsigned(&[0, 0, 0x7f]), [2, 1, 0x7f]);
        assert_eq!(unsigned(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(unsigned(&[]), [2, 1, 0]);
    }

    #[test]
    fn flags_are_as_rfc_5280_wants_them() {
        // digitalSignature and keyEncipherment; keyCertSign and cRLSign; decipherOnly.
        assert_eq!(flags(0b101), [3, 2, 5, 0xa0]);
        assert_eq!(flags(0b110_0000), [3, 2, 1, 0x06]);
        assert_eq!(flags(1 << 8), [3, 3, 7, 0x00, 0x80]);
        assert_eq!(flags(0), [3, 1, 0]);
    }

    #[test]
    fn times_change_form_in_2050() {
        let at = |text| OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).unwrap();
        assert_eq!(time(at("2049-12-31T23:59:59Z")), element(UTC_TIME, b"491231235959Z"));
        assert_eq!(time(at("2050-01-01T00:00:00+01:00")), element(UTC_TIME, b"491231230000Z"));
        assert_eq!(time(at("2050-01-01T00:00:00Z")), element(GENERALIZED_TIME, b"20500101000000Z"));
    }

    #[test]
    fn texts_are_printable_where_they_can_be() {
        assert_eq!(text("Cloud Foundry")[0], PRINTABLE_STRING);
        assert_eq!(text("*.bosh")[0], UTF8_STRING);
        assert_eq!(text("é")[0], UTF8_STRING);
    }

    proptest::proptest! {
        #[test]
        fn reading_gives_what_was_written(tag: u8, content: Vec<u8>, more: Vec<u8>) {
            let bytes = [element(tag, &content), more].concat();
            proptest::prop_assert_eq!(Reader::new(&bytes).read(tag), Some(content.as_slice()));
        }

        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.read(bytes.first().copied().unwrap_or_default()).is_some() {}
        }
    }
}
