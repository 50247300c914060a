//! `IPAddr`: addresses and networks.

use std::cmp::Ordering;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use num_bigint::BigInt;

use crate::evaluator::eval::{Args, EvalResult, Flow, Interpreter};
use crate::evaluator::methods::to_big;
use crate::evaluator::value::{Class, Data, Object, Value};

/// The exception of Ruby for a text that is not an address.
const INVALID_ADDRESS: &str = "IPAddr::InvalidAddressError";
/// The exception of Ruby for a prefix or mask that a network cannot have.
const INVALID_PREFIX: &str = "IPAddr::InvalidPrefixError";
/// The exception of Ruby for addresses of different versions.
const WRONG_FAMILY: &str = "IPAddr::AddressFamilyError";
/// The prefix of IPv4-mapped IPv6 addresses (`::ffff:0:0`).
const V4_MAPPED_PREFIX: u128 = 0xffff << 32;

/// The class and the message of an exception.
type AddressError = (&'static str, String);

/// The version of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Family {
    V4,
    V6,
}

/// An address with the mask of its network.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    bits: u128,
    mask: u128,
    family: Family,
    /// The zone of an IPv6 address, such as `%eth0`.
    zone: Option<String>,
}

impl Family {
    fn width(self) -> u32 {
        if self == Family::V4 { 32 } else { 128 }
    }

    /// Returns the bits of the largest address, which are all 1.
    fn max_bits(self) -> u128 {
        u128::MAX >> (128 - self.width())
    }

    /// Returns the number of this family in `Socket`.
    fn number(self) -> i64 {
        if self == Family::V4 { 2 } else { 10 }
    }
}

impl Address {
    fn host(bits: u128, family: Family) -> Address {
        Address { bits, mask: family.max_bits(), family, zone: None }
    }

    /// Returns the same address without its network and zone.
    fn single_address(&self, bits: u128) -> Address {
        Address::host(bits, self.family)
    }

    fn first(&self) -> u128 {
        self.bits & self.mask
    }

    fn last(&self) -> u128 {
        self.bits | (self.family.max_bits() ^ self.mask)
    }

    fn prefix(&self) -> u32 {
        let host = self.family.max_bits() ^ self.mask;
        self.family.width().saturating_sub(128 - host.leading_zeros())
    }

    fn is_mapped(&self) -> bool {
        self.family == Family::V6 && self.bits >> 32 == 0xffff
    }

    fn is_compatible(&self) -> bool {
        self.family == Family::V6 && self.bits >> 32 == 0 && self.bits > 1
    }

    /// Returns true if both addresses are the same. Networks and zones are not compared.
    pub(crate) fn has_same_host(&self, other: &Address) -> bool {
        self.bits == other.bits && self.family == other.family
    }

    /// Compares two addresses. Returns `None` for addresses of different families.
    pub(crate) fn compare(&self, other: &Address) -> Option<Ordering> {
        (self.family == other.family).then(|| self.bits.cmp(&other.bits))
    }

    fn contains(&self, other: &Address) -> bool {
        self.family == other.family && self.first() <= other.first() && other.last() <= self.last()
    }

    fn zone(&self) -> &str {
        self.zone.as_deref().unwrap_or_default()
    }

    /// Returns the form of `inspect`, without the class.
    pub(crate) fn inspect(&self) -> String {
        let name = if self.family == Family::V4 { "IPv4" } else { "IPv6" };
        let (bits, mask) = (long(self.bits, self.family), long(self.mask, self.family));
        format!("{name}:{bits}{}/{mask}", self.zone())
    }

    /// Returns the name for a reverse lookup, without its domain.
    fn reverse_name(&self) -> String {
        if self.family == Family::V4 {
            let [a, b, c, d] = (self.bits as u32).to_be_bytes();
            return format!("{d}.{c}.{b}.{a}");
        }
        let digits: Vec<String> = format!("{:032x}", self.bits).chars().rev().map(String::from).collect();
        digits.join(".")
    }

