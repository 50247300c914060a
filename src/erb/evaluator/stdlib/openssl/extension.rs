//! `OpenSSL::X509::Extension`: the extensions of a certificate.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use x509_parser::extensions::{BasicConstraints, GeneralName, KeyUsage, ParsedExtension, X509Extension};
use x509_parser::prelude::X509Certificate;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Data, Object, Value};

/// Extensions that OpenSSL shows by name: object identifier and short name.
const EXTENSION_NAMES: &[(&str, &str)] = &[
    ("2.5.29.14", "subjectKeyIdentifier"),
    ("2.5.29.15", "keyUsage"),
    ("2.5.29.16", "privateKeyUsagePeriod"),
    ("2.5.29.17", "subjectAltName"),
    ("2.5.29.18", "issuerAltName"),
    ("2.5.29.19", "basicConstraints"),
    ("2.5.29.30", "nameConstraints"),
    ("2.5.29.31", "crlDistributionPoints"),
    ("2.5.29.32", "certificatePolicies"),
    ("2.5.29.35", "authorityKeyIdentifier"),
    ("2.5.29.36", "policyConstraints"),
    ("2.5.29.37", "extendedKeyUsage"),
    ("1.3.6.1.5.5.7.1.1", "authorityInfoAccess"),
];

/// Returns an array of the extensions of a certificate.
pub(super) fn create_all(interpreter: &mut Interpreter, certificate: &X509Certificate<'_>) -> EvalResult {
    let mut items = Vec::new();
    for extension in certificate.extensions() {
        items.push(create_object(interpreter, extension)?);
    }
    Ok(Value::array(items))
}

/// Returns the extension with this name, or nil.
pub(super) fn find(
    interpreter: &mut Interpreter,
    certificate: &X509Certificate<'_>,
    identifier: &str,
) -> EvalResult {
    match certificate.extensions().iter().find(|extension| oid(extension) == identifier) {
        Some(extension) => create_object(interpreter, extension),
        None => Ok(Value::Nil),
    }
}

/// Implements `OpenSSL::X509::Extension.new`. Only another extension is supported as its argument.
pub(super) fn copy_extension(interpreter: &mut Interpreter, args: &Args) -> EvalResult {
    match args.list.as_slice() {
        [Value::Object(object)] if object.class.label() == "OpenSSL::X509::Extension" => {
            Ok(Value::Object(Rc::clone(object)))
        }
        _ => Err(interpreter
            .unsupported_error("OpenSSL::X509::Extension.new without an extension as its argument")),
    }
}

/// Returns the short name of an extension, or its object identifier if OpenSSL has no name for it.
fn oid(extension: &X509Extension<'_>) -> String {
    let identifier = extension.oid.to_id_string();
    match EXTENSION_NAMES.iter().find(|(dotted_id, _)| *dotted_id == identifier) {
        Some((_, name)) => (*name).to_owned(),
        None => identifier,
    }
}

fn create_object(interpreter: &mut Interpreter, extension: &X509Extension<'_>) -> EvalResult {
    let class = interpreter.load_class("OpenSSL::X509::Extension");
    let object = interpreter.create_object(class, Data::Plain);
    interpreter.use_scratch(128 + extension.value.len())?;
    interpreter.set_instance_variable(&object, &"@oid".into(), Value::str(oid(extension)))?;
    let value = value_text(extension.parsed_extension()).map_or(Value::Nil, Value::str);
    interpreter.set_instance_variable(&object, &"@value".into(), value)?;
    interpreter.set_instance_variable(&object, &"@critical".into(), Value::Bool(extension.critical))?;
    Ok(object)
}

