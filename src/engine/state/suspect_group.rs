//! Groups suspects that look alike, so that repeated failures of one call are shown once.

use super::handle::describe_in_iaas;
use super::records::Suspect;

/// Suspects of one kind at one CPI. They differ at most in the id of the VM's agent, the answer of the CPI
/// and the time of the call. Oldest first, never empty.
#[derive(Debug)]
pub struct SuspectGroup<'s>(Vec<&'s Suspect>);

impl<'s> SuspectGroup<'s> {
    /// Groups suspects, in the order in which their groups began.
    pub fn all(suspects: &'s [Suspect]) -> Vec<Self> {
        let mut groups: Vec<SuspectGroup<'s>> = Vec::new();
        for suspect in suspects {
            match groups.iter_mut().find(|group| group.0.iter().any(|member| look_alike(member, suspect))) {
                Some(group) => group.0.push(suspect),
                None => groups.push(SuspectGroup(vec![suspect])),
            }
        }
        groups
    }

    /// Returns the suspects, oldest first.
    pub fn suspects(&self) -> &[&'s Suspect] {
        &self.0
    }

    /// Describes what the calls may have created, so that an operator can find it in the IaaS, with all agent
    /// ids.
    pub fn describe_in_iaas(&self) -> String {
        self.describe(true)
    }

    /// Describes the same as [`Self::describe_in_iaas`], without a list of agent ids.
    pub fn short_text(&self) -> String {
        self.describe(false)
    }

    fn describe(&self, lists_agents: bool) -> String {
        let [first, _, ..] = self.0.as_slice() else {
            return self.0.iter().map(|suspect| suspect.describe_in_iaas()).collect();
        };
        let count = self.0.len();
        let mut agents: Vec<&str> = self.0.iter().filter_map(|suspect| suspect.agent_id.as_deref()).collect();
        // Retries of a call are for one agent id.
        let mut listed_agents = std::collections::HashSet::new();
        agents.retain(|agent| listed_agents.insert(*agent));
        let description = match agents.as_slice() {
            [] => format!("up to {count} {}", plural(&first.description)),
            [agent] => format!("up to {count} VMs, whose agent ID is {agent}"),
            agents if lists_agents => {
                format!("up to {count} VMs with {} agent IDs: {}", agents.len(), agents.join(", "))
            }
            agents => format!("up to {count} VMs with {} agent IDs", agents.len()),
        };
        describe_in_iaas(&description, first.cpi.as_deref())
    }

    /// Returns the time of the last of several calls. For a single call, returns its request id and its time.
    pub fn last_request(&self) -> String {
        match self.0.as_slice() {
            [_, .., last] => format!("the last {}", last.called_at),
            suspects => suspects
                .iter()
                .map(|suspect| format!("request {}, {}", suspect.request_id, suspect.called_at))
                .collect(),
        }
    }

    /// Returns the different answers of the CPI, oldest first.
    pub fn cpi_answers(&self) -> Vec<&'s str> {
        let mut messages: Vec<&str> = Vec::new();
        for suspect in &self.0 {
            if !messages.contains(&suspect.cpi_message.as_str()) {
                messages.push(&suspect.cpi_message);
            }
        }
        messages
    }
}

/// Returns the plural of a description: "images of os/1" for "an image of os/1".
fn plural(description: &str) -> String {
    let noun = ["an ", "a "].iter().find_map(|article| description.strip_prefix(article));
    match noun.unwrap_or(description).split_once(" of ") {
        Some((noun, rest)) => format!("{noun}s of {rest}"),
        None => description.to_owned(),
    }
}

fn look_alike(one: &Suspect, other: &Suspect) -> bool {
    let comparable_description = |suspect: &Suspect| match suspect.agent_id {
        // Each VM's description contains its own agent id, so it is not compared.
        Some(_) => None,
        None => Some(suspect.description.clone()),
    };
    one.kind == other.kind
        && one.cpi == other.cpi
        && comparable_description(one) == comparable_description(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ResourceKind;

    fn suspect(id: &str, agent_id: Option<&str>, description: &str, cpi: Option<&str>) -> Suspect {
        Suspect {
            kind: if agent_id.is_some() { ResourceKind::Vm } else { ResourceKind::Disk },
            request_id: id.parse().unwrap(),
            cpi: cpi.map(str::to_owned),
            agent_id: agent_id.map(str::to_owned),
            description: description.to_owned(),
            cpi_message: "no quota".to_owned(),
            called_at: format!("at {id}"),
            unknown_keys: serde_json::Map::new(),
        }
    }

    #[test]
    fn similar_suspects_are_grouped() {
        let suspects = [
            suspect("r1", Some("a"), "a VM whose agent id is a", None),
            suspect("r2", None, "a disk of 1 MiB", None),
            suspect("r3", Some("b"), "a VM whose agent id is b", None),
            suspect("r4", None, "a disk of 1 MiB", Some("other")),
            suspect("r5", None, "a disk of 1 MiB", None),
            suspect("r6", None, "a disk of 2 MiB", None),
            suspect("r7", Some("b"), "a VM whose agent id is b", None),
        ];
        let groups = SuspectGroup::all(&suspects);
        let descriptions: Vec<_> =
            groups.iter().map(|group| (group.describe_in_iaas(), group.last_request())).collect();
        let expected = [
            ("up to 3 VMs with 2 agent IDs: a, b", "the last at r7"),
            ("up to 2 disks of 1 MiB", "the last at r5"),
            ("a disk of 1 MiB, in the IaaS of CPI 'other'", "request r4, at r4"),
            ("a disk of 2 MiB", "request r6, at r6"),
        ];
        assert_eq!(descriptions, expected.map(|(look, requests)| (look.to_owned(), requests.to_owned())));
        assert_eq!(groups[0].short_text(), "up to 3 VMs with 2 agent IDs");
        assert_eq!(groups[1].short_text(), groups[1].describe_in_iaas());
        assert_eq!(groups[0].cpi_answers(), ["no quota"]);
    }
}
