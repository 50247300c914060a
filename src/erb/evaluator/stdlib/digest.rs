//! `Digest`, `OpenSSL::Digest` and `OpenSSL::HMAC`.

use std::rc::Rc;

use base64::Engine as _;
use sha1::Digest as _;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Class, Data, Object, RString, Value};

/// Returns the algorithm of a class name or algorithm name.
fn algorithm(label: &str) -> Option<&'static str> {
    match label.rsplit("::").next()?.to_ascii_uppercase().as_str() {
        "MD5" => Some("MD5"),
        "SHA1" => Some("SHA1"),
        "SHA256" | "SHA2" => Some("SHA256"),
        "SHA384" => Some("SHA384"),
        "SHA512" => Some("SHA512"),
        _ => None,
    }
}

pub(super) fn digest(algorithm: &str, bytes: &[u8]) -> Vec<u8> {
    match algorithm {
        "SHA1" => sha1::Sha1::digest(bytes).to_vec(),
        "SHA256" => sha2::Sha256::digest(bytes).to_vec(),
        "SHA384" => sha2::Sha384::digest(bytes).to_vec(),
        "SHA512" => sha2::Sha512::digest(bytes).to_vec(),
        _ => md5(bytes).to_vec(),
    }
}

/// Returns the digest of bytes in hexadecimal.
pub(crate) fn hex(algorithm: &str, bytes: &[u8]) -> String {
    hex::encode(digest(algorithm, bytes))
}

fn binary_string(bytes: &[u8]) -> Value {
    Value::Str(Rc::new(RString::from_bytes(bytes)))
}

/// Returns a digest in the encoding of the method `hexdigest`, `base64digest` or `digest`.
fn encode_digest(name: &str, sum: &[u8]) -> Option<Value> {
    Some(match name {
        "hexdigest" => Value::str(hex::encode(sum)),
        "base64digest" => Value::str(base64::engine::general_purpose::STANDARD.encode(sum)),
        "digest" => binary_string(sum),
        _ => return None,
    })
}

/// Calls a method of a digest class itself, such as `Digest::SHA256.hexdigest`. Returns `None` if it does not
/// implement the method.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    class: &Rc<Class>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let label = class.label();
    let digest_algorithm = match (algorithm(&label), name) {
        (Some(digest_algorithm), _) => digest_algorithm,
        (None, "new") => {
            let algorithm_name = interpreter.arg(args, 0)?;
            let algorithm_name = interpreter.string_arg(&algorithm_name)?.replace('-', "");
            match algorithm(&algorithm_name) {
                Some(digest_algorithm) => {
                    return Ok(Some(
                        interpreter
                            .create_object(Rc::clone(class), Data::Digest(digest_algorithm, Vec::new())),
                    ));
                }
                None => return Err(interpreter.unsupported_error(format!("the digest {algorithm_name}"))),
            }
        }
        (None, "hexdigest" | "digest" | "base64digest") => {
            let algorithm_name = interpreter.arg(args, 0)?;
            let algorithm_name = interpreter.string_arg(&algorithm_name)?.replace('-', "");
            let Some(digest_algorithm) = algorithm(&algorithm_name) else {
                return Err(interpreter.unsupported_error(format!("the digest {algorithm_name}")));
            };
            let data = interpreter.arg(args, 1)?;
            let data = super::base64::bytes_of(interpreter, &data)?;
            return Ok(encode_digest(name, &digest(digest_algorithm, &data)));
        }
        _ => return Ok(None),
    };
    if name == "new" {
        let bytes = match args.get(0) {
            Some(Value::Str(text)) if label.starts_with("OpenSSL") => text.bytes(),
            _ => Vec::new(),
        };
        return Ok(Some(interpreter.create_object(Rc::clone(class), Data::Digest(digest_algorithm, bytes))));
    }
    if !matches!(name, "hexdigest" | "base64digest" | "digest") {
        return Ok(None);
    }
    let data = interpreter.arg(args, 0)?;
    let data = super::base64::bytes_of(interpreter, &data)?;
    interpreter.step(data.len() as u64 / 64)?;
    Ok(encode_digest(name, &digest(digest_algorithm, &data)))
}

