//! Checks the agent's certificate before any change. An agent whose certificate is rejected cannot be
//! reached, and a new VM would not help.

use rustls::CertificateError as Refused;
use rustls_pki_types::UnixTime;

use crate::agent::{AgentEndpoint, OtherAddress};
use crate::prepare::MbusCertificate;
use crate::state::State;
use base::encoding::minute;
use base::text::shell_word;
use base::{Error, Result};
use net::plain_errors::tls_problem;

/// Checks that the agent can use the certificate, and that a client will accept it.
pub(super) fn check(certificate: &MbusCertificate, endpoint: &AgentEndpoint, state: &State) -> Result<()> {
    let now = UnixTime::now();
    if !certificate.has_own_key {
        let place = &certificate.property;
        let error = Error::invalid(format!(
            "the private key of the agent's certificate (`{place}`) does not match it"
        ));
        return Err(match &certificate.stored {
            Some((store, name)) => {
                let store = store.to_string_lossy();
                let store = shell_word(&store);
                error
                    .with_hint(format!("`monopile vars rotate {store} {}`", shell_word(name)))
                    .with_hint(format!("check the others: `monopile vars check {store}`"))
            }
            None => error.with_hint(format!("put a certificate and its own key into `{place}`")),
        });
    }
    match endpoint.refusal(&certificate.pem, now) {
        None => Ok(()),
        Some(refusal) => Err(refusal_error(&refusal, certificate, endpoint, state, now)),
    }
}

/// Returns the error for a certificate that a client would refuse, with the command that makes a new one.
/// Mentions the clock if a date is the reason.
fn refusal_error(
    refusal: &rustls::Error,
    certificate: &MbusCertificate,
    endpoint: &AgentEndpoint,
    state: &State,
    now: UnixTime,
) -> Error {
    let MbusCertificate { property, stored, .. } = certificate;
    let certificate_error =
        |problem: &str| Error::invalid(format!("the agent's certificate (`{property}`) {problem}"));
    let command = stored.as_ref().map(|(store, name)| {
        format!("monopile vars rotate {} {}", shell_word(&store.to_string_lossy()), shell_word(name))
    });
    let rotate = match &command {
        Some(command) => format!("`{command}`"),
        None => format!("put another certificate into `{property}`"),
    };
    let clock = format!("this machine's clock says {}: set it if that is wrong", minute(now.as_secs()));
    let rustls::Error::InvalidCertificate(reason) = refusal else {
        return certificate_error("is refused").with_source(tls_problem(refusal)).with_hint(rotate);
    };
    match reason {
        Refused::Expired => certificate_error("has expired").with_hint(rotate).with_hint(clock),
        Refused::ExpiredContext { not_after, .. } => {
            certificate_error(&format!("expired on {}", minute(not_after.as_secs())))
                .with_hint(rotate)
                .with_hint(clock)
        }
        Refused::NotValidYet => certificate_error("is not valid yet").with_hint(clock).with_hint(rotate),
        Refused::NotValidYetContext { not_before, .. } => {
            certificate_error(&format!("is not valid before {}", minute(not_before.as_secs())))
                .with_hint(clock)
                .with_hint(rotate)
        }
        Refused::UnknownIssuer | Refused::BadSignature => {
            certificate_error("is not signed by `cloud_provider.cert.ca`")
                .with_hint(rotate)
                .with_hint("`cloud_provider.cert` and `env.bosh.mbus.cert` must be the same variable")
        }
        Refused::NotValidForName => other_host_error(
            certificate_error,
            endpoint,
            state,
            "",
            certificate,
            command.as_deref().unwrap_or(&rotate),
        ),
        Refused::NotValidForNameContext { presented, .. } => {
            let presented = match presented.as_slice() {
                [] => ": it names no host".to_owned(),
                names => format!(
                    ": it is for {}",
                    names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ")
                ),
            };
            other_host_error(
                certificate_error,
                endpoint,
                state,
                &presented,
                certificate,
                command.as_deref().unwrap_or(&rotate),
            )
        }
        _ => certificate_error("is refused").with_source(tls_problem(refusal)).with_hint(rotate),
    }
}

/// Returns the bare name in the TLS library's `IpAddress(192.0.2.1)` or `DnsName("host")`.
fn plain(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')'));
    inner.trim_matches('"')
}

fn other_host_error(
    certificate_error: impl Fn(&str) -> Error,
    endpoint: &AgentEndpoint,
    state: &State,
    presented: &str,
    certificate: &MbusCertificate,
    rotate: &str,
) -> Error {
    let host = endpoint.host();
    let error =
        certificate_error(&format!("is not for '{host}', the host of `cloud_provider.mbus`{presented}"));
    let Some((store, name)) = &certificate.stored else { return error.with_hint(rotate) };
    // Before the first deploy, nothing is generated yet.
    if !store.exists() {
        return error.with_hint(format!("add '{host}' to the `alternative_names` of variable '{name}'"));
    }
    let error = match OtherAddress::find(endpoint, state) {
        Some(other) => other.explain(error),
        None => error.with_hint("check --state and --vars-store: they may be of another environment"),
    };
    let manifest = certificate.manifest.to_string_lossy();
    let rotate =
        format!("`{rotate} -m {}`, with the ops files and variables of this run", shell_word(&manifest));
    error.with_hint(match certificate.declares_host {
        true => format!("if this address is right, the certificate is older than the manifest: {rotate}"),
        false => format!("add '{host}' to the `alternative_names` of variable '{name}', then: {rotate}"),
    })
}