    fn is_private(&self) -> bool {
        let is_in_network =
            |network: u32, bits: u32| self.bits as u32 >> (32 - bits) == network >> (32 - bits);
        match self.family {
            Family::V4 => {
                is_in_network(0x0a00_0000, 8)
                    || is_in_network(0xac10_0000, 12)
                    || is_in_network(0xc0a8_0000, 16)
            }
            Family::V6 => self.bits >> 121 == 0xfc00 >> 9,
        }
    }

    fn is_loopback(&self) -> bool {
        match self.family {
            Family::V4 => self.bits >> 24 == 127,
            Family::V6 => self.bits == 1,
        }
    }

    fn is_link_local(&self) -> bool {
        match self.family {
            Family::V4 => self.bits >> 16 == 0xa9fe,
            Family::V6 => self.bits >> 118 == 0xfe80 >> 6,
        }
    }

    /// Returns a copy with another address. Fails if it is out of range.
    fn with_bits(&self, bits: &BigInt, family: Family) -> Result<Address, AddressError> {
        let valid_bits = u128::try_from(bits).ok().filter(|bits| *bits <= family.max_bits());
        let bits = valid_bits.ok_or_else(|| (INVALID_ADDRESS, format!("invalid address: {}", self.bits)))?;
        // Only IPv4 masks are truncated to the width of the family.
        let mask = if family == Family::V4 { self.mask & family.max_bits() } else { self.mask };
        Ok(Address { bits, mask, family, zone: self.zone.clone() })
    }

    /// Returns the network of this address with a prefix length.
    fn with_prefix(&self, length: i64) -> Result<Address, AddressError> {
        let length = u32::try_from(length).ok().filter(|length| *length <= self.family.width());
        let length = length.ok_or_else(|| (INVALID_PREFIX, format!("invalid length: {}", self.bits)))?;
        let host = self.family.width() - length;
        let mask = self.family.max_bits().checked_shr(host).unwrap_or(0).checked_shl(host).unwrap_or(0);
        Ok(Address { bits: self.bits & mask, mask, ..self.clone() })
    }

    /// Returns the network of this address with a prefix length or mask, given as text.
    fn with_mask(&self, text: &str) -> Result<Address, AddressError> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            if text.len() > 1 && text.starts_with('0') {
                return Err((INVALID_PREFIX, "leading zeros in prefix".into()));
            }
            return self.with_prefix(text.parse().unwrap_or(i64::MAX));
        }
        let mask = parse(text, None)?;
        if mask.family != self.family {
            return Err((INVALID_PREFIX, format!("address family is not same: {}", self.bits)));
        }
        let host = mask.bits ^ mask.mask;
        if host.wrapping_add(1) & host != 0 {
            return Err((INVALID_PREFIX, format!("invalid mask {text}: {}", self.bits)));
        }
        Ok(Address { bits: self.bits & mask.bits, mask: mask.bits, ..self.clone() })
    }
}

/// Returns an address with all digits of IPv6 written out.
fn long(bits: u128, family: Family) -> String {
    match family {
        Family::V4 => Ipv4Addr::from(bits as u32).to_string(),
        Family::V6 => Ipv6Addr::from(bits).segments().map(|part| format!("{part:04x}")).join(":"),
    }
}

