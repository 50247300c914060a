//! Lowers literals: numbers, strings with interpolation, regular expressions, hashes.

use std::sync::Arc;

use lib_ruby_parser::Node as Ast;
use lib_ruby_parser::nodes;

use super::ir::{Expr, LiteralPart, Node, Pair};
use super::lower::{LowerResult, Lowerer, construct_name, refuse};

/// Returns true if both expressions are the same literal.
fn are_same_literal(one: &Expr, other: &Expr) -> bool {
    match (&one.node, &other.node) {
        (Node::Int(one), Node::Int(other)) => one == other,
        (Node::BigInt(one), Node::BigInt(other)) => one == other,
        (Node::Float(one), Node::Float(other)) => one == other,
        (Node::Symbol(one), Node::Symbol(other)) => one == other,
        (Node::Str(one), Node::Str(other)) => one == other,
        _ => false,
    }
}

fn is_literal(value: &Expr) -> bool {
    match &value.node {
        Node::Nil
        | Node::True
        | Node::False
        | Node::Int(_)
        | Node::BigInt(_)
        | Node::Float(_)
        | Node::Symbol(_)
        | Node::Str(_) => true,
        Node::Array(items) => items.iter().all(is_literal),
        _ => false,
    }
}

impl Lowerer {
    pub(super) fn lower_pairs(&mut self, list: &[Ast]) -> LowerResult<Vec<Pair>> {
        let mut pairs: Vec<Pair> = Vec::new();
        for ast in list {
            let pair = match ast {
                Ast::Pair(pair) => Pair::Entry(self.lower_expr(&pair.key)?, self.lower_expr(&pair.value)?),
                Ast::Kwsplat(splat) => Pair::Splat(self.lower_expr(&splat.value)?),
                other => return refuse(other, construct_name(other)),
            };
            // If a literal key is repeated, Ruby keeps only the last entry, at its own position.
            if let Pair::Entry(key, _) = &pair
                && let Some(earlier_index) = pairs.iter().position(
                    |pair| matches!(pair, Pair::Entry(earlier_key, _) if are_same_literal(earlier_key, key)),
                )
            {
                let is_zero = matches!(key.node, Node::Float(number) if number == 0.0);
                if is_zero || !matches!(&pairs[earlier_index], Pair::Entry(_, value) if is_literal(value)) {
                    return refuse(ast, "a hash with a repeated key whose first value is computed");
                }
                pairs.remove(earlier_index);
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    pub(super) fn lower_parts(&mut self, list: &[Ast]) -> LowerResult<Vec<LiteralPart>> {
        let mut parts: Vec<LiteralPart> = Vec::new();
        for ast in list {
            match ast {
                Ast::Str(text) => match std::str::from_utf8(text.value.as_raw()) {
                    Ok(text) => parts.push(LiteralPart::Text(Arc::from(text))),
                    Err(_) => return refuse(ast, "interpolation in a string that is not UTF-8"),
                },
                // Adjacent literals (`"a" "b#{c}"`) are nested in the syntax tree.
                Ast::Dstr(inner) => parts.extend(self.lower_parts(&inner.parts)?),
                other => parts.push(LiteralPart::Code(self.lower_expr(other)?)),
            }
        }
        Ok(parts)
    }

    pub(super) fn lower_interpolation(&mut self, list: &[Ast]) -> LowerResult<Node> {
        let parts = self.lower_parts(list)?;
        if parts.iter().all(|part| matches!(part, LiteralPart::Text(_))) {
            let text: String = parts
                .iter()
                .map(|part| if let LiteralPart::Text(text) = part { &**text } else { "" })
                .collect();
            return Ok(Node::Str(Arc::from(text)));
        }
        Ok(Node::Interpolated(parts))
    }

    pub(super) fn lower_regexp(&mut self, regexp: &nodes::Regexp) -> LowerResult<Node> {
        let mut options = match regexp.options.as_deref() {
            Some(Ast::RegOpt(options)) => options.options.clone().unwrap_or_default(),
            _ => String::new(),
        };
        let parts = match self.lower_interpolation(&regexp.parts)? {
            Node::Str(text) => vec![LiteralPart::Text(text)],
            Node::Interpolated(parts) => parts,
            _ => Vec::new(),
        };
        // The parser turns `\c` and `\M-` into NUL and another character. NUL never occurs in a template.
        let is_odd = |part: &LiteralPart| matches!(part, LiteralPart::Text(text) if text.contains('\0'));
        if let Some(first) = regexp.parts.first()
            && parts.iter().any(is_odd)
        {
            return refuse(first, "a control character in a regular expression");
        }
        // `o` evaluates the parts only once, which changes nothing if they are literal.
        if parts.iter().all(|part| matches!(part, LiteralPart::Text(_))) {
            options.retain(|option| option != 'o');
        }
        Ok(Node::Regexp { parts, options: Arc::from(options) })
    }
}

/// Lowers an integer literal. It may have a sign, a base prefix and underscores.
pub(super) fn lower_integer(text: &str) -> Node {
    let digits_and_sign = text.replace('_', "").to_ascii_lowercase();
    let (is_negative, digits) = match digits_and_sign.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, digits_and_sign.as_str()),
    };
    let (radix, digits) = if let Some(hex) = digits.strip_prefix("0x") {
        (16, hex)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        (2, binary)
    } else if let Some(octal) = digits.strip_prefix("0o") {
        (8, octal)
    } else if let Some(decimal) = digits.strip_prefix("0d") {
        (10, decimal)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, &digits[1..])
    } else {
        (10, digits)
    };
    match i64::from_str_radix(digits, radix) {
        Ok(value) => Node::Int(if is_negative { -value } else { value }),
        Err(_) => {
            let value = num_bigint::BigInt::parse_bytes(digits.as_bytes(), radix).unwrap_or_default();
            Node::BigInt(Arc::from((if is_negative { -value } else { value }).to_string()))
        }
    }
}
