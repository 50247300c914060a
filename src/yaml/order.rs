//! The order in which keys are written: numbers, null, strings, and those the natural way (`a2` before
//! `a10`).

use std::cmp::Ordering;

use super::{Data, Mapping, Node};

/// The entries of a mapping in the order they are written.
pub(super) fn sorted(map: &Mapping) -> Vec<(&Node, &Node)> {
    let mut entries: Vec<_> = map.iter().collect();
    // Three keys can form a circle in this order (`04`, `0b`, `1-`), which the standard library's sorts
    // may answer with a panic. A fixed start makes the outcome the same however they were written.
    entries.sort_by(|(one, _), (other, _)| one.as_str().cmp(&other.as_str()));
    merge_sort(entries)
}

/// Merges runs of one entry to runs of two, of four, and so on.
fn merge_sort<'a>(mut entries: Vec<(&'a Node, &'a Node)>) -> Vec<(&'a Node, &'a Node)> {
    let mut merged = Vec::with_capacity(entries.len());
    let mut run = 1;
    while run < entries.len() {
        for runs in entries.chunks(2 * run) {
            let (mut left, mut right) = runs.split_at(run.min(runs.len()));
            while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
                if compare(b.0, a.0) == Ordering::Less {
                    merged.push(*b);
                    right = right_rest;
                } else {
                    merged.push(*a);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut entries, &mut merged);
        merged.clear();
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
            .then_with(|| exact(&a.data, &b.data)),
        _ => match (&a.data, &b.data) {
            (Data::String(x), Data::String(y)) => natural(x, y),
            _ => rank(&a.data).cmp(&rank(&b.data)),
        },
    }
}

/// Integers too close for a float to tell apart.
fn exact(a: &Data, b: &Data) -> Ordering {
    match (a, b) {
        (Data::Int(x), Data::Int(y)) => x.cmp(y),
        (Data::UInt(x), Data::UInt(y)) => x.cmp(y),
        _ => Ordering::Equal,
    }
}

#[expect(clippy::cast_precision_loss, reason = "keys compare as floats first, exactly then")]
fn number(data: &Data) -> Option<f64> {
    match data {
        Data::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Data::Int(int) => Some(*int as f64),
        Data::UInt(int) => Some(*int as f64),
        Data::Float(float) => Some(*float),
        _ => None,
    }
}

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

/// Letters sort after everything else, runs of digits by their value.
fn natural(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let alike = a.bytes().zip(b.bytes()).take_while(|(p, q)| p == q).count();
    let (known, x) = a.split_at(a.floor_char_boundary(alike));
    let y = b.get(known.len()..).unwrap_or_default();
    let (Some(p), Some(q)) = (x.chars().next(), y.chars().next()) else {
        return x.len().cmp(&y.len());
    };
    match (p.is_alphabetic(), q.is_alphabetic()) {
        (true, true) => return p.cmp(&q),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside a number counts as a digit, a leading one does not.
    let inside_number = (p == '0' || q == '0')
        && known.chars().rev().take_while(|digit| digit.is_numeric()).any(|digit| digit != '0');
    let (value_x, length_x) = digits(x, inside_number);
    let (value_y, length_y) = digits(y, inside_number);
    value_x.cmp(&value_y).then(length_x.cmp(&length_y)).then(p.cmp(&q))
}

/// The number that a text begins with, as a key counts it, and how many digits it has.
fn digits(text: &str, inside_number: bool) -> (i64, usize) {
    let mut value = i64::from(inside_number);
    let mut length = 0;
    for digit in text.chars().take_while(|character| character.is_numeric()) {
        let digit = i64::from(u32::from(digit)) - i64::from(u32::from('0'));
        value = value.wrapping_mul(10).wrapping_add(digit);
        length += 1;
    }
    (value, length)
}
