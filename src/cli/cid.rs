//! CIDs on the command line.

use clap::builder::{NonEmptyStringValueParser, TypedValueParser};

use engine::protocol::{Cid, CidKind};

/// Reads the CID of a resource of the kind `K`.
pub(super) fn cid<K: CidKind>() -> impl TypedValueParser<Value = Cid<K>> {
    NonEmptyStringValueParser::new().try_map(|text| text.parse::<Cid<K>>())
}
