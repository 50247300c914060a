//! `OpenSSL::X509::Name`: subjects and issuers.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use x509_parser::x509::X509Name;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Data, Object, Value};

/// Attributes that OpenSSL shows by name: object identifier, short name, long name.
const ATTRIBUTE_NAMES: &[(&str, &str, &str)] = &[
    ("2.5.4.3", "CN", "commonName"),
    ("2.5.4.4", "SN", "surname"),
    ("2.5.4.5", "serialNumber", "serialNumber"),
    ("2.5.4.6", "C", "countryName"),
    ("2.5.4.7", "L", "localityName"),
    ("2.5.4.8", "ST", "stateOrProvinceName"),
    ("2.5.4.9", "street", "streetAddress"),
    ("2.5.4.10", "O", "organizationName"),
    ("2.5.4.11", "OU", "organizationalUnitName"),
    ("2.5.4.12", "title", "title"),
    ("2.5.4.13", "description", "description"),
    ("2.5.4.15", "businessCategory", "businessCategory"),
    ("2.5.4.16", "postalAddress", "postalAddress"),
    ("2.5.4.17", "postalCode", "postalCode"),
    ("2.5.4.18", "postOfficeBox", "postOfficeBox"),
    ("2.5.4.20", "telephoneNumber", "telephoneNumber"),
    ("2.5.4.41", "name", "name"),
    ("2.5.4.42", "GN", "givenName"),
    ("2.5.4.43", "initials", "initials"),
    ("2.5.4.44", "generationQualifier", "generationQualifier"),
    ("2.5.4.46", "dnQualifier", "dnQualifier"),
    ("2.5.4.65", "pseudonym", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier", "organizationIdentifier"),
    ("1.2.840.113549.1.9.1", "emailAddress", "emailAddress"),
    ("0.9.2342.19200300.100.1.1", "UID", "userId"),
    ("0.9.2342.19200300.100.1.25", "DC", "domainComponent"),
];

// The tag numbers of ASN.1 string types.
const PRINTABLE_STRING: u32 = 19;
const IA5_STRING: u32 = 22;
const UTF8_STRING: u32 = 12;

#[derive(Debug, Clone)]
pub(crate) struct DistinguishedName(Vec<Attribute>);

/// One attribute of a name, such as `CN=…`.
#[derive(Debug, Clone)]
struct Attribute {
    key: String,
    value: Vec<u8>,
    /// The ASN.1 type of the value.
    kind: u32,
}

impl Attribute {
    /// Returns the form in which names are compared. It ignores letter case and extra spaces.
    fn canonical(&self) -> (&str, String) {
        let text = String::from_utf8_lossy(&self.value).to_ascii_lowercase();
        (&self.key, text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl PartialEq for DistinguishedName {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| a.canonical() == b.canonical())
    }
}

impl Hash for DistinguishedName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for attribute in &self.0 {
            attribute.canonical().hash(state);
        }
    }
}

/// Writes the form `/C=…/O=…/CN=…`.
impl fmt::Display for DistinguishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for attribute in &self.0 {
            write!(f, "/{}=", attribute.key)?;
            for byte in &attribute.value {
                match byte {
                    b'/' | b'+' => write!(f, "\\{}", char::from(*byte))?,
                    b' '..=b'~' => f.write_char(char::from(*byte))?,
                    _ => write!(f, "\\x{byte:02X}")?,
                }
            }
        }
        Ok(())
    }
}

fn create_object(interpreter: &mut Interpreter, name: DistinguishedName) -> Value {
    let class = interpreter.load_class("OpenSSL::X509::Name");
    interpreter.create_object(class, Data::DistinguishedName(Rc::new(name)))
}

/// Converts a name from a certificate to a Ruby object.
pub(super) fn of(interpreter: &mut Interpreter, name: &X509Name<'_>) -> Value {
    let attributes = name.iter_attributes().map(|attribute| {
        let identifier = attribute.attr_type().to_id_string();
        let names = ATTRIBUTE_NAMES.iter().find(|(dotted_id, ..)| *dotted_id == identifier);
        let value = attribute.attr_value();
        Attribute {
            key: names.map_or(identifier.clone(), |(_, short, _)| (*short).to_owned()),
            value: value.data.to_vec(),
            kind: value.header.tag().0,
        }
    });
    let name = DistinguishedName(attributes.collect());
    create_object(interpreter, name)
}

/// Implements `OpenSSL::X509::Name.new([[key, value], …])`.
pub(super) fn create_name(interpreter: &mut Interpreter, args: &Args) -> EvalResult {
    let mut attributes = Vec::new();
    if let Some(list) = args.get(0).cloned() {
        if !matches!(list, Value::Array(_)) {
            return Err(interpreter.unsupported_error("OpenSSL::X509::Name.new of this value"));
        }
        for entry in interpreter.collect(&list)? {
            let entry = interpreter.array_arg(&entry)?;
            let [key, value, rest @ ..] = entry.as_slice() else {
                return interpreter.raise_argument_error("wrong number of arguments");
            };
            let attribute_name = interpreter.string_arg(key)?;
            let value = super::super::base64::bytes_of(interpreter, value)?;
            let attribute = ATTRIBUTE_NAMES
                .iter()
                .find(|(_, short, long)| *short == attribute_name || *long == attribute_name);
            let Some((_, key, _)) = attribute else {
                if attribute_name.starts_with(|first: char| first.is_ascii_digit()) {
                    return Err(
                        interpreter.unsupported_error("OpenSSL::X509::Name.new with an object identifier")
                    );
                }
                let text = "X509_NAME_add_entry_by_txt: invalid field name";
                return Err(interpreter.ruby_error("OpenSSL::X509::NameError", text));
            };
            let kind = match (rest.first(), *key) {
                (Some(Value::Int(kind)), _) => u32::try_from(*kind).unwrap_or(UTF8_STRING),
                (_, "C" | "serialNumber" | "dnQualifier") => PRINTABLE_STRING,
                (_, "emailAddress" | "DC") => IA5_STRING,
                _ => UTF8_STRING,
            };
            interpreter.use_scratch(64 + value.len())?;
            attributes.push(Attribute { key: (*key).to_owned(), value, kind });
        }
    }
    Ok(create_object(interpreter, DistinguishedName(attributes)))
}

fn name_of(value: &Value) -> Option<Rc<DistinguishedName>> {
    match value {
        Value::Object(object) => match &*object.data.borrow() {
            Data::DistinguishedName(name) => Some(Rc::clone(name)),
            _ => None,
        },
        _ => None,
    }
}

/// Calls a method of a distinguished name.
pub(super) fn call_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    method: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let Some(name) = name_of(&Value::Object(Rc::clone(object))) else { return Ok(None) };
    Ok(Some(match method {
        "to_s" if args.is_empty() => Value::str(name.to_string()),
        "to_s" | "inspect" | "to_utf8" => {
            return Err(interpreter.unsupported_error(format!("OpenSSL::X509::Name#{method} in this format")));
        }
        "to_a" => {
            let part = |attribute: &Attribute| {
                let value = match std::str::from_utf8(&attribute.value) {
                    Ok(text) if text.is_ascii() => Value::str(text),
                    _ => super::super::base64::binary_string(&attribute.value),
                };
                let kind = Value::Int(attribute.kind.into());
                Value::array(vec![Value::str(attribute.key.clone()), value, kind])
            };
            Value::array(name.0.iter().map(part).collect())
        }
        "==" | "eql?" => {
            let other = interpreter.arg(args, 0)?;
            Value::Bool(name_of(&other).is_some_and(|other| *other == *name))
        }
        _ => return Ok(None),
    }))
}