/// Returns an extension's value as OpenSSL prints it, or `None` if that is not supported.
fn value_text(extension: &ParsedExtension<'_>) -> Option<String> {
    Some(match extension {
        ParsedExtension::SubjectAlternativeName(names) => {
            names.general_names.iter().map(general_name).collect::<Option<Vec<_>>>()?.join(", ")
        }
        ParsedExtension::BasicConstraints(BasicConstraints { ca, path_len_constraint }) => {
            let length = path_len_constraint.map(|length| format!(", pathlen:{length}")).unwrap_or_default();
            format!("CA:{}{length}", if *ca { "TRUE" } else { "FALSE" })
        }
        ParsedExtension::KeyUsage(usage) => key_usage(usage),
        ParsedExtension::ExtendedKeyUsage(usage) => {
            if !usage.other.is_empty() {
                return None;
            }
            let purposes = [
                (usage.any, "Any Extended Key Usage"),
                (usage.server_auth, "TLS Web Server Authentication"),
                (usage.client_auth, "TLS Web Client Authentication"),
                (usage.code_signing, "Code Signing"),
                (usage.email_protection, "E-mail Protection"),
                (usage.time_stamping, "Time Stamping"),
                (usage.ocsp_signing, "OCSP Signing"),
            ];
            purposes.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
        }
        ParsedExtension::SubjectKeyIdentifier(identifier) => hex(identifier.0),
        _ => return None,
    })
}

fn key_usage(usage: &KeyUsage) -> String {
    let purposes = [
        (usage.digital_signature(), "Digital Signature"),
        (usage.non_repudiation(), "Non Repudiation"),
        (usage.key_encipherment(), "Key Encipherment"),
        (usage.data_encipherment(), "Data Encipherment"),
        (usage.key_agreement(), "Key Agreement"),
        (usage.key_cert_sign(), "Certificate Sign"),
        (usage.crl_sign(), "CRL Sign"),
        (usage.encipher_only(), "Encipher Only"),
        (usage.decipher_only(), "Decipher Only"),
    ];
    purposes.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

fn general_name(name: &GeneralName<'_>) -> Option<String> {
    Some(match name {
        GeneralName::DNSName(name) => format!("DNS:{name}"),
        GeneralName::RFC822Name(name) => format!("email:{name}"),
        GeneralName::URI(uri) => format!("URI:{uri}"),
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
            (Ok(v4), _) => format!("IP Address:{}", Ipv4Addr::from(v4)),
            (_, Ok(v6)) => {
                let parts = Ipv6Addr::from(v6).segments().map(|part| format!("{part:X}"));
                format!("IP Address:{}", parts.join(":"))
            }
            _ => return None,
        },
        GeneralName::RegisteredID(identifier) => format!("Registered ID:{}", identifier.to_id_string()),
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

/// Calls a method of an extension.
pub(super) fn call_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    method: &str,
) -> EvalResult<Option<Value>> {
    let receiver = Value::Object(Rc::clone(object));
    let field = |interpreter: &mut Interpreter, name: &str| interpreter.instance_variable(&receiver, name);
    Ok(Some(match method {
        "oid" => field(interpreter, "@oid"),
        "critical?" => field(interpreter, "@critical"),
        "value" | "to_a" | "to_s" | "to_h" => {
            let (oid, value, critical) =
                (field(interpreter, "@oid"), field(interpreter, "@value"), field(interpreter, "@critical"));
            if value.is_nil() {
                let oid_text = interpreter.text_of(&oid)?;
                return Err(interpreter
                    .unsupported_error(format!("the value of the certificate extension {oid_text}")));
            }
            match method {
                "value" => value,
                "to_a" => Value::array(vec![oid, value, critical]),
                "to_s" => {
                    let (oid, value) = (interpreter.text_of(&oid)?, interpreter.text_of(&value)?);
                    let critical = if critical.is_truthy() { "critical, " } else { "" };
                    Value::str(format!("{oid} = {critical}{value}"))
                }
                _ => return Ok(None),
            }
        }
        "inspect" => return Err(interpreter.unsupported_error("OpenSSL::X509::Extension#inspect")),
        _ => return Ok(None),
    }))
}