/// Writes the form of `to_s`. It shows more IPv6 addresses with an IPv4 address at the end than Rust does.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.family == Family::V4 {
            return f.write_str(&long(self.bits, self.family));
        }
        let parts = Ipv6Addr::from(self.bits).segments();
        let zeros = |start: usize| parts[start..].iter().take_while(|part| **part == 0).count();
        // This is the first of the longest runs of zeros. Ruby's pattern for eight zeros does not allow a
        // zone.
        let longest_zeros = (0..8)
            .map(|start| (zeros(start), start))
            .fold((1, 0), |best, run| if run.0 > best.0 { run } else { best });
        let (count, start) = if longest_zeros.0 == 8 && self.zone.is_some() { (7, 0) } else { longest_zeros };
        let text = |parts: &[u16]| parts.iter().map(|part| format!("{part:x}")).collect::<Vec<_>>().join(":");
        let short_text = match count {
            1 => text(&parts),
            _ => format!("{}::{}", text(&parts[..start]), text(&parts[start + count..])),
        };
        let tail = short_text.strip_prefix("::").filter(|_| self.zone.is_none());
        let (mapped_prefix, tail) = match tail.and_then(|tail| tail.strip_prefix("ffff:")) {
            Some(rest) if rest.matches(':').count() == 1 => ("ffff:", Some(rest)),
            _ => ("", tail.filter(|tail| tail.matches(':').count() == 1)),
        };
        if tail.is_some() {
            return write!(f, "::{mapped_prefix}{}", Ipv4Addr::from(self.bits as u32));
        }
        // Ruby's pattern that drops leading zeros also matches a zone of hexadecimal digits.
        let zone = self.zone();
        let name = zone.strip_prefix('%').unwrap_or(zone);
        let is_hex = name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let shorter =
            (1..=3).rev().find(|zeros| name.len() > *zeros && name[..*zeros].bytes().all(|b| b == b'0'));
        match shorter.filter(|_| is_hex) {
            Some(zeros) => write!(f, "{short_text}%{}", &name[zeros..]),
            None => write!(f, "{short_text}{zone}"),
        }
    }
}

/// Reads `address`, `address/prefix` or `address/mask`.
fn parse(text: &str, family: Option<Family>) -> Result<Address, AddressError> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let mut expected_family = family;
    let inner = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let digits = match inner.filter(|inner| !inner.contains('\n')) {
        Some(inner) => {
            expected_family = Some(Family::V6);
            inner
        }
        None => address,
    };
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let zoned = digits
        .rsplit_once('%')
        .filter(|(address, name)| !name.is_empty() && is_name(name) && !address.contains('\n'));
    let (digits, zone) = match zoned {
        Some((address, name)) => {
            expected_family = Some(Family::V6);
            (address, Some(format!("%{name}")))
        }
        None => (digits, None),
    };
    let v4 = if expected_family == Some(Family::V6) { None } else { parse_v4(digits)? };
    let mut address = match v4 {
        Some(bits) => Address::host(bits.into(), Family::V4),
        None if expected_family == Some(Family::V4) => {
            return Err((WRONG_FAMILY, "address family mismatch".into()));
        }
        None => Address::host(parse_v6(digits)?, Family::V6),
    };
    address.zone = zone;
    match prefix {
        Some(prefix) => address.with_mask(prefix),
        None => Ok(address),
    }
}

fn invalid_address_error() -> AddressError {
    (INVALID_ADDRESS, "invalid address: ".into())
}

/// Reads an IPv4 address. Returns `None` if the text is not four numbers.
fn parse_v4(text: &str) -> Result<Option<u32>, AddressError> {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() != 4 || !parts.iter().all(is_number) {
        return Ok(None);
    }
    let mut bits = 0;
    for part in parts {
        let number: u8 = part.trim_start_matches('0').parse().or_else(|_| {
            if part.bytes().all(|byte| byte == b'0') { Ok(0) } else { Err(invalid_address_error()) }
        })?;
        if part.len() > 1 && part.starts_with('0') {
            return Err((INVALID_ADDRESS, "zero-filled number in IPv4 address is ambiguous: ".into()));
        }
        bits = bits << 8 | u32::from(number);
    }
    Ok(Some(bits))
}

