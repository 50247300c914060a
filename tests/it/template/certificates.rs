//! Certificates made by openssl, read natively and by Ruby's OpenSSL.

use crate::support::process::{RunToEnd, prepare};
use std::path::Path;

use erb::{Context, Renderer, native::NativeRenderer};
use serde_json::json;

use super::{Case, lossy_text, reference};

const SOURCE: &str = r#"<%
require 'openssl'; require 'time'; require 'base64'; require 'digest'
def names(name) = [name.to_s, name.to_a.map { |key, value, kind| [key, value.force_encoding('UTF-8'), kind] }].inspect
cert = OpenSSL::X509::Certificate.new(p('pem'))
%><%= names(cert.subject) %>
<%= names(cert.issuer) %>
<%= cert.subject == cert.issuer %> <%= cert.subject.eql?(OpenSSL::X509::Name.new(cert.subject.to_a)) %>
<%= cert.serial %> <%= cert.version %>
<%= cert.not_before %> <%= cert.not_after.utc.iso8601 %> <%= (cert.not_after - cert.not_before).to_i %>
<%= cert.extensions.map(&:oid).inspect %> <%= cert.extensions.map(&:critical?).inspect %>
<%= cert.extensions.reject { |e| e.oid =~ /KeyIdentifier/ }.map { |e| OpenSSL::X509::Extension.new(e).to_s }.inspect %>
<%= cert.extensions.any? { |e| e.oid == 'subjectAltName' } %>
<%= Digest::SHA256.hexdigest(cert.to_der) %>
<%= cert.to_pem == p('pem') %> <%= Base64.strict_encode64(cert.to_der)[0, 20] %>
<%= [OpenSSL::X509::Name.new([['CN', 'a']])].intersect?([OpenSSL::X509::Name.new([['commonName', 'a']])]) %>
<%= OpenSSL::X509::Name.new([['C', 'DE'], ['O', 'x/y'], ['CN', 'a b']]) %>
<%= begin; OpenSSL::X509::Name.new([['NONE', 'x']]); rescue OpenSSL::X509::NameError; 'no such field'; end %>
<%= begin; OpenSSL::X509::Certificate.new('x'); rescue OpenSSL::X509::CertificateError; 'no certificate'; end %>
"#;

/// Returns a certificate of this key type, subject and extensions.
fn certificate(directory: &Path, key: &[&str], subject: &str, extensions: &[&str]) -> String {
    let mut openssl = prepare("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", "100", "-utf8", "-set_serial", "0x1234567890abcdef12"]);
    openssl.args(["-keyout", "key.pem", "-out", "cert.pem", "-subj", subject]).args(key);
    for extension in extensions {
        openssl.args(["-addext", extension]);
    }
    let output = openssl.current_dir(directory).run_to_end();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(directory.join("cert.pem")).unwrap()
}

#[test]
fn certificates_are_parsed_like_in_ruby() {
    let directory = crate::support::create_directory();
    let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let rsa = ["-newkey", "rsa:2048"];
    let pems = [
        certificate(directory.path(), &ec, "/CN=plain", &[]),
        certificate(
            directory.path(),
            &rsa,
            "/C=DE/ST=Bavaria/L=München/O=A\\/B & Co/OU=x/CN=*.example.com/emailAddress=a@example.com",
            &[
                "subjectAltName=DNS:a.example.com,DNS:*.b,IP:10.0.0.1,IP:2001:db8::1,URI:https://x/y,email:a@b.c",
            ],
        ),
        certificate(
            directory.path(),
            &ec,
            "/DC=org/DC=example/UID=u/SN=s/GN=g/serialNumber=1/title=t/CN=ca",
            &[
                "keyUsage=critical,digitalSignature,keyCertSign,cRLSign,keyEncipherment",
                "extendedKeyUsage=serverAuth,clientAuth",
            ],
        ),
    ];
    let cases: Vec<Case> = pems
        .iter()
        .map(|pem| Case {
            name: pem.clone(),
            source: SOURCE.into(),
            context: json!({"job": {"name": "web"}, "job_properties": {"pem": pem},
                "default_properties": {"pem": null}}),
        })
        .collect();
    for (case, expected) in cases.iter().zip(reference(&cases)) {
        let context = Context::from_json(&case.context).unwrap();
        let native = NativeRenderer::new().render("cert.erb", &case.source, &context);
        let native =
            native.unwrap_or_else(|error| panic!("{error}\n{}\n{:?}", case.name, lossy_text(&expected)));
        assert_eq!(lossy_text(&Ok(native)), lossy_text(&expected), "{}", case.name);
    }
}
