//! An agent address of this run at which the VM on record does not have its agent, because the run lacks the
//! ops files or variables of the last deploy.

use std::net::IpAddr;

use super::AgentEndpoint;
use crate::state::State;
use base::Error;

/// The host of `cloud_provider.mbus`, which is none of the recorded addresses of the VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtherAddress {
    recorded_addresses: Vec<String>,
    mbus_host: String,
}

impl OtherAddress {
    /// Compares the endpoint of this run with the addresses on record. A host name is not compared. An agent
    /// may also be reached at an address that only the IaaS knows, so the result explains only a failure.
    pub(crate) fn find(endpoint: &AgentEndpoint, state: &State) -> Option<Self> {
        let recorded_addresses = state.vm_addresses();
        let mbus_address: IpAddr = endpoint.host().parse().ok()?;
        let is_recorded = recorded_addresses.iter().any(|address| address.parse() == Ok(mbus_address));
        (state.vm_cid().is_some() && !recorded_addresses.is_empty() && !is_recorded)
            .then(|| OtherAddress { recorded_addresses, mbus_host: endpoint.host().to_owned() })
    }

    /// Describes the difference.
    pub(crate) fn note(&self) -> String {
        let addresses = self.recorded_addresses.join(", ");
        let subject = match self.recorded_addresses.len() {
            1 => format!("the recorded address of the VM is {addresses}"),
            _ => format!("the recorded addresses of the VM are {addresses}"),
        };
        format!("{subject}, but `cloud_provider.mbus` has {}", self.mbus_host)
    }

    /// The hint for the operator.
    pub(crate) const ADDRESS_HINT: &str = "pass the same --state, --vars-store, ops files and variables as \
                                   for the last create-env, or correct the host in `cloud_provider.mbus`";

    /// Adds the note and the hint to the error of an agent that could not be used.
    pub(crate) fn explain(&self, error: Error) -> Error {
        error.with_note(self.note()).with_hint(Self::ADDRESS_HINT)
    }
}
