//! Any request to Ironic and any command of the storage tool may fail or lose its answer, and the CPI may be
//! killed before or after it. A failed call leaves nothing behind, and the next call cleans up after a killed
//! one.
//!
//! A proxy stands in front of Ironic, and `support/tgt/faulty` in front of the storage tool's programs. Only
//! requests and commands that change something count as points. The default run takes some of them,
//! `MONOPILE_SWEEP=full` every fault at each point.

use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::Metal;
use crate::support::http::{Server, answer};
use crate::support::ironic::Node;
use crate::support::is_full_sweep;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The request or command is rejected with an error and has no effect.
    Refused,
    /// The request or command takes effect, but its answer is lost.
    Lost,
    KilledBefore,
    KilledAfter,
}

const REQUEST_FAULTS: [Fault; 4] = [Fault::Lost, Fault::KilledAfter, Fault::Refused, Fault::KilledBefore];
const COMMAND_FAULTS: [Fault; 3] = [Fault::Refused, Fault::KilledAfter, Fault::KilledBefore];

/// A point for a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FaultPoint {
    Request(usize),
    Command(usize),
}

#[derive(Default)]
struct Plan {
    /// The number of the request that gets the fault.
    fault: Option<(usize, Fault)>,
    /// The first request to reject, and the number of rejected requests. `None` rejects all later requests,
    /// including reads.
    outage: Option<(usize, Option<usize>)>,
    requests: usize,
    was_met: bool,
    cpi: Option<Pid>,
}

struct Faulty {
    metal: Metal,
    node: Node,
    plan: Arc<Mutex<Plan>>,
    _proxy: Server,
}

impl Faulty {
    /// Starts a proxy before Ironic, and a program before the storage commands, which make the planned fault.
    fn new() -> Faulty {
        let metal = Metal::new();
        let plan = Arc::<Mutex<Plan>>::default();
        let (proxy_plan, url) = (Arc::clone(&plan), metal.ironic.url());
        let proxy = Server::start(move |request, _| {
            let fault = {
                let mut plan = proxy_plan.lock().unwrap();
                let counts = !request.line.starts_with("GET ");
                plan.requests += usize::from(counts);
                let due_fault = plan.fault.filter(|(number, _)| counts && *number == plan.requests);
                plan.was_met |= due_fault.is_some();
                let request_count = plan.requests;
                match plan.outage {
                    Some((start, None)) if request_count >= start => Some((Fault::Refused, None)),
                    Some((start, Some(max_count)))
                        if counts && (start..start + max_count).contains(&request_count) =>
                    {
                        Some((Fault::Refused, None))
                    }
                    _ => due_fault.map(|(_, fault)| (fault, plan.cpi)),
                }
            };
            match fault {
                None => pass_on(&url, request),
                Some((Fault::Refused, _)) => answer("500 Refused for the test", &[], b"{}"),
                Some((Fault::Lost, _)) => {
                    pass_on(&url, request);
                    Vec::new()
                }
                Some((fault, cpi)) => {
                    if fault == Fault::KilledAfter {
                        pass_on(&url, request);
                    }
                    kill_process(cpi.unwrap(), Signal::KILL).unwrap();
                    Vec::new()
                }
            }
        });
        metal.configure(&json!({"endpoint": proxy.url("").replace("localhost", "127.0.0.1")}));
        for program in ["tgtadm", "cp"] {
            let faulty = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/tgt/faulty");
            std::fs::create_dir_all(metal.world.path("faulty")).unwrap();
            std::os::unix::fs::symlink(faulty, metal.world.path(format!("faulty/{program}"))).unwrap();
        }
        let node = metal.ironic.create_node();
        let faulty = Faulty { metal, node, plan, _proxy: proxy };
        faulty.plan(None);
        faulty
    }

    fn plan(&self, fault: Option<(FaultPoint, Fault)>) {
        let mut plan = self.plan.lock().unwrap();
        *plan = Plan::default();
        let mut command = (0, "nothing");
        match fault {
            Some((FaultPoint::Request(number), fault)) => plan.fault = Some((number, fault)),
            Some((FaultPoint::Command(number), Fault::Refused)) => command = (number, "refused"),
            Some((FaultPoint::Command(number), Fault::KilledBefore)) => command = (number, "killed-before"),
            Some((FaultPoint::Command(number), _)) => command = (number, "killed-after"),
            None => {}
        }
        self.metal.world.write("faults/at", format!("{} {}\n", command.0, command.1));
        self.metal.world.write("faults/count", "0\n");
    }

