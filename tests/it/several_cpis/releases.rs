//! CPIs whose type is a job of a release.

use std::collections::BTreeSet;

use super::assert_output_contains;
use crate::cpi_release::setup::{Env, Machine, cpi_job};

/// Returns an environment without a disk, with three zones, whose release contains two types of CPI.
fn env(machine: &Machine) -> Env {
    let release = machine.release().job(cpi_job("second_cpi"));
    let mut env = Env::new(machine, &release);
    let root = |name: &str| env.hello.world.path(name).display().to_string();
    env.hello.world.write(
        "cpis.yml",
        format!(
            "cpis:\n- {{name: one, type: test, properties: {{root: {}}}}}\n\
             - {{name: two, type: test, properties: {{root: {}}}}}\n\
             - {{name: three, type: second, properties: {{root: {}}}}}\n",
            root("one"),
            root("two"),
            root("three")
        ),
    );
    env.hello.add_ops(
        "zones.yml",
        "- type: replace\n  path: /azs?\n  value:\n  - {name: z1, cpi: one}\n  - {name: z2, cpi: two}\n  \
         - {name: z3, cpi: three}\n  - {name: z0}\n\
         - {type: replace, path: /instance_groups/name=hello/azs?, value: [((az))]}\n\
         - {type: remove, path: /instance_groups/name=hello/persistent_disk_pool}\n",
    );
    env.options.extend(["--cpi-config".to_owned(), "cpis.yml".to_owned()]);
    env
}

fn vms(env: &Env, cloud: &str) -> usize {
    std::fs::read_dir(env.hello.world.path(cloud).join("vms")).into_iter().flatten().count()
}

#[test]
fn cpis_of_one_release_share_packages_but_not_jobs() {
    let machine = Machine::new();
    let mut env = env(&machine);
    // The release provides both types. The first one is the default CPI.
    env.set_templates("[{name: test_cpi, release: test-cpi}, {name: second_cpi, release: test-cpi}]");
    for (az, cloud) in [("z1", "one"), ("z2", "two"), ("z3", "three"), ("z0", "cloud")] {
        env.create(&["-v", &format!("az={az}")]).success();
        let vm_counts = ["one", "two", "three", "cloud"].map(|cloud| vms(&env, cloud));
        assert_eq!(vm_counts.iter().sum::<usize>(), 1);
        assert_eq!(vms(&env, cloud), 1, "{vm_counts:?}");
    }
    assert_eq!(machine.compiled_sorted(), ["base", "left", "recorder", "right"]);
    let modes = env.hello.world.read("requests.jsonl.modes");
    let programs: BTreeSet<&str> =
        modes.lines().filter_map(|line| line.split_once("/cpi")).map(|(_, path)| path).collect();
    let jobs: BTreeSet<String> =
        programs.iter().map(|path| path.rsplit('/').nth(2).unwrap().to_owned()).collect();
    assert_eq!(jobs.into_iter().collect::<Vec<_>>(), ["second_cpi", "test_cpi"]);
    assert!(programs.len() >= 4, "each has a jobs directory of its own: {programs:?}");
    assert!(modes.lines().all(|line| line.starts_with("700 600 700 ")), "{modes}");
    // A deletion needs only the CPI's release.
    env.delete(&["-v", "az=z0"]).success();
    assert_eq!(env.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn package_dir_holds_packages_of_all_cpis() {
    let machine = Machine::new();
    let env = env(&machine);
    let packages = env.hello.world.path("packages").display().to_string();
    // The old and the new CPI are in use at once.
    for az in ["az=z1", "az=z3", "az=z0"] {
        env.create(&["--package-dir", &packages, "-v", az]).success();
    }
    assert_eq!(vms(&env, "cloud"), 1);
    env.delete(&["--package-dir", &packages, "-v", "az=z0"]).success();
}

#[test]
fn unrenderable_cpi_job_fails_before_any_effect() {
    let machine = Machine::new();
    let mut env = env(&machine);
    env.hello.add_ops("no-root.yml", "- {type: remove, path: /cloud_provider/properties/recorder}\n");
    let run = env.create(&["-v", "az=z3"]).exits_with(3);
    assert_output_contains(&run, "CPI 'three' of type 'second' cannot be installed");
    assert_output_contains(&run, "recorder.requests");
    assert!(!env.hello.world.exists("state.json"));
}
