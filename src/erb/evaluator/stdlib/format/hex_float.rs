//! Floats as `%a` writes them: a hexadecimal fraction times a power of two.

/// Bits of a float's fraction, and the hexadecimal digits that takes.
const FRACTION_BITS: i32 = 52;
const FRACTION_DIGITS: usize = 13;

/// A finite number that is not negative, without its `0x`: `1.8p+1` is 3.
pub(super) fn hex_float(size: f64, precision: Option<usize>, keep_point: bool) -> String {
    let (mut bits, mut power) = parts(size);
    let digits = precision.unwrap_or(FRACTION_DIGITS).min(FRACTION_DIGITS);
    let cut = (FRACTION_DIGITS - digits) * 4;
    if cut > 0 {
        let (rest, half) = (bits & ((1 << cut) - 1), 1 << (cut - 1));
        bits >>= cut;
        // Half goes to the even neighbour.
        if rest > half || rest == half && bits & 1 == 1 {
            bits += 1;
        }
    }
    let fraction_bits = digits * 4;
    let mut whole = bits >> fraction_bits;
    if whole == 2 {
        (whole, power) = (1, power + 1);
    }
    let fraction = bits & ((1 << fraction_bits) - 1);
    let mut fraction = if digits == 0 { String::new() } else { format!("{fraction:0digits$x}") };
    match precision {
        Some(wanted) => fraction.push_str(&"0".repeat(wanted - digits)),
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
    }
    let point = if fraction.is_empty() && !keep_point { "" } else { "." };
    format!("{whole}{point}{fraction}p{power:+}")
}

/// The fraction with the one before it, and the power of two. Numbers too small for that one are moved until they
/// have it.
fn parts(size: f64) -> (u64, i32) {
    if size == 0.0 {
        return (0, 0);
    }
    let bits = size.to_bits();
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    match (bits >> FRACTION_BITS) as i32 {
        0 => {
            let shift = fraction.leading_zeros() as i32 - (63 - FRACTION_BITS);
            (fraction << shift, -1022 - shift)
        }
        exponent => (fraction | 1 << FRACTION_BITS, exponent - 1023),
    }
}
