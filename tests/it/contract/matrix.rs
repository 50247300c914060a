//! CPI versions with stemcell versions; every pair of them in the long form. In a complete life of each pair,
//! every request, the state and every message to the agent match the table of contracts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use super::run_in_parallel;
use crate::support::hello::Hello;
use crate::support::is_long_form;
use crate::support::proxy::{AgentProxy, Exchange, Listener};
use crate::support::scripted::{InfoAnswer, Script};

const CPIS: [InfoAnswer; 8] = [
    InfoAnswer::WithoutVersion,
    InfoAnswer::NotImplemented(0),
    InfoAnswer::NotImplemented(1),
    InfoAnswer::NotImplemented(2),
    InfoAnswer::Version(1),
    InfoAnswer::Version(2),
    InfoAnswer::Version(3),
    InfoAnswer::Version(99),
];
/// `api_version` in `stemcell.MF`.
const STEMCELLS: [Option<u32>; 4] = [None, Some(1), Some(2), Some(3)];

/// A combination of a CPI, a stemcell and an option, and what the contract expects of it.
#[derive(Debug)]
struct Combination {
    cpi: InfoAnswer,
    stemcell: Option<u32>,
    /// The option `--cpi-api-version`.
    max_api_version: Option<u32>,
}

impl Combination {
    /// Returns the `api_version` of requests.
    fn api_version(&self) -> u32 {
        self.cpi.version().min(3).min(self.max_api_version.unwrap_or(3))
    }

    fn is_v2(&self) -> bool {
        self.api_version() >= 2 && self.stemcell.unwrap_or(1) >= 2
    }

    /// Returns true if the networks from `create_vm` and the hint from `attach_disk` are recorded. This is
    /// always so under contract v2. With an old stemcell, it is so if the CPI returns them, as the scripted
    /// one does in even versions.
    fn is_recorded(&self) -> bool {
        self.is_v2() || self.api_version() >= 2 && self.cpi.version().is_multiple_of(2)
    }
}

#[test]
fn every_cpi_works_with_every_stemcell() {
    let mut combinations = Vec::new();
    for cpi in CPIS {
        for stemcell in STEMCELLS {
            // After its answer to `info`, a CPI of another version is treated like one of version 1 or 3. The
            // default run tries it with one stemcell, and versions 1 and 2 with the oldest and the newest.
            let is_tried = match cpi {
                InfoAnswer::Version(3) => true,
                InfoAnswer::Version(1..=2) => matches!(stemcell, None | Some(3)),
                _ => stemcell == Some(3),
            };
            if is_tried || is_long_form() {
                combinations.push(Combination { cpi, stemcell, max_api_version: None });
            }
        }
    }
    combinations.push(Combination {
        cpi: InfoAnswer::Version(3),
        stemcell: Some(3),
        max_api_version: Some(2),
    });
    combinations.push(Combination {
        cpi: InfoAnswer::Version(3),
        stemcell: Some(3),
        max_api_version: Some(1),
    });
    let start = Instant::now();
    run_in_parallel(&combinations, run_life);
    eprintln!("contract matrix: {} lives in {:.0} s", combinations.len(), start.elapsed().as_secs_f64());
}

/// An agent that does not know the messages that add and remove persistent disks.
struct OldAgent(Arc<Mutex<Vec<Exchange>>>);

impl Listener for OldAgent {
    fn replace(&self, exchange: &Exchange) -> Option<Value> {
        let name = exchange.name();
        let is_new = matches!(name.as_str(), "add_persistent_disk" | "remove_persistent_disk");
        is_new.then(|| json!({"exception": {"message": format!("unknown message {name}")}}))
    }

    fn hear_answer(&self, _asked: usize, exchange: Exchange) {
        self.0.lock().unwrap().push(exchange);
    }
}

