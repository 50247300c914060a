//! `baremetal volume connector collect`: reads the initiators of a machine, and creates their connectors.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::call::Call;
use crate::cli::finish::CommandResult;
use base::JsonObject;
use base::{Error, Result};
use ironic::{Collection, ListOptions};

/// Prints the initiators of the machine on which it runs. It gets no arguments, so nothing needs quotes.
const SCRIPT: &str = r#"
file=/etc/iscsi/initiatorname.iscsi
if [ -e "$file" ] && ! cat "$file"; then echo unreadable="$file"; fi
for host in /sys/class/fc_host/*; do
    for name in node_name port_name; do
        if [ -e "$host/$name" ]; then echo "$name=$(cat "$host/$name")"; fi
    done
done
for card in /sys/class/net/*; do
    if [ -e "$card/device" ]; then
        echo "mac=$(cat "$card/address")"
        ip -o address show dev "${card##*/}" scope global 2>/dev/null | while read -r _ _ family address _; do
            echo "$family=$address"
        done
    fi
done
exit 0
"#;

/// The maximum length of the script's output. A machine has a few lines.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;

/// Creates the connectors that the node does not have yet, and lists those of the machine.
pub(super) fn collect(call: &Call) -> Result<CommandResult> {
    let host = call.text("ssh");
    let report = run_script(host.as_deref())?;
    let types = call.texts("type");
    let mut connectors = initiators(&report);
    connectors.retain(|(kind, _)| types.is_empty() || types.iter().any(|name| name == kind));
    let machine = host.map_or_else(|| "this machine".to_owned(), |host| format!("'{host}'"));
    let unreadable = report.lines().find_map(|line| line.strip_prefix("unreadable="));
    if let Some(file) = unreadable.filter(|_| types.is_empty() || types.iter().any(|kind| kind == "iqn")) {
        let file = base::text::clean_line(file);
        return Err(Error::failure(format!("the user on {machine} cannot read '{file}'")).with_hint(
            "run the command as root, or log in as root: `monopile SAME-COMMAND --ssh root@HOST`",
        ));
    }
    if connectors.is_empty() {
        return Err(Error::failure(format!("{machine} reports no initiator to collect")).with_hint(
            "install open-iscsi there, which names the initiator, or create the connector yourself: \
             `monopile baremetal volume connector create --help`",
        ));
    }
    let ironic = call.ironic()?;
    let node = ironic.find_node_uuid(&call.text("node").unwrap_or_default())?;
    let existing_connectors = ironic.list(Collection::Connectors, &ListOptions::for_node(&node))?;
    let mut connectors_of_machine = Vec::new();
    for (kind, id) in connectors {
        let has_value = |connector: &JsonObject, key: &str, value: &str| {
            connector.get(key).is_some_and(|field| field == value)
        };
        let is_same = |connector: &&JsonObject| {
            has_value(connector, "type", kind) && has_value(connector, "connector_id", &id)
        };
        connectors_of_machine.push(match existing_connectors.iter().find(is_same) {
            Some(connector) => connector.clone(),
            None => {
                let fields = [("node_uuid", node.as_str()), ("type", kind), ("connector_id", &id)];
                let fields = fields.map(|(key, value)| (key.to_owned(), Value::from(value)));
                let connector = ironic.create(Collection::Connectors, fields.into_iter().collect())?;
                call.session.reporter.note(format!("created the connector {kind} {id}"));
                connector
            }
        });
    }
    call.list(call.resource().short, connectors_of_machine)
}

/// Runs the script here, or on a host through ssh, and returns its output.
fn run_script(host: Option<&str>) -> Result<String> {
    let mut command = match host {
        None => Command::new("sh"),
        Some(host) if host.is_empty() || host.starts_with('-') => {
            return Err(Error::usage(format!("invalid --ssh '{host}'"))
                .with_hint("name the machine as USER@HOST, or by its name in ~/.ssh/config"));
        }
        Some(host) => {
            let mut ssh = Command::new("ssh");
            ssh.args(["-T", "--", host, "sh"]);
            ssh
        }
    };
    command.arg("-s");
    let program = command.get_program().to_string_lossy().into_owned();
    let run_error = |error| Error::io(format!("running '{program}' to collect initiators"), error);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(run_error)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early reports its own error.
        let _ = stdin.write_all(SCRIPT.as_bytes());
    }
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        // Closing the pipe ends a program that prints more.
        stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut output).map_err(run_error)?;
    }
    let status = child.wait().map_err(run_error)?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&output).into_owned()),
        false => Err(Error::failure(format!("collecting the initiators failed: '{program}': {status}"))
            .with_hint("try the login first: `ssh HOST true`; its message is above")),
    }
}

