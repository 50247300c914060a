//! Hexadecimal floats as `%a` writes them: a hexadecimal fraction times a power of two.

/// Number of bits in a float's fraction.
const FRACTION_BITS: i32 = 52;
/// Number of hexadecimal digits in a float's fraction.
const FRACTION_DIGITS: usize = 13;

/// Returns a finite float that is not negative, without the prefix `0x`: 3 becomes `1.8p+1`.
pub(super) fn hex_float(size: f64, precision: Option<usize>, keeps_point: bool) -> String {
    let (mut bits, mut power) = significand_and_power(size);
    let digits = precision.unwrap_or(FRACTION_DIGITS).min(FRACTION_DIGITS);
    let cut = (FRACTION_DIGITS - digits) * 4;
    if cut > 0 {
        let (rest, half) = (bits & ((1 << cut) - 1), 1 << (cut - 1));
        bits >>= cut;
        // A tie is rounded to the even neighbour.
        if rest > half || rest == half && bits & 1 == 1 {
            bits += 1;
        }
    }
    let fraction_bits = digits * 4;
    let mut lead = bits >> fraction_bits;
    if lead == 2 {
        (lead, power) = (1, power + 1);
    }
    let fraction = bits & ((1 << fraction_bits) - 1);
    let mut fraction = if digits == 0 { String::new() } else { format!("{fraction:0digits$x}") };
    match precision {
        Some(precision) => fraction.push_str(&"0".repeat(precision - digits)),
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
    }
    let point = if fraction.is_empty() && !keeps_point { "" } else { "." };
    format!("{lead}{point}{fraction}p{power:+}")
}

/// Splits a float into its significand, with the leading 1, and its power of two. Subnormal floats are
/// normalised.
fn significand_and_power(size: f64) -> (u64, i32) {
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
