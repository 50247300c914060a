//! Checks the agent's certificate before any change. An agent whose certificate is rejected cannot be
//! reached, and a new VM would not help.

use std::path::Path;

use rustls::CertificateError;
use rustls_pki_types::UnixTime;

use crate::agent_client::{AgentEndpoint, OtherAddress};
use crate::prepare::{MbusCertificate, OtherEnvironment};
use crate::state::State;
use base::encoding::minute;
use base::text::{comma_list, shell_word};
use base::{Error, Result};
use manifest::Deployment;
use manifest::variables::VariableOrigin;
use net::plain_errors::{is_of_authority, tls_problem};

/// Checks that the agent can use the certificate, and that a client will accept it.
pub(super) fn check(
    certificate: &MbusCertificate,
    endpoint: &AgentEndpoint,
    deployment: &Deployment,
    state: &State,
) -> Result<()> {
    let now = UnixTime::now();
    if !matches!(certificate.key_fits, Ok(true)) {
        let key_error = |problem: &str| {
            let place = &certificate.property;
            Error::invalid(format!("the private key of the agent's certificate (`{place}`) {problem}"))
        };
        let error = match &certificate.key_fits {
            Ok(_) => key_error("does not match it"),
            Err(cause) => key_error("is refused").with_source(cause.to_string()).with_advice_of(cause),
        };
        let error = error.with_hint(replacement_hint(certificate, "a certificate and its own key"));
        return Err(match certificate.variable.as_ref().and_then(VariableOrigin::store) {
            Some(store) => error.with_hint(format!(
                "check the others: `monopile vars check {}`",
                shell_word(&store.to_string_lossy())
            )),
            None => error,
        });
    }
    match endpoint.handshake_error(&certificate.pem, now) {
        None => Ok(()),
        Some(handshake_error) => {
            Err(rejection_error(&handshake_error, certificate, endpoint, deployment, state, now))
        }
    }
}

/// Returns the error for a certificate that a client would refuse, with the command that makes a new one.
/// Mentions the clock if a date is the reason.
fn rejection_error(
    handshake_error: &rustls::Error,
    certificate: &MbusCertificate,
    endpoint: &AgentEndpoint,
    deployment: &Deployment,
    state: &State,
    now: UnixTime,
) -> Error {
    let property = &certificate.property;
    let certificate_error =
        |problem: &str| Error::invalid(format!("the agent's certificate (`{property}`) {problem}"));
    let hint_for = |replacement: &str| replacement_hint(certificate, replacement);
    let clock = format!("this machine's clock says {}: set it if that is wrong", minute(now.as_secs()));
    let rustls::Error::InvalidCertificate(reason) = handshake_error else {
        let error = certificate_error("is refused").with_source(tls_problem(handshake_error));
        return error.with_hint(hint_for("another certificate"));
    };
    match reason {
        CertificateError::Expired => {
            certificate_error("has expired").with_hint(hint_for("a new certificate")).with_hint(clock)
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            certificate_error(&format!("expired on {}", minute(not_after.as_secs())))
                .with_hint(hint_for("a new certificate"))
                .with_hint(clock)
        }
        CertificateError::NotValidYet => {
            certificate_error("is not valid yet").with_hint(clock).with_hint(hint_for("another certificate"))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            certificate_error(&format!("is not valid before {}", minute(not_before.as_secs())))
                .with_hint(clock)
                .with_hint(hint_for("another certificate"))
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            certificate_error("is not signed by `cloud_provider.cert.ca`")
                .with_hint(hint_for("a certificate signed by this CA"))
                .with_hint("`cloud_provider.cert` and `env.bosh.mbus.cert` must be the same variable")
        }
        CertificateError::NotValidForName => {
            other_host_error(certificate_error, endpoint, deployment, state, "", certificate)
        }
        CertificateError::NotValidForNameContext { presented: host_names, .. } => {
            let names_note = match host_names.as_slice() {
                [] => ": it names no host".to_owned(),
                names => format!(
                    ": it is for {}",
                    names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ")
                ),
            };
            other_host_error(certificate_error, endpoint, deployment, state, &names_note, certificate)
        }
        _ => {
            let error = certificate_error("is refused").with_source(tls_problem(handshake_error));
            let declared_ca = rotation_as_declared(certificate).filter(|_| certificate.declares_ca);
            error.with_hint(match (is_of_authority(reason), declared_ca) {
                (true, Some((variable, rotate))) => {
                    format!("declare variable '{variable}' without `is_ca: true`, then: {rotate}")
                }
                (true, None) => hint_for("a server certificate (not that of a CA)"),
                (false, _) => hint_for("another certificate"),
            })
        }
    }
}