    /// Returns the answer, or `None` if the CPI was killed.
    fn try_call(&self, method: &str, arguments: Value) -> Option<Value> {
        let path =
            format!("{}:{}", self.metal.world.path("faulty").display(), std::env::var("PATH").unwrap());
        let mut command = self.metal.command();
        command.env("PATH", path).env("FAULTS", self.metal.world.path("faults"));
        let record_pid = |pid: Pid| self.plan.lock().unwrap().cpi = Some(pid);
        let text = Metal::exchange(command, method, arguments, record_pid);
        (!text.is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    /// Makes the call without a fault.
    #[track_caller]
    fn call(&self, method: &str, arguments: Value) -> Value {
        self.plan(None);
        let answer = self.try_call(method, arguments).unwrap();
        assert_eq!(answer["error"], Value::Null, "{method}: {answer}");
        answer["result"].clone()
    }

    /// Returns the number of requests and commands of the last call.
    fn count_of_last_call(&self) -> [usize; 2] {
        let commands = self.metal.world.read("faults/count").trim().parse().unwrap();
        [self.plan.lock().unwrap().requests, commands]
    }

    /// Makes the call with a fault, and returns its answer unless it was killed.
    #[track_caller]
    fn try_call_with_fault(
        &self,
        (point, fault): (FaultPoint, Fault),
        method: &str,
        arguments: Value,
    ) -> Option<Value> {
        self.plan(Some((point, fault)));
        let answer = self.try_call(method, arguments);
        let [_, commands] = self.count_of_last_call();
        let was_met = match point {
            FaultPoint::Request(_) => self.plan.lock().unwrap().was_met,
            FaultPoint::Command(number) => commands >= number,
        };
        assert!(was_met, "{method} has no {point:?}");
        let is_killed = matches!(fault, Fault::KilledBefore | Fault::KilledAfter);
        assert_eq!(answer.is_none(), is_killed, "{method}, {point:?}, {fault:?}: {answer:?}");
        answer
    }
}

fn pass_on(url: &str, request: &crate::support::http::Request) -> Vec<u8> {
    let client =
        ureq::Agent::config_builder().http_status_as_error(false).max_idle_connections(0).proxy(None);
    let client = client.build().new_agent();
    let method = request.line.split(' ').next().unwrap();
    let mut request_builder =
        ureq::http::Request::builder().method(method).uri(format!("{url}{}", request.path()));
    for name in ["x-openstack-ironic-api-version", "content-type"] {
        if let Some(value) = request.header(name) {
            request_builder = request_builder.header(name, value);
        }
    }
    let response = match request.body.is_empty() {
        true => client.run(request_builder.body(()).unwrap()),
        false => client.run(request_builder.body(request.body.clone()).unwrap()),
    };
    let mut response = response.unwrap();
    let headers: Vec<(String, String)> = response
        .headers()
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-openstack"))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let body = response.body_mut().read_to_vec().unwrap();
    answer(&format!("{} X", response.status().as_u16()), &headers, &body)
}

/// Returns the points to try: all of them, or `sample_size` of them with every kind of fault in turn.
fn points([requests, commands]: [usize; 2], sample_size: usize) -> Vec<(FaultPoint, Fault)> {
    let with_faults =
        |point: fn(usize) -> FaultPoint, count: usize, faults: &[Fault]| -> Vec<(FaultPoint, Fault)> {
            let all = (1..=count).flat_map(|number| faults.iter().map(move |fault| (point(number), *fault)));
            match is_full_sweep() {
                true => all.collect(),
                // The sample is spread over all points, and includes the last one.
                false => (0..sample_size.min(count))
                    .map(|turn| (point(count - turn * count / sample_size), faults[turn % faults.len()]))
                    .collect(),
            }
        };
    let mut points = with_faults(FaultPoint::Request, requests, &REQUEST_FAULTS);
    points.extend(with_faults(FaultPoint::Command, commands, &COMMAND_FAULTS));
    points
}

#[test]
fn failed_create_vm_leaves_nothing() {
    let faulty = Faulty::new();
    let (metal, node) = (&faulty.metal, &faulty.node);
    let stemcell = metal.create_stemcell();
    let stemcell_volume = format!("stemcell-{stemcell}");
    let create = || metal.create_vm_arguments(&stemcell, node);
    let vm_answer = faulty.call("create_vm", create());
    let point_counts = faulty.count_of_last_call();
    assert!(point_counts[0] >= 5 && point_counts[1] >= 12, "{point_counts:?}");
    faulty.call("delete_vm", json!([vm_answer[0]]));
    let last = (FaultPoint::Request(point_counts[0]), Fault::KilledAfter);
    let mut points = points(point_counts, 3);
    points.retain(|point| *point != last);
    for point in points {
        if let Some(answer) = faulty.try_call_with_fault(point, "create_vm", create()) {
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(!message.contains("cleaning up failed"), "{point:?}: {message}");
            metal.assert_clean(node, &[&stemcell_volume]);
        } else {
            // The killed call has claimed the only machine.
            let vm_answer = faulty.call("create_vm", create());
            faulty.call("delete_vm", json!([vm_answer[0]]));
            metal.assert_clean(node, &[&stemcell_volume]);
        }
    }
    // A complete VM is reported and not deleted, even if the answer with its CID was lost.
    assert_eq!(faulty.try_call_with_fault(last, "create_vm", create()), None);
    let message = metal.expect_error("Bosh::Clouds::VMCreationFailed", "create_vm", create());
    let vm = metal.node(node)["instance_uuid"].as_str().unwrap().to_owned();
    let expected = format!("node '{}' has VM '{vm}' of agent 'agent-1'", node.name);
    assert!(message.contains(&expected), "{message}");
    faulty.call("delete_vm", json!([vm]));
    metal.assert_clean(node, &[&stemcell_volume]);
    // A resource with an unknown CID is removed when another resource is deleted.
    let fault = (FaultPoint::Request(point_counts[0] - 1), Fault::KilledAfter);
    assert_eq!(faulty.try_call_with_fault(fault, "create_vm", create()), None);
    faulty.call("delete_stemcell", json!([stemcell]));
    metal.assert_clean(node, &[]);
}

#[test]
fn outage_of_ironic_is_awaited_and_leftovers_are_found() {
    let faulty = Faulty::new();
    let (metal, node) = (&faulty.metal, &faulty.node);
    let stemcell = metal.create_stemcell();
    let stemcell_volume = format!("stemcell-{stemcell}");
    // The second target is rejected, and then all requests that would undo the first one.
    let fails_for = |requests: Option<usize>, outage_timeout: u64| {
        metal.reconfigure(|config| config["outage_timeout"] = json!(outage_timeout));
        faulty.plan(None);
        faulty.plan.lock().unwrap().outage = Some((3, requests));
        let answer = faulty.try_call("create_vm", metal.create_vm_arguments(&stemcell, node)).unwrap();
        let error = &answer["error"];
        assert_eq!(error["ok_to_retry"], json!(true), "{answer}");
        error["message"].as_str().unwrap().to_owned()
    };
    let message = fails_for(Some(4), 120);
    assert!(message.contains("POST /v1/volume/targets failed (500)"), "{message}");
    assert!(!message.contains("cleaning up failed"), "{message}");
    metal.assert_clean(node, &[&stemcell_volume]);

    let message = fails_for(None, 2);
    let vm = metal.node(node)["instance_uuid"].as_str().unwrap().to_owned();
    for words in [
        "cleaning up failed too".to_owned(),
        format!("perhaps the node whose instance_uuid is '{vm}'"),
        format!("perhaps allocation '{vm}'"),
        format!(", volume 'root-{vm}', volume 'config-{vm}'"),
        format!("delete_vm of '{vm}'"),
    ] {
        assert!(message.contains(&words), "'{words}' is missing: {message}");
    }
    let vm_answer = faulty.call("create_vm", metal.create_vm_arguments(&stemcell, node));
    assert_ne!(vm_answer[0], json!(vm));
    faulty.call("delete_vm", json!([vm_answer[0]]));
    metal.assert_clean(node, &[&stemcell_volume]);
}

#[test]
fn repeated_delete_vm_completes_a_failed_one() {
    let faulty = Faulty::new();
    let (metal, node) = (&faulty.metal, &faulty.node);
    let stemcell = metal.create_stemcell();
    let stemcell_volume = format!("stemcell-{stemcell}");
    let vm = metal.create_vm(&stemcell, node);
    faulty.call("delete_vm", json!([vm]));
    for point in points(faulty.count_of_last_call(), 2) {
        let vm = metal.create_vm(&stemcell, node);
        if let Some(answer) = faulty.try_call_with_fault(point, "delete_vm", json!([vm])) {
            assert_ne!(answer["error"], Value::Null, "{point:?}");
            let by_ironic = matches!(point, (FaultPoint::Request(_), _));
            assert_eq!(answer["error"]["ok_to_retry"], json!(by_ironic), "{point:?}");
        }
        // After a negative answer, a caller does not request the deletion again.
        if metal.call("has_vm", json!([vm])) == json!(false) {
            metal.assert_clean(node, &[&stemcell_volume]);
        }
        faulty.call("delete_vm", json!([vm]));
        metal.assert_clean(node, &[&stemcell_volume]);
    }
}

#[test]
fn repeated_attach_and_detach_complete_failed_ones() {
    let faulty = Faulty::new();
    let (metal, node) = (&faulty.metal, &faulty.node);
    let stemcell = metal.create_stemcell();
    let vm = metal.create_vm(&stemcell, node);
    let disk = metal.call("create_disk", json!([8, {}, vm]));
    let vm_and_disk = || json!([vm, disk]);
    let disks = || metal.call("get_disks", json!([vm]));
    for power in ["power on", "power off"] {
        metal.ironic.set_power(node, power);
        // With its power off, the machine first releases the disks that were detached before.
        faulty.call("attach_disk", vm_and_disk());
        faulty.call("detach_disk", vm_and_disk());
        let hint = faulty.call("attach_disk", vm_and_disk());
        let attach_request_count = faulty.count_of_last_call();
        faulty.call("detach_disk", vm_and_disk());
        let detach_request_count = faulty.count_of_last_call();
        for point in points(attach_request_count, 2) {
            let answer = faulty.try_call_with_fault(point, "attach_disk", vm_and_disk());
            if answer.is_some() && !matches!(point, (_, Fault::Lost)) {
                assert_eq!(disks(), json!([]), "{point:?}");
                let targets = metal.tgtd.targets();
                assert!(!targets.iter().any(|name| name.contains(":disk-")), "{point:?}: {targets:?}");
            }
            assert_eq!(faulty.call("attach_disk", vm_and_disk()), hint, "{point:?}");
            assert_eq!(disks(), json!([disk]), "{point:?}");
            faulty.call("detach_disk", vm_and_disk());
        }
        for point in points(detach_request_count, 2) {
            faulty.call("attach_disk", vm_and_disk());
            faulty.try_call_with_fault(point, "detach_disk", vm_and_disk());
            faulty.call("detach_disk", vm_and_disk());
            assert_eq!(disks(), json!([]), "{point:?}");
            let targets = metal.tgtd.targets();
            assert!(!targets.iter().any(|name| name.contains(":disk-")), "{point:?}: {targets:?}");
        }
    }
    metal.call("delete_vm", json!([vm]));
    metal.call("delete_disk", json!([disk]));
    metal.assert_clean(node, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn failed_create_stemcell_leaves_nothing() {
    let faulty = Faulty::new();
    let metal = &faulty.metal;
    let create = || json!([metal.world.path("image"), {}]);
    for fault in COMMAND_FAULTS {
        if let Some(answer) =
            faulty.try_call_with_fault((FaultPoint::Command(1), fault), "create_stemcell", create())
        {
            assert!(
                answer["error"]["message"].as_str().unwrap().contains("refused for the test"),
                "{answer}"
            );
        }
        let stemcell = faulty.call("create_stemcell", create());
        faulty.call("delete_stemcell", json!([stemcell]));
        metal.assert_clean(&faulty.node, &[]);
        let files = std::fs::read_dir(metal.world.path("volumes")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        assert_eq!(names, ["exports", "lock"], "{fault:?}");
    }
}