/// Reads an IPv6 address.
fn parse_v6(text: &str) -> Result<u128, AddressError> {
    // A trailing IPv4 address is checked like any IPv4 address.
    let tail = text.rsplit(':').next().filter(|tail| tail.contains('.'));
    if let Some(tail) = tail
        && text[..text.len() - tail.len()].bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
    {
        let with_zeros = format!("{}0:0", &text[..text.len() - tail.len()]);
        let bits = with_zeros.parse::<Ipv6Addr>().map_err(|_| invalid_address_error())?;
        if text.matches(':').count() > 6 {
            return Err(invalid_address_error());
        }
        return match parse_v4(tail)? {
            Some(low) => Ok(u128::from(bits) | u128::from(low)),
            None => Err(invalid_address_error()),
        };
    }
    text.parse::<Ipv6Addr>().map(u128::from).map_err(|_| invalid_address_error())
}

fn raise_if_invalid<T>(interpreter: &mut Interpreter, result: Result<T, AddressError>) -> EvalResult<T> {
    result.map_err(|(class, message)| interpreter.ruby_error(class, message))
}

/// Converts an `IPAddr`, a string or a value with `to_i` to an address. A number becomes one of this family.
fn convert_to_address(interpreter: &mut Interpreter, value: &Value, family: Family) -> EvalResult<Address> {
    match value {
        Value::Object(object) if matches!(&*object.data.borrow(), Data::Address(_)) => {
            match &*object.data.borrow() {
                Data::Address(address) => Ok(address.clone()),
                _ => Err(interpreter.unsupported_error("this address")),
            }
        }
        Value::Str(_) => {
            let text = interpreter.string_arg(value)?;
            let result = parse(&text, None);
            raise_if_invalid(interpreter, result)
        }
        other => address_from_number(interpreter, other, family),
    }
}

/// Converts a value with `to_i` to an address of this family.
fn address_from_number(interpreter: &mut Interpreter, value: &Value, family: Family) -> EvalResult<Address> {
    let number = match value {
        Value::Int(_) | Value::Big(_) => value.clone(),
        other => interpreter.call(other, "to_i", Vec::new())?,
    };
    let bits = u128::try_from(&to_big(&number)).ok().filter(|bits| *bits <= family.max_bits());
    match bits {
        Some(bits) => Ok(Address::host(bits, family)),
        None => {
            let (class, message) = invalid_address_error();
            Err(interpreter.ruby_error(class, message))
        }
    }
}

/// Calls a method of the class IPAddr itself. Returns `None` if it does not implement the method.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    class: &Rc<Class>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    if name != "new" {
        return Ok(None);
    }
    interpreter.check_arg_count(args, 0, 2)?;
    let value = args.get(0).cloned().unwrap_or_else(|| Value::str("::"));
    let family = match args.get(1) {
        None | Some(Value::Int(0)) => None,
        Some(Value::Int(2)) => Some(Family::V4),
        Some(Value::Int(10)) => Some(Family::V6),
        // Any other family is an error, even if the value is a string.
        Some(other) => {
            let family_text = interpreter.text_of(&other.clone())?;
            let text = match value {
                Value::Str(_) => "address family mismatch".to_owned(),
                _ => format!("unsupported address family: {family_text}"),
            };
            return Err(interpreter.ruby_error(WRONG_FAMILY, text));
        }
    };
    let address = match (&value, family) {
        (Value::Str(_), _) => {
            let text = interpreter.string_arg(&value)?;
            let result = parse(&text, family);
            raise_if_invalid(interpreter, result)?
        }
        (_, Some(family)) => address_from_number(interpreter, &value, family)?,
        (_, None) => return Err(interpreter.ruby_error(WRONG_FAMILY, "address family must be specified")),
    };
    Ok(Some(interpreter.create_object(Rc::clone(class), Data::Address(address))))
}

fn address_of(object: &Rc<Object>) -> Option<Address> {
    match &*object.data.borrow() {
        Data::Address(address) => Some(address.clone()),
        _ => None,
    }
}