/// Calls a method of a digest object. Returns `None` if digests do not implement it.
pub(crate) fn call_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let receiver = Value::Object(Rc::clone(object));
    match name {
        "update" | "<<" => {
            let data = interpreter.arg(args, 0)?;
            let data = super::base64::bytes_of(interpreter, &data)?;
            object.charge.grow(data.len());
            if let Data::Digest(_, bytes) = &mut *object.data.borrow_mut() {
                bytes.extend(data);
            }
            return Ok(Some(receiver));
        }
        "reset" => {
            if let Data::Digest(_, bytes) = &mut *object.data.borrow_mut() {
                bytes.clear();
            }
            return Ok(Some(receiver));
        }
        _ => {}
    }
    let Data::Digest(algorithm, bytes) = &*object.data.borrow() else { return Ok(None) };
    let sum = match args.get(0) {
        Some(data) if matches!(name, "hexdigest" | "digest" | "base64digest") => {
            let data = data.clone();
            digest(algorithm, &super::base64::bytes_of(interpreter, &data)?)
        }
        _ => digest(algorithm, bytes),
    };
    Ok(match name {
        "to_s" => Some(Value::str(hex::encode(sum))),
        "digest_length" | "length" | "size" => Some(Value::Int(sum.len() as i64)),
        _ => encode_digest(name, &sum),
    })
}

/// Implements `OpenSSL::HMAC.hexdigest(digest, key, data)` and the same call with another encoding.
pub(crate) fn call_hmac_method(
    interpreter: &mut Interpreter,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    if !matches!(name, "hexdigest" | "digest" | "base64digest") {
        return Ok(None);
    }
    let algorithm_name = match interpreter.arg(args, 0)? {
        Value::Object(object) => match &*object.data.borrow() {
            Data::Digest(algorithm_name, _) => (*algorithm_name).to_owned(),
            _ => String::new(),
        },
        other => interpreter.string_arg(&other)?.replace('-', ""),
    };
    let Some(canonical_name) = algorithm(&algorithm_name) else {
        return Err(interpreter.unsupported_error(format!("the digest {algorithm_name}")));
    };
    let (key, data) = (interpreter.arg(args, 1)?, interpreter.arg(args, 2)?);
    let (mut key, data) =
        (super::base64::bytes_of(interpreter, &key)?, super::base64::bytes_of(interpreter, &data)?);
    let block = if matches!(canonical_name, "SHA384" | "SHA512") { 128 } else { 64 };
    if key.len() > block {
        key = digest(canonical_name, &key);
    }
    key.resize(block, 0);
    let mut inner_input: Vec<u8> = key.iter().map(|byte| byte ^ 0x36).collect();
    inner_input.extend(data);
    let mut outer_input: Vec<u8> = key.iter().map(|byte| byte ^ 0x5c).collect();
    outer_input.extend(digest(canonical_name, &inner_input));
    Ok(encode_digest(name, &digest(canonical_name, &outer_input)))
}

/// Computes MD5 (RFC 1321). Only templates use it, so no dependency provides it.
fn md5(bytes: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let constants: Vec<u32> =
        (1..=64).map(|step: u32| (f64::from(step).sin().abs() * 4_294_967_296.0) as u32).collect();
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in message.chunks_exact(64) {
        let words: Vec<u32> = block
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mix, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            let sum = a.wrapping_add(mix).wrapping_add(constants[step]).wrapping_add(words[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
        }
        for (slot, value) in state.iter_mut().zip([a, b, c, d]) {
            *slot = slot.wrapping_add(value);
        }
    }
    let mut digest = [0; 16];
    for (place, word) in digest.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    digest
}