/// Returns the hint to replace the certificate: the command for a value in the vars store, or else the place
/// into which `replacement` has to be put.
fn replacement_hint(certificate: &MbusCertificate, replacement: &str) -> String {
    match &certificate.variable {
        Some(variable) => match variable.rotate_command() {
            Some(command) => format!("to generate {replacement}: `{command}`"),
            None => format!("put {replacement} into {}", variable.describe()),
        },
        None => format!("put {replacement} into `{}`", certificate.property),
    }
}

/// Returns the variable in the vars store that has the certificate, and the words for the command that
/// generates it again as the manifest declares it.
fn rotation_as_declared(certificate: &MbusCertificate) -> Option<(&str, String)> {
    let variable = certificate.variable.as_ref().filter(|variable| variable.manifest.is_some())?;
    Some((&variable.name, format!("`{}`", variable.rotate_command()?)))
}

/// Returns the bare name in the TLS library's `IpAddress(192.0.2.1)` or `DnsName("host")`.
fn plain(name: &str) -> &str {
    let name = name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')'));
    name.trim_matches('"')
}

/// The first hint if the state or the certificate is of another address than the manifest.
const CHECK_STATE_HINT: &str = "check --state and --vars-store: they may be of another environment";

fn other_host_error(
    certificate_error: impl Fn(&str) -> Error,
    endpoint: &AgentEndpoint,
    deployment: &Deployment,
    state: &State,
    names_note: &str,
    certificate: &MbusCertificate,
) -> Error {
    let host = endpoint.host();
    let error =
        certificate_error(&format!("is not for '{host}', the host of `cloud_provider.mbus`{names_note}"));
    if let Some(other) = OtherEnvironment::find(state, &deployment.name) {
        return other.explain(&error);
    }
    let other_address = OtherAddress::find(endpoint, state);
    let error = match &other_address {
        Some(other) => other.explain(error),
        None => error,
    };
    let networks = deployment.vm.networks.values();
    let addresses: Vec<&str> = networks.filter_map(|network| network["ip"].as_str()).collect();
    let (error, add) = match addresses.is_empty() || addresses.contains(&host) {
        true => (error, format!("add '{host}'")),
        false => (
            error.with_hint(format!(
                "the static address of the VM is {}: if '{host}' is a mistake, correct it in \
                 `cloud_provider.mbus` and in `cloud_provider.properties.agent.mbus`",
                comma_list(&addresses)
            )),
            format!("if '{host}' is right, add it"),
        ),
    };
    let Some((name, rotate)) = rotation_as_declared(certificate) else {
        return error.with_hint(replacement_hint(certificate, &format!("a certificate for '{host}'")));
    };
    let declare = format!("{add} to the `alternative_names` of variable '{name}'");
    // The plan of a first deploy generates nothing.
    let store = certificate.variable.as_ref().and_then(VariableOrigin::store);
    if !store.is_some_and(Path::exists) {
        return error.with_hint(declare);
    }
    let moves_vm = other_address.is_some();
    let error = match other_address {
        // If this run generated the certificate, it followed the declaration of the variable.
        None if state.vm_cid().is_some() || certificate.declares_host => error.with_hint(CHECK_STATE_HINT),
        _ => error,
    };
    error.with_hint(match certificate.declares_host {
        true if moves_vm => format!("if '{host}' is the new address of this VM: {rotate}"),
        true => format!("if this address is right, the certificate is older than the manifest: {rotate}"),
        false => format!("{declare}, then: {rotate}"),
    })
}
