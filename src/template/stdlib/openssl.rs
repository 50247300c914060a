//! Reading X.509 certificates with `OpenSSL::X509::Certificate`.

use std::rc::Rc;

use num_bigint::BigInt;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::template::eval::{Args, Interp, R};
use crate::template::value::{Class, Data, Object, Value};

/// The certificate as PEM.
pub(in crate::template) fn to_pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out + "-----END CERTIFICATE-----\n"
}

pub(in crate::template) fn class_method(
    it: &mut Interp,
    class: &Rc<Class>,
    name: &str,
    args: &Args,
) -> R<Option<Value>> {
    if name != "new" {
        return Ok(None);
    }
    let text = it.arg(args, 0)?;
    let bytes = super::base64::bytes_of(it, &text)?;
    it.charge(bytes.len())?;
    let der = match pem::parse_many(&bytes) {
        Ok(blocks) if !blocks.is_empty() => {
            blocks.iter().find(|block| block.tag() == "CERTIFICATE").map(|block| block.contents().to_vec())
        }
        _ => Some(bytes),
    };
    let der = der.filter(|der| X509Certificate::from_der(der).is_ok());
    match der {
        Some(der) => Ok(Some(it.object(Rc::clone(class), Data::Certificate(Rc::new(der))))),
        None => Err(it.error("OpenSSL::X509::CertificateError", "PEM_read_bio_X509: no start line")),
    }
}

pub(in crate::template) fn method(
    it: &mut Interp,
    object: &Rc<Object>,
    name: &str,
    _args: &Args,
) -> R<Option<Value>> {
    let der = match &*object.data.borrow() {
        Data::Certificate(der) => Rc::clone(der),
        _ => return Ok(None),
    };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return Ok(None) };
    Ok(Some(match name {
        "to_pem" | "to_s" => Value::str(to_pem(&der)),
        "to_der" => super::base64::binary(&der),
        "serial" => Value::big(BigInt::from_signed_bytes_be(certificate.raw_serial())),
        "version" => Value::Int(certificate.version().0.into()),
        "subject" | "issuer" => {
            let found = if name == "subject" { certificate.subject() } else { certificate.issuer() };
            let text = distinguished(found);
            let class = it.class("OpenSSL::X509::Name");
            let object = it.object(class, Data::Plain);
            it.set_instance_variable(&object, &"@name".into(), Value::str(text))?;
            object
        }
        "not_before" | "not_after" => {
            let validity = certificate.validity();
            let found = if name == "not_before" { validity.not_before } else { validity.not_after };
            let time = it.class("Time");
            let time = Value::Class(time);
            it.call(&time, "at", vec![Value::Int(found.timestamp())])?
        }
        _ => return Ok(None),
    }))
}

/// `/C=…/O=…/CN=…`, as OpenSSL shows names.
fn distinguished(name: &x509_parser::x509::X509Name<'_>) -> String {
    let mut out = String::new();
    for attribute in name.iter_attributes() {
        let key =
            x509_parser::objects::oid2abbrev(attribute.attr_type(), x509_parser::objects::oid_registry())
                .map_or_else(|_| attribute.attr_type().to_id_string(), str::to_owned);
        out.push('/');
        out.push_str(&key);
        out.push('=');
        out.push_str(attribute.as_str().unwrap_or_default());
    }
    out
}

/// The methods of a certificate's names.
pub(in crate::template) fn name_method(
    it: &mut Interp,
    name: &Value,
    method: &str,
    args: &Args,
) -> R<Option<Value>> {
    let text = it.instance_variable(name, "@name");
    let shown = it.text_of(&text)?;
    Ok(Some(match method {
        "to_s" if args.is_empty() => text,
        "to_a" => {
            let parts = shown.split('/').skip(1).filter_map(|part| part.split_once('='));
            Value::array(
                parts
                    .map(|(key, value)| {
                        Value::array(vec![Value::str(key), Value::str(value), Value::Int(12)])
                    })
                    .collect(),
            )
        }
        _ => return Ok(None),
    }))
}
