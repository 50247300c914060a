//! Vars stores of test environments. Their keys are elliptic, because each RSA key takes half a second of
//! processor time.

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, IsCa, Issuer, KeyPair};
use time::{Duration, OffsetDateTime};

/// The certificate of the agent.
pub(crate) struct Certificate<'t> {
    /// The address for which it is valid.
    pub host: &'t str,
    /// The first and the last day of its validity, relative to today.
    pub days: (i64, i64),
    /// True if the CA of the vars store signs it. Otherwise another CA of the same name signs it.
    pub is_trusted: bool,
}

/// Returns a vars store with values of all variables of `examples/hello`.
pub(crate) fn vars_store(agent: &Certificate) -> String {
    let (ca, ca_key, issuer) = create_authority();
    let issuer = if agent.is_trusted { issuer } else { create_authority().2 };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![agent.host.to_owned()]).unwrap();
    let now = OffsetDateTime::now_utc();
    params.not_before = now + Duration::days(agent.days.0);
    params.not_after = now + Duration::days(agent.days.1);
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    serde_json::json!({
        "mbus_bootstrap_password": "dxq3vh81zkcm5b9t",
        "default_ca": {"ca": ca, "certificate": ca, "private_key": ca_key},
        "mbus_bootstrap_ssl": {"ca": ca, "certificate": certificate, "private_key": key.serialize_pem()},
    })
    .to_string()
}

/// Creates a CA. Returns its certificate and its key in PEM, and the issuer that signs with it.
fn create_authority() -> (String, String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // The subject is that of a generated CA, so that a rotation finds the old one.
    params.distinguished_name = DistinguishedName::new();
    for (kind, text) in [
        (DnType::CountryName, "US"),
        (DnType::OrganizationName, "Cloud Foundry"),
        (DnType::CommonName, "hello CA"),
    ] {
        params.distinguished_name.push(kind, DnValue::PrintableString(text.try_into().unwrap()));
    }
    let key = KeyPair::generate().unwrap();
    let private = key.serialize_pem();
    (params.self_signed(&key).unwrap().pem(), private, Issuer::new(params, key))
}