#[test]
fn old_agent_gets_the_hint_when_it_mounts_the_disk() {
    let mut hello = Hello::new();
    let exchanges = Arc::<Mutex<Vec<Exchange>>>::default();
    let _proxy = hello.proxy_agent_with(OldAgent(exchanges.clone()));
    hello.create(&[]).success();
    let state = hello.state();
    let disk = &state["disks"][0];
    assert!(disk["hint"]["path"].is_string(), "{disk}");
    let exchanges = std::mem::take(&mut *exchanges.lock().unwrap());
    let mount = exchanges.iter().find(|exchange| exchange.name() == "mount_disk").unwrap();
    assert_eq!(mount.message["arguments"], json!([disk["cid"], disk["hint"]]));
    assert_eq!(hello.ask_counter(), 1);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Creates, changes and deletes an environment, and checks requests, state, messages and registry against the
/// versions of this combination.
fn run_life(combination: &Combination) {
    let mut hello = Hello::new();
    let manifest = hello.world.read("hello/stemcell/stemcell.MF");
    let version = combination.stemcell.map(|version| format!("api_version: {version}\n")).unwrap_or_default();
    assert!(manifest.contains("api_version: 3\n"));
    hello.world.write("hello/stemcell/stemcell.MF", manifest.replace("api_version: 3\n", &version));
    hello.add_ops("tags.yml", "- {type: replace, path: /tags?, value: {team: x}}\n");
    let registry = format!("{{host: {}, port: 6901, username: registry, password: no-secret}}", hello.ip());
    hello.add_ops(
        "registry.yml",
        &format!("- {{type: replace, path: /cloud_provider/properties/registry?, value: {registry}}}\n"),
    );
    hello.set_script(Script::with_info(combination.cpi));
    let max_api_version = combination.max_api_version.map(|max_api_version| max_api_version.to_string());
    let options: Vec<&str> =
        max_api_version.iter().flat_map(|max_api_version| ["--cpi-api-version", max_api_version]).collect();
    let proxy = hello.proxy_agent();

    let run = hello.create(&options).success();
    assert_eq!(run.stdout.contains("(contract v1)"), !combination.is_v2(), "{combination:?}: {}", run.stdout);
    assert_eq!(
        run.stdout.contains("no longer needed"),
        combination.is_v2(),
        "{combination:?}: {}",
        run.stdout
    );
    let create = [
        "info",
        "create_stemcell",
        "create_vm",
        "set_vm_metadata",
        "create_disk",
        "attach_disk",
        "set_disk_metadata",
    ];
    check_requests(combination, &hello, &create);
    check_state(combination, &hello);
    check_messages(combination, &proxy, &["mount"]);
    assert_eq!(hello.ask_counter(), 1, "{combination:?}");

    hello.add_ops(
        "change.yml",
        "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n\
         - {type: replace, path: /instance_groups/name=hello/jobs/name=hello/properties/changed?, value: \
         yes}\n",
    );
    hello.create(&options).success();
    let change = [
        "info",
        "has_vm",
        "delete_vm",
        "create_vm",
        "set_vm_metadata",
        "attach_disk",
        "set_disk_metadata",
        "create_disk",
        "attach_disk",
        "set_disk_metadata",
        "detach_disk",
        "delete_disk",
    ];
    check_requests(combination, &hello, &change);
    check_state(combination, &hello);
    check_messages(combination, &proxy, &["unmount", "mount", "mount", "remove"]);
    assert_eq!(hello.ask_counter(), 2, "{combination:?}: the disk's data is not what it was");

    hello.delete(&options).success();
    check_requests(combination, &hello, &["info", "has_vm", "delete_vm", "delete_disk", "delete_stemcell"]);
    check_messages(combination, &proxy, &["unmount"]);
    assert_eq!(hello.leftovers(), Vec::<String>::new(), "{combination:?}");
    check_registry(combination, &hello);
}

/// Checks the methods, and the fields that the version and the contract require in each request.
fn check_requests(combination: &Combination, hello: &Hello, methods: &[&str]) {
    let requests = hello.take_requests();
    assert_eq!(Hello::methods(&requests), methods, "{combination:?}");
    let ids: BTreeSet<&str> =
        requests.iter().map(|request| request["context"]["request_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), requests.len(), "{combination:?}: a request id was used twice");
    let directors: BTreeSet<&str> =
        requests.iter().map(|request| request["context"]["director_uuid"].as_str().unwrap()).collect();
    assert_eq!(directors.len(), 1, "{combination:?}");
    for request in &requests {
        let method = request["method"].as_str().unwrap();
        let description = format!("{combination:?}: {request}");
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        let mut expected = ["method", "arguments", "context", "api_version"].map(str::to_owned).to_vec();
        // These are the keys apart from the CPI's properties in the manifest.
        let mut context =
            ["root", "agent", "registry", "director_uuid", "request_id", "vm"].map(str::to_owned).to_vec();
        if method == "info" {
            expected.pop();
            context.pop();
        } else {
            assert_eq!(request["api_version"], combination.api_version(), "{description}");
            let vm = json!({"stemcell": {"api_version": combination.stemcell.unwrap_or(1)}});
            assert_eq!(request["context"]["vm"], vm, "{description}");
        }
        assert_eq!(keys(request), BTreeSet::from_iter(expected), "{description}");
        assert_eq!(keys(&request["context"]), BTreeSet::from_iter(context), "{description}");
        let arguments = request["arguments"].as_array().unwrap();
        let count = match method {
            "info" => 0,
            "has_vm" | "delete_vm" | "delete_disk" | "delete_stemcell" => 1,
            "create_stemcell" if combination.api_version() < 3 => 2,
            "set_vm_metadata" | "set_disk_metadata" | "attach_disk" | "detach_disk" => 2,
            "create_stemcell" | "create_disk" => 3,
            "create_vm" => 6,
            other => panic!("{other} is not of this life"),
        };
        assert_eq!(arguments.len(), count, "{description}");
        match method {
            "create_stemcell" if count == 3 => {
                assert_eq!(arguments[2], json!({"tags": {"team": "x"}}), "{description}");
            }
            "set_vm_metadata" | "set_disk_metadata" => assert_eq!(arguments[1]["team"], "x", "{description}"),
            _ => {}
        }
    }
}

fn check_state(combination: &Combination, hello: &Hello) {
    let state = hello.state();
    let vm = &state["monopile"]["vm"];
    assert_eq!(vm["contract"], if combination.is_v2() { "v2" } else { "v1" }, "{combination:?}");
    assert_eq!(vm["networks"].is_object(), combination.is_recorded(), "{combination:?}: {vm}");
    assert_eq!(state["disks"].as_array().unwrap().len(), 1, "{combination:?}");
    let disk = &state["disks"][0];
    assert_eq!(disk["hint"]["path"].is_string(), combination.is_recorded(), "{combination:?}: {disk}");
    assert_eq!(state["stemcells"][0]["api_version"], combination.stemcell.unwrap_or(1), "{combination:?}");
    assert_eq!(hello.cloud(), hello.recorded_cids(), "{combination:?}");
}

/// Checks the messages to the agent about disks. Hints are sent only under contract v2.
fn check_messages(combination: &Combination, proxy: &AgentProxy, expected: &[&str]) {
    let disk_exchanges: Vec<Exchange> =
        proxy.take().into_iter().filter(|exchange| exchange.name().ends_with("_disk")).collect();
    let mut expected_messages = Vec::new();
    for what in expected {
        match *what {
            "mount" if combination.is_v2() => expected_messages.extend(["add_persistent_disk", "mount_disk"]),
            "mount" => expected_messages.push("mount_disk"),
            "unmount" => expected_messages.extend(["list_disk", "unmount_disk"]),
            "remove" => expected_messages.extend(["migrate_disk", "remove_persistent_disk"]),
            other => panic!("{other}"),
        }
    }
    assert_eq!(
        disk_exchanges.iter().map(Exchange::name).collect::<Vec<_>>(),
        expected_messages,
        "{combination:?}"
    );
    for exchange in &disk_exchanges {
        let arguments = exchange.message["arguments"].as_array().unwrap();
        match exchange.name().as_str() {
            "add_persistent_disk" => {
                assert!(arguments[1]["path"].is_string(), "{combination:?}: {arguments:?}")
            }
            "mount_disk" => assert_eq!(arguments.len(), 1, "{combination:?}: {arguments:?}"),
            _ => {}
        }
    }
}

/// Checks that the registry is up for each VM created under contract v1, and never under contract v2.
fn check_registry(combination: &Combination, hello: &Hello) {
    let expected = if combination.is_v2() { "closed\nclosed\n" } else { "open\nopen\n" };
    assert_eq!(hello.world.read("registry"), expected, "{combination:?}");
}