/// Returns the types and ids of the connectors in the script's output, each once.
fn initiators(report: &str) -> Vec<(&'static str, String)> {
    let mut connectors = Vec::new();
    for line in report.lines() {
        let Some((key, value)) = line.trim().split_once('=') else { continue };
        let value = value.trim();
        let connector = match key {
            "InitiatorName" => valid_name(value).map(|name| ("iqn", name)),
            "node_name" => world_wide_name(value).map(|name| ("wwnn", name)),
            "port_name" => world_wide_name(value).map(|name| ("wwpn", name)),
            "mac" => mac_address(value).map(|address| ("mac", address)),
            "inet" | "inet6" => ip_address(value).map(|address| ("ip", address)),
            _ => None,
        };
        connectors.extend(connector.filter(|connector| !connectors.contains(connector)));
    }
    connectors
}

/// Returns the name of an iSCSI initiator, if it can be one (RFC 3720, 3.2.6).
fn valid_name(name: &str) -> Option<String> {
    let has_valid_start = ["iqn.", "eui.", "naa."].iter().any(|start| name.starts_with(start));
    let is_valid = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | ':' | '-');
    (has_valid_start && name.len() <= 223 && name.chars().all(is_valid)).then(|| name.to_owned())
}

/// Returns `50:01:43:80:24:26:ba:f4` for the form of the kernel, `0x500143802426baf4`.
fn world_wide_name(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").unwrap_or(text).to_ascii_lowercase();
    let is_valid = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let pairs = || (0..8).map(|index| &digits[2 * index..2 * index + 2]).collect::<Vec<_>>().join(":");
    is_valid.then(pairs)
}

/// Returns a MAC address in lower case. Cards without an address have zeroes.
fn mac_address(text: &str) -> Option<String> {
    let bytes: Vec<&str> = text.split(':').collect();
    let is_byte = |byte: &&str| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_valid = bytes.len() == 6 && bytes.iter().all(is_byte) && bytes.iter().any(|byte| *byte != "00");
    is_valid.then(|| text.to_ascii_lowercase())
}

/// Returns the address in `10.0.0.5/24`.
fn ip_address(text: &str) -> Option<String> {
    let address = text.split('/').next().unwrap_or(text);
    address.parse::<std::net::IpAddr>().ok().map(|address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiators_are_read_once_and_checked() {
        let report = "## DO NOT EDIT\nInitiatorName=iqn.1993-08.org.debian:01:abc\n\
            node_name=0x20000090FA000001\nport_name=0x100000\nport_name=0x10000090fa000001\n\
            mac=52:54:00:AA:bb:01\nmac=00:00:00:00:00:00\nmac=52:54\ninet=10.0.0.5/24\ninet=10.0.0.5/24\n\
            inet6=2001:DB8::1/64\ninet=nonsense\nInitiatorName=x\nInitiatorName=iqn.a;b\nunreadable=/x\nkey\n";
        let expected = [
            ("iqn", "iqn.1993-08.org.debian:01:abc"),
            ("wwnn", "20:00:00:90:fa:00:00:01"),
            ("wwpn", "10:00:00:90:fa:00:00:01"),
            ("mac", "52:54:00:aa:bb:01"),
            ("ip", "10.0.0.5"),
            ("ip", "2001:db8::1"),
        ];
        assert_eq!(initiators(report), expected.map(|(kind, id)| (kind, id.to_owned())));
        assert_eq!(initiators("port_name=0x1000009字a0000\n"), []);
    }

    #[test]
    fn hosts_that_are_options_are_refused() {
        for host in ["", "-oProxyCommand=x"] {
            assert!(run_script(Some(host)).is_err(), "{host}");
        }
    }
}
