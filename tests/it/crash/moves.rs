//! A move from one CPI to another is killed at its calls, and nothing is lost.

use std::collections::BTreeSet;

use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Interruption, Script};
use crate::support::{Run, is_full_sweep};

/// Returns an environment with two CPIs, each with a cloud and an availability zone.
fn hello() -> Hello {
    let mut hello = Hello::new();
    let [a, b] = ["cloud", "cloud-b"].map(|root| {
        let (root, ip) = (hello.world.path(root).display().to_string(), hello.ip());
        format!("{{root: {root}, agent: {{mbus: \"https://mbus:((mbus_bootstrap_password))@{ip}:6868\"}}}}")
    });
    hello.world.write(
        "cpis.yml",
        format!(
            "cpis:\n- {{name: a, type: x, exec_path: scripted, properties: {a}}}\n\
             - {{name: b, type: x, exec_path: scripted, properties: {b}}}\n"
        ),
    );
    hello.add_ops(
        "zones.yml",
        "- {type: replace, path: /azs?, value: [{name: za, cpi: a}, {name: zb, cpi: b}]}\n\
         - {type: replace, path: /instance_groups/name=hello/azs?, value: [((az))]}\n",
    );
    hello
}

fn run(hello: &Hello, command: &str, extra_args: &[&str]) -> Run {
    let options = [&["-n", "--cpi-config", "cpis.yml"], extra_args].concat();
    hello.world.finish(hello.command(command, &options))
}

const MOVE: [&str; 3] = ["--recreate-persistent-disks", "-v", "az=zb"];

/// Creates in `a`, is killed while it moves to `b`, repeats the command, and deletes. Returns true if the
/// kill happened, and the number of CPI calls of the move, which is complete only without a disturbance.
fn run_life(disturbance: Option<(usize, Interruption)>) -> (bool, usize) {
    let place = format!("{disturbance:?}");
    let hello = hello();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    run(&hello, "create-env", &["-v", "az=za"]).success();
    assert_eq!(hello.ask_counter(), 1, "{place}");
    hello.set_script(disturbance.map_or_else(
        || Script::with_info(InfoAnswer::Local),
        |(call, when)| Script::with_interruption(call, when),
    ));
    let first_run = run(&hello, "create-env", &MOVE);
    let calls = hello.calls("");
    let was_killed = first_run.code == -1;
    if was_killed {
        if !matches!(disturbance, Some((_, Interruption::Slow))) {
            hello.wait_until_idle();
            let records = hello.announced_or_recorded();
            for cid in hello.cloud() {
                assert!(
                    records.contains(&cid),
                    "{place}: {cid} exists, and neither state nor journal knows it"
                );
            }
        }
        hello.set_script(Script::with_info(InfoAnswer::Local));
        let mut rerun = run(&hello, "create-env", &MOVE);
        if matches!(disturbance, Some((_, Interruption::Lost))) && rerun.code == 1 {
            rerun = run(&hello, "create-env", &[&MOVE[..], &["--forget-open-calls"]].concat());
        }
        rerun.success();
    } else {
        first_run.success();
    }
    assert_eq!(hello.cloud(), hello.recorded_cids(), "{place}");
    assert_eq!(hello.state()["monopile"]["vm"]["cpi"], "b", "{place}");
    assert_eq!(hello.ask_counter(), 1, "{place}: the disk is a new one");
    hello.set_script(Script::with_info(InfoAnswer::Local));
    run(&hello, "delete-env", &["-v", "az=zb"]).success();
    let (created_cids, deleted_cids) = hello.effects();
    let distinct = |cids: &[String]| cids.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(created_cids.len(), distinct(&created_cids).len(), "{place}: something was made twice");
    assert_eq!(
        (distinct(&created_cids), created_cids.len()),
        (distinct(&deleted_cids), deleted_cids.len()),
        "{place}"
    );
    assert!(hello.cloud().is_empty(), "{place}");
    (was_killed, calls)
}

#[test]
fn kill_during_a_move_loses_no_resource() {
    let calls = run_life(None).1;
    let interruptions = [
        Interruption::Before,
        Interruption::Slow,
        Interruption::During,
        Interruption::After,
        Interruption::Lost,
    ];
    let every = (1..=calls).flat_map(|call| interruptions.map(|when| (call, when)));
    // The sample is spread over the move, with each kind of kill.
    let points: Vec<(usize, Interruption)> =
        if is_full_sweep() { every.collect() } else { every.step_by(17).collect() };
    let kills = points.iter().filter(|(call, when)| run_life(Some((*call, *when))).0).count();
    eprintln!(
        "kill sweep of a move: {} points, of which {kills} kept the run from its end; no leaks",
        points.len()
    );
    assert!(kills > 0);
}
