//! `IPAddr`: addresses and networks.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use num_bigint::BigInt;

use crate::evaluator::eval::{Args, Interp, R};
use crate::evaluator::value::{Class, Data, Object, Value};

/// An address with the length of its network prefix, in bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    bits: u128,
    prefix: u32,
    v4: bool,
}

impl Address {
    fn width(&self) -> u32 {
        if self.v4 { 32 } else { 128 }
    }

    fn host_mask(&self) -> u128 {
        let host = self.width() - self.prefix;
        if host == 0 { 0 } else { u128::MAX >> (128 - host) }
    }

    fn masked(mut self, prefix: u32) -> Address {
        self.prefix = prefix;
        self.bits &= !self.host_mask();
        self
    }

    fn last(&self) -> Address {
        Address { bits: self.bits | self.host_mask(), prefix: self.prefix, v4: self.v4 }
    }

    fn ip(&self) -> IpAddr {
        if self.v4 {
            IpAddr::V4(Ipv4Addr::from(self.bits as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from(self.bits))
        }
    }

    /// Returns true if both addresses are the same. Prefixes are not compared.
    pub(crate) fn same_host(&self, other: &Address) -> bool {
        self.bits == other.bits && self.v4 == other.v4
    }

    /// Compares two addresses. Returns `None` for addresses of different families.
    pub(crate) fn compare(&self, other: &Address) -> Option<Ordering> {
        (self.v4 == other.v4).then(|| self.bits.cmp(&other.bits))
    }

    fn contains(&self, other: &Address) -> bool {
        self.v4 == other.v4 && other.bits >= self.bits && other.last().bits <= self.last().bits
    }

    /// Returns the form of `inspect`.
    pub(crate) fn inspect(&self) -> String {
        let mask =
            Address { bits: !self.host_mask() & (u128::MAX >> (128 - self.width())), prefix: 0, v4: self.v4 };
        let family = if self.v4 { "IPv4" } else { "IPv6" };
        if self.v4 {
            format!("#<IPAddr: {family}:{}/{}>", self, mask)
        } else {
            format!("#<IPAddr: {family}:{}/{}>", self.long(), mask.long())
        }
    }

    /// Returns the address with all digits of IPv6 written out.
    fn long(&self) -> String {
        match self.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => ip.segments().map(|part| format!("{part:04x}")).join(":"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip().fmt(f)
    }
}

/// Reads `address`, `address/prefix` or `address/mask`. The error is the class and message of Ruby's
/// exception.
fn parse(text: &str) -> Result<Address, (&'static str, String)> {
    let invalid = |what: &str| ("IPAddr::InvalidAddressError", format!("invalid address: {what}"));
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    let parsed = if bare.contains(':') {
        Address { bits: bare.parse::<Ipv6Addr>().map_err(|_| invalid(text))?.into(), prefix: 128, v4: false }
    } else {
        let ip: Ipv4Addr = bare.parse().map_err(|_| invalid(text))?;
        Address { bits: u32::from(ip).into(), prefix: 32, v4: true }
    };
    let Some(prefix) = prefix else { return Ok(parsed) };
    let length = if prefix.contains('.') {
        let mask: Ipv4Addr = prefix.parse().map_err(|_| invalid(text))?;
        let mask = u32::from(mask);
        if mask.leading_ones() + mask.trailing_zeros() != 32 && mask != 0 {
            return Err(("IPAddr::InvalidPrefixError", format!("invalid mask {prefix}: {text}")));
        }
        mask.leading_ones()
    } else {
        prefix.parse().map_err(|_| ("IPAddr::InvalidPrefixError", format!("invalid length: {text}")))?
    };
    if length > parsed.width() {
        return Err(("IPAddr::InvalidPrefixError", format!("invalid length: {text}")));
    }
    Ok(parsed.masked(length))
}

/// Converts an `IPAddr`, an integer or a string to an address.
fn address_of(it: &mut Interp, value: &Value) -> R<Address> {
    if let Value::Object(object) = value
        && let Data::Address(address) = &*object.data.borrow()
    {
        return Ok(address.clone());
    }
    if let Value::Int(number) = value {
        return Ok(Address { bits: *number as u32 as u128, prefix: 32, v4: true });
    }
    let text = it.string_arg(value)?;
    parse(&text).map_err(|(class, message)| it.error(class, message))
}

fn make(it: &mut Interp, address: Address) -> Value {
    let class = it.class("IPAddr");
    it.object(class, Data::Address(address))
}

pub(crate) fn class_method(it: &mut Interp, class: &Rc<Class>, name: &str, args: &Args) -> R<Option<Value>> {
    if name != "new" {
        return Ok(None);
    }
    let value = it.arg(args, 0)?;
    if let (Value::Int(_) | Value::Big(_), Some(family)) = (&value, args.get(1)) {
        let v4 = matches!(family, Value::Int(2));
        let number = crate::evaluator::methods::to_big(&value);
        let bits = u128::try_from(&number).unwrap_or_default();
        let address = Address { bits, prefix: if v4 { 32 } else { 128 }, v4 };
        return Ok(Some(it.object(Rc::clone(class), Data::Address(address))));
    }
    if !matches!(value, Value::Str(_)) {
        return Err(it.error("IPAddr::AddressFamilyError", "unsupported address family: 0"));
    }
    let address = address_of(it, &value)?;
    Ok(Some(it.object(Rc::clone(class), Data::Address(address))))
}

/// Implements `address == other`. `other` can be a string.
pub(crate) fn equals(it: &mut Interp, object: &Rc<Object>, other: &Value) -> R<bool> {
    let Data::Address(address) = &*object.data.borrow() else { return Ok(false) };
    let address = address.clone();
    match address_of(it, other) {
        Ok(other) => Ok(address.same_host(&other)),
        Err(crate::evaluator::eval::Flow::Raise(_)) => Ok(false),
        Err(flow) => Err(flow),
    }
}

/// Implements `network === address`.
pub(crate) fn includes(it: &mut Interp, object: &Rc<Object>, other: &Value) -> R<bool> {
    let Data::Address(address) = &*object.data.borrow() else { return Ok(false) };
    let address = address.clone();
    Ok(address.contains(&address_of(it, other)?))
}

pub(crate) fn method(it: &mut Interp, object: &Rc<Object>, name: &str, args: &Args) -> R<Option<Value>> {
    let address = match &*object.data.borrow() {
        Data::Address(address) => address.clone(),
        _ => return Ok(None),
    };
    let shifted = |address: &Address, by: i128| Address {
        bits: (address.bits as i128).wrapping_add(by) as u128 & (u128::MAX >> (128 - address.width())),
        ..address.clone()
    };
    Ok(Some(match name {
        "to_s" => Value::str(address.to_string()),
        "to_string" => Value::str(address.long()),
        "to_i" => Value::big(BigInt::from(address.bits)),
        "inspect" => Value::str(address.inspect()),
        "ipv4?" => Value::Bool(address.v4),
        "ipv6?" => Value::Bool(!address.v4),
        "family" => Value::Int(if address.v4 { 2 } else { 10 }),
        "prefix" => Value::Int(address.prefix.into()),
        "include?" | "===" => {
            let other = it.arg(args, 0)?;
            Value::Bool(includes(it, object, &other)?)
        }
        "==" => {
            let other = it.arg(args, 0)?;
            Value::Bool(equals(it, object, &other)?)
        }
        "mask" => {
            let wanted = it.arg(args, 0)?;
            let wanted = it.text_of(&wanted)?;
            match parse(&format!("{address}/{wanted}")) {
                Ok(masked) => make(it, masked),
                Err((class, message)) => return Err(it.error(class, message)),
            }
        }
        "to_range" => {
            let from = Address { prefix: address.width(), ..address.clone() };
            let to = Address { prefix: address.width(), ..address.last() };
            let (from, to) = (make(it, from), make(it, to));
            it.range(from, to, false)?
        }
        "succ" => make(it, shifted(&address, 1)),
        "+" | "-" => {
            let by = it.int_or(args, 0, 0)?;
            let by = if name == "+" { by } else { -by };
            make(it, shifted(&address, by.into()))
        }
        "|" | "&" => {
            let other = it.arg(args, 0)?;
            let other = address_of(it, &other)?;
            let bits = if name == "|" { address.bits | other.bits } else { address.bits & other.bits };
            make(it, Address { bits, ..address })
        }
        "~" => {
            let all = u128::MAX >> (128 - address.width());
            make(it, Address { bits: !address.bits & all, ..address })
        }
        "hton" => {
            let bytes = match address.ip() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            super::base64::binary(&bytes)
        }
        "reverse" => match address.ip() {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                Value::str(format!("{d}.{c}.{b}.{a}.in-addr.arpa"))
            }
            IpAddr::V6(ip) => {
                let digits: Vec<String> =
                    format!("{:032x}", u128::from(ip)).chars().rev().map(String::from).collect();
                Value::str(format!("{}.ip6.arpa", digits.join(".")))
            }
        },
        "private?" | "loopback?" | "link_local?" => match (address.ip(), name) {
            (IpAddr::V4(ip), "private?") => Value::Bool(ip.is_private()),
            (IpAddr::V4(ip), "loopback?") => Value::Bool(ip.is_loopback()),
            (IpAddr::V4(ip), _) => Value::Bool(ip.is_link_local()),
            (IpAddr::V6(ip), "private?") => Value::Bool(ip.is_unique_local()),
            (IpAddr::V6(ip), "loopback?") => Value::Bool(ip.is_loopback()),
            (IpAddr::V6(ip), _) => Value::Bool(ip.is_unicast_link_local()),
        },
        "<" | "<=" | ">" | ">=" | "between?" | "clamp" => {
            return it.comparable_method(&Value::Object(Rc::clone(object)), name, args);
        }
        _ => return Ok(None),
    }))
}
