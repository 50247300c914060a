//! The order in which the emitter writes keys: booleans and numbers, null, then strings in natural order
//! (`a2` before `a10`).
//!
//! This order is not transitive: three keys such as `04`, `0b` and `1-` can form a cycle. The sorts of the
//! standard library may panic on such a comparison, so this module has a merge sort of its own. It starts
//! from entries sorted by their text, so its result does not depend on the order of the document.

use std::cmp::Ordering;

use super::{Data, Mapping, Node};

/// Returns the entries of a mapping in the order in which they are written.
pub(super) fn sort_entries(map: &Mapping) -> Vec<(&Node, &Node)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|(one, _), (other, _)| one.as_str().cmp(&other.as_str()));
    merge_sort(entries)
}

/// Merges sorted runs of one entry into runs of two, then four, and so on.
fn merge_sort<'a>(mut entries: Vec<(&'a Node, &'a Node)>) -> Vec<(&'a Node, &'a Node)> {
    let mut buffer = Vec::with_capacity(entries.len());
    let mut run = 1;
    while run < entries.len() {
        for runs in entries.chunks(2 * run) {
            let (mut left, mut right) = runs.split_at(run.min(runs.len()));
            while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
                if compare(b.0, a.0) == Ordering::Less {
                    buffer.push(*b);
                    right = right_rest;
                } else {
                    buffer.push(*a);
                    left = left_rest;
                }
            }
            buffer.extend_from_slice(left);
            buffer.extend_from_slice(right);
        }
        std::mem::swap(&mut entries, &mut buffer);
        buffer.clear();
        run *= 2;
    }
    entries
}

fn compare(a: &Node, b: &Node) -> Ordering {
    match (number(&a.data), number(&b.data)) {
        (Some(x), Some(y)) => x
            .partial_cmp(&y)
            .unwrap_or(Ordering::Equal)
            .then_with(|| rank(&a.data).cmp(&rank(&b.data)))
            .then_with(|| compare_exactly(&a.data, &b.data)),
        _ => match (&a.data, &b.data) {
            (Data::String(x), Data::String(y)) => compare_naturally(x, y),
            _ => rank(&a.data).cmp(&rank(&b.data)),
        },
    }
}

/// Compares integers that are equal as floats, because a float cannot hold every digit.
fn compare_exactly(a: &Data, b: &Data) -> Ordering {
    match (a, b) {
        (Data::Int(x), Data::Int(y)) => x.cmp(y),
        (Data::UInt(x), Data::UInt(y)) => x.cmp(y),
        _ => Ordering::Equal,
    }
}

/// Returns the value by which booleans and numbers are compared.
#[expect(
    clippy::cast_precision_loss,
    reason = "keys that are equal as floats are compared exactly afterwards"
)]
fn number(data: &Data) -> Option<f64> {
    match data {
        Data::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Data::Int(int) => Some(*int as f64),
        Data::UInt(int) => Some(*int as f64),
        Data::Float(float) => Some(*float),
        _ => None,
    }
}

/// Returns the position of a type in the order, for keys of different types.
fn rank(data: &Data) -> u8 {
    match data {
        Data::Bool(_) => 0,
        Data::Int(_) => 1,
        Data::UInt(_) => 2,
        Data::Float(_) => 3,
        Data::Null => 4,
        Data::Map(_) => 5,
        Data::Seq(_) => 6,
        Data::String(_) => 7,
    }
}

/// Compares strings in natural order: letters after all other characters, runs of digits by their value.
fn compare_naturally(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let equal_bytes = a.bytes().zip(b.bytes()).take_while(|(p, q)| p == q).count();
    let (prefix, x) = a.split_at(a.floor_char_boundary(equal_bytes));
    let y = b.get(prefix.len()..).unwrap_or_default();
    let (Some(p), Some(q)) = (x.chars().next(), y.chars().next()) else {
        return x.len().cmp(&y.len());
    };
    match (p.is_alphabetic(), q.is_alphabetic()) {
        (true, true) => return p.cmp(&q),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside a number counts as a digit, but a leading zero does not.
    let is_inside_number = (p == '0' || q == '0')
        && prefix.chars().rev().take_while(|digit| digit.is_numeric()).any(|digit| digit != '0');
    let (value_x, length_x) = digits(x, is_inside_number);
    let (value_y, length_y) = digits(y, is_inside_number);
    value_x.cmp(&value_y).then(length_x.cmp(&length_y)).then(p.cmp(&q))
}

/// Returns the value and the number of the digits at the start of `text`. Inside a number, the value gets a
/// leading 1, so that zeros at the start count.
fn digits(text: &str, is_inside_number: bool) -> (i64, usize) {
    let mut value = i64::from(is_inside_number);
    let mut length = 0;
    for digit in text.chars().take_while(|character| character.is_numeric()) {
        let digit = i64::from(u32::from(digit)) - i64::from(u32::from('0'));
        value = value.wrapping_mul(10).wrapping_add(digit);
        length += 1;
    }
    (value, length)
}
