//! Reads X.509 certificates with `OpenSSL::X509`.

mod extension;
mod name;

use std::rc::Rc;

use num_bigint::BigInt;
use x509_parser::prelude::{FromDer, X509Certificate};

pub(crate) use name::DistinguishedName;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Class, Data, Object, Value};

/// Returns a DER certificate as PEM.
pub(crate) fn to_pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}

/// Implements `OpenSSL::X509::Certificate.new`, `Name.new` and `Extension.new`.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    class: &Rc<Class>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    match (class.label().as_str(), name) {
        ("OpenSSL::X509::Certificate", "new") => parse_certificate(interpreter, class, args).map(Some),
        ("OpenSSL::X509::Name", "new") => name::create_name(interpreter, args).map(Some),
        ("OpenSSL::X509::Extension", "new") => extension::copy_extension(interpreter, args).map(Some),
        _ => Ok(None),
    }
}

/// Reads a certificate from PEM or DER. Other content raises `OpenSSL::X509::CertificateError`.
fn parse_certificate(interpreter: &mut Interpreter, class: &Rc<Class>, args: &Args) -> EvalResult {
    let text = interpreter.arg(args, 0)?;
    if let Value::Object(object) = &text
        && matches!(&*object.data.borrow(), Data::Certificate(_))
    {
        return Ok(text);
    }
    let bytes = super::base64::bytes_of(interpreter, &text)?;
    interpreter.use_scratch(bytes.len())?;
    let der = match pem::parse_many(&bytes) {
        Ok(blocks) if !blocks.is_empty() => {
            blocks.iter().find(|block| block.tag() == "CERTIFICATE").map(|block| block.contents().to_vec())
        }
        _ => Some(bytes),
    };
    let der = der.filter(|der| X509Certificate::from_der(der).is_ok());
    match der {
        Some(der) => Ok(interpreter.create_object(Rc::clone(class), Data::Certificate(Rc::new(der)))),
        None => {
            Err(interpreter.ruby_error("OpenSSL::X509::CertificateError", "PEM_read_bio_X509: no start line"))
        }
    }
}

/// Calls a method of a certificate.
pub(crate) fn call_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let der = match &*object.data.borrow() {
        Data::Certificate(der) => Rc::clone(der),
        _ => return Ok(None),
    };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return Ok(None) };
    Ok(Some(match name {
        "to_pem" | "to_s" => Value::str(to_pem(&der)),
        "to_der" => super::base64::binary_string(&der),
        "serial" => Value::integer(BigInt::from_signed_bytes_be(certificate.raw_serial())),
        "version" => Value::Int(certificate.version().0.into()),
        "subject" => name::of(interpreter, certificate.subject()),
        "issuer" => name::of(interpreter, certificate.issuer()),
        "extensions" => extension::create_all(interpreter, &certificate)?,
        "find_extension" => {
            let extension_name = interpreter.arg(args, 0)?;
            let extension_name = interpreter.string_arg(&extension_name)?;
            extension::find(interpreter, &certificate, &extension_name)?
        }
        "not_before" | "not_after" => {
            let validity = certificate.validity();
            let asn1_time = if name == "not_before" { validity.not_before } else { validity.not_after };
            let time = interpreter.load_class("Time");
            let local =
                interpreter.call(&Value::Class(time), "at", vec![Value::Int(asn1_time.timestamp())])?;
            interpreter.call(&local, "utc", Vec::new())?
        }
        "==" => {
            let other = interpreter.arg(args, 0)?;
            let Value::Object(other) = &other else { return Ok(Some(Value::Bool(false))) };
            Value::Bool(matches!(&*other.data.borrow(), Data::Certificate(other) if *other == der))
        }
        "inspect" => return Err(interpreter.unsupported_error("OpenSSL::X509::Certificate#inspect")),
        _ => return Ok(None),
    }))
}

/// Calls a method of a distinguished name or an extension.
pub(crate) fn call_part_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    method: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    if matches!(&*object.data.borrow(), Data::DistinguishedName(_)) {
        return name::call_method(interpreter, object, method, args);
    }
    extension::call_method(interpreter, object, method)
}