/// Implements `address == other`. `other` can be a string or a number.
pub(crate) fn equals(interpreter: &mut Interpreter, object: &Rc<Object>, other: &Value) -> EvalResult<bool> {
    let Some(address) = address_of(object) else { return Ok(false) };
    match convert_to_address(interpreter, other, address.family) {
        Ok(other) => Ok(address.has_same_host(&other)),
        Err(Flow::Raise(_)) => Ok(false),
        Err(flow) => Err(flow),
    }
}

/// Implements `address <=> other`. `other` can be a string or a number.
pub(crate) fn compare(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    other: &Value,
) -> EvalResult<Option<Ordering>> {
    let Some(address) = address_of(object) else { return Ok(None) };
    match convert_to_address(interpreter, other, address.family) {
        Ok(other) => Ok(address.compare(&other)),
        Err(Flow::Raise(_)) => Ok(None),
        Err(flow) => Err(flow),
    }
}

/// Implements `network === address`.
pub(crate) fn includes(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    other: &Value,
) -> EvalResult<bool> {
    let Some(address) = address_of(object) else { return Ok(false) };
    Ok(address.contains(&convert_to_address(interpreter, other, address.family)?))
}

/// Returns the number of bits to shift to the left. It is clamped, because a shift by more bits than an
/// address has changes nothing more.
fn shift_of(interpreter: &mut Interpreter, args: &Args, name: &str) -> EvalResult<i64> {
    let distance = interpreter.arg(args, 0)?;
    if !matches!(distance, Value::Int(_)) {
        return Err(interpreter.unsupported_error(format!("IPAddr#{name} by this value")));
    }
    let distance = interpreter.int_arg(&distance)?.clamp(-300, 300);
    Ok(if name == "<<" { distance } else { -distance })
}

/// Calls a method of an IPAddr. Returns `None` if IPAddr does not implement it.
pub(crate) fn call_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let Some(address) = address_of(object) else { return Ok(None) };
    let family = address.family;
    let create_object = |interpreter: &mut Interpreter, address: Address| {
        interpreter.create_object(Rc::clone(&object.class), Data::Address(address))
    };
    // Creates an address from the result of a calculation.
    let create_from_bits = |interpreter: &mut Interpreter, bits: BigInt, family: Family| {
        let result = address.with_bits(&bits, family);
        let new_address = raise_if_invalid(interpreter, result)?;
        Ok::<Value, Flow>(create_object(interpreter, new_address))
    };
    let not_v4_error = || (INVALID_ADDRESS, format!("not an IPv4 address: {}", address.bits));
    let not_v6_error = || (INVALID_ADDRESS, format!("not an IPv6 address: {}", address.bits));
    Ok(Some(match name {
        "to_s" => Value::str(address.to_string()),
        "to_string" => Value::str(format!("{}{}", long(address.bits, family), address.zone())),
        "to_i" => Value::integer(BigInt::from(address.bits)),
        "inspect" => Value::str(format!("#<{}: {}>", object.class.label(), address.inspect())),
        "ipv4?" => Value::Bool(family == Family::V4),
        "ipv6?" => Value::Bool(family == Family::V6),
        "family" => Value::Int(family.number()),
        "prefix" => Value::Int(address.prefix().into()),
        "netmask" => Value::str(long(address.mask, family)),
        "include?" | "===" => {
            let other = interpreter.arg(args, 0)?;
            Value::Bool(includes(interpreter, object, &other)?)
        }
        "==" => {
            let other = interpreter.arg(args, 0)?;
            Value::Bool(equals(interpreter, object, &other)?)
        }
        "mask" | "prefix=" => {
            let mask = interpreter.arg(args, 0)?;
            let result = match &mask {
                Value::Int(length) => address.with_prefix(*length),
                Value::Str(_) if name == "mask" => address.with_mask(&interpreter.string_arg(&mask)?),
                _ if name == "mask" => {
                    return Err(interpreter.unsupported_error("IPAddr#mask with this value"));
                }
                _ => Err((INVALID_PREFIX, format!("prefix must be an integer: {}", address.bits))),
            };
            let new_address = raise_if_invalid(interpreter, result)?;
            if name == "prefix=" {
                *object.data.borrow_mut() = Data::Address(new_address);
                return Ok(Some(mask));
            }
            create_object(interpreter, new_address)
        }
        "to_range" => {
            let (first, last) =
                (address.single_address(address.first()), address.single_address(address.last()));
            let (first, last) = (create_object(interpreter, first), create_object(interpreter, last));
            interpreter.create_range(first, last, false)?
        }
        "succ" => create_from_bits(interpreter, BigInt::from(address.bits) + 1, family)?,
        "|" | "&" => {
            let other = interpreter.arg(args, 0)?;
            let other = convert_to_address(interpreter, &other, family)?;
            let bits = if name == "|" { address.bits | other.bits } else { address.bits & other.bits };
            create_from_bits(interpreter, bits.into(), family)?
        }
        "~" => create_from_bits(interpreter, BigInt::from(!address.bits & family.max_bits()), family)?,
        "<<" | ">>" => {
            let distance = shift_of(interpreter, args, name)?;
            let bits = BigInt::from(address.bits);
            let bits = if distance >= 0 { bits << distance as u32 } else { bits >> distance.unsigned_abs() };
            // Only `<<` discards overflowing bits.
            let max_bits = BigInt::from(family.max_bits());
            create_from_bits(interpreter, if name == "<<" { bits & max_bits } else { bits }, family)?
        }
        "hton" => {
            let bytes = address.bits.to_be_bytes();
            super::base64::binary_string(if family == Family::V4 { &bytes[12..] } else { &bytes })
        }
        "reverse" => {
            let domain = if family == Family::V4 { "in-addr" } else { "ip6" };
            Value::str(format!("{}.{domain}.arpa", address.reverse_name()))
        }
        "ip6_arpa" | "ip6_int" => {
            if family == Family::V4 {
                return raise_if_invalid(interpreter, Err(not_v6_error()));
            }
            Value::str(format!("{}.{}", address.reverse_name(), name.replacen('_', ".", 1)))
        }
        "private?" => Value::Bool(address.is_private()),
        "loopback?" => Value::Bool(address.is_loopback()),
        "link_local?" => Value::Bool(address.is_link_local()),
        "ipv4_mapped?" => Value::Bool(address.is_mapped()),
        "ipv4_compat?" => Value::Bool(address.is_compatible()),
        "ipv4_mapped" | "ipv4_compat" => {
            if family == Family::V6 {
                return raise_if_invalid(interpreter, Err(not_v4_error()));
            }
            let mut new_address = Address { family: Family::V6, ..address.clone() };
            if name == "ipv4_mapped" {
                new_address.bits |= V4_MAPPED_PREFIX;
                new_address.mask |= Family::V6.max_bits() ^ Family::V4.max_bits();
            }
            create_object(interpreter, new_address)
        }
        "native" => {
            if !address.is_mapped() && !address.is_compatible() {
                return Ok(Some(Value::Object(Rc::clone(object))));
            }
            create_from_bits(interpreter, BigInt::from(address.bits & Family::V4.max_bits()), Family::V4)?
        }
        "zone_id" | "zone_id=" if family == Family::V4 => {
            return Err(interpreter.ruby_error(INVALID_ADDRESS, "not an IPv6 address"));
        }
        "zone_id" => address.zone.clone().map_or(Value::Nil, Value::str),
        "<=>" => {
            let other = interpreter.arg(args, 0)?;
            compare(interpreter, object, &other)?.map_or(Value::Nil, |order| Value::Int(order as i64))
        }
        "<" | "<=" | ">" | ">=" | "between?" | "clamp" => {
            return interpreter.call_comparable_method(&Value::Object(Rc::clone(object)), name, args);
        }
        _ => return Ok(None),
    }))
}
