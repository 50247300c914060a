//! Several CPIs at once: two built-in `local` ones with their own clouds and stemcell formats, a scripted
//! foreign one of version 1, and the default CPI of `cloud_provider`. Their clouds are directories, so tests
//! can count the effects of each CPI.

mod bad_input;
mod commands;
mod configs;
mod moving;
mod names;
mod operating;
mod releases;
mod routing;
mod types;

use crate::support::process::prepare;
use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::Run;
use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Script};

/// A secret in the CPI config.
const SECRET: &str = "s3cret-of-a-cpi";

/// The hello environment with four clouds.
struct Clouds {
    hello: Hello,
}

impl Clouds {
    /// Creates an environment with a default CPI and three named ones, of which `foreign` is an executable,
    /// and a zone for each.
    fn new() -> Clouds {
        let mut hello = Hello::new();
        let root = |name: &str| hello.world.path(name).display().to_string();
        let (default, ip) = (root("default"), hello.ip().to_owned());
        let west = root("west");
        let entries = format!(
            "- {{name: east, type: local, properties: {{root: {}, key: {SECRET}, stemcell_formats: \
             [local-directory]}}}}\n\
             - {{name: west, type: local, properties: {{root: {west}, stemcell_formats: [local]}}}}\n\
             - name: foreign\n  type: anything\n  exec_path: scripted\n  properties:\n    root: {}\n    key: \
             {SECRET}\n    agent: {{mbus: \"https://mbus:((mbus_bootstrap_password))@{ip}:6868\"}}\n",
            root("east"),
            root("cloud"),
        );
        hello.world.write("cpis.yml", format!("cpis:\n{entries}"));
        hello.add_ops(
            "clouds.yml",
            &format!(
                "- {{type: replace, path: /cloud_provider/cpi, value: {{builtin: local, properties: {{root: \
                 {default}}}}}}}\n\
                 - type: replace\n  path: /azs?\n  value:\n  - {{name: z-east, cpi: east, cloud_properties: \
                 {{zone: e, more: az}}}}\n  - {{name: z-west, cpi: west}}\n  - {{name: z-foreign, cpi: \
                 foreign}}\n  - {{name: z-default}}\n\
                 - {{type: replace, path: /instance_groups/name=hello/azs?, value: [((az))]}}\n\
                 - {{type: replace, path: /disk_pools/name=disks/cloud_properties?, value: {{more: \
                 disk}}}}\n"
            ),
        );
        let clouds = Clouds { hello };
        clouds.hello.set_script(Script::with_info(InfoAnswer::Version(1)));
        // Both kinds of cloud accept it. A test that needs another stemcell replaces it.
        clouds.set_formats("local-directory, local");
        clouds
    }

    /// Sets the stemcell's formats.
    fn set_formats(&self, formats: &str) {
        let path = "hello/stemcell/stemcell.MF";
        let text = self.hello.world.read(path);
        let (text_before, rest) = text.split_once("stemcell_formats:").unwrap();
        let text_after = rest.split_once("cloud_properties:").unwrap().1;
        let text = format!("{text_before}stemcell_formats: [{formats}]\ncloud_properties:{text_after}");
        self.hello.world.write(path, text);
    }

    /// Rewrites the CPI config.
    fn change_config(&self, change: impl Fn(&str) -> String) {
        let text = self.hello.world.read("cpis.yml");
        self.hello.world.write("cpis.yml", change(&text));
    }

    fn command(&self, command: &str, az: &str, extra_args: &[&str]) -> Command {
        let az = format!("az={az}");
        let mut options = vec!["--cpi-config", "cpis.yml", "-v", &az];
        options.extend(extra_args);
        self.hello.command(command, &options)
    }

    fn create(&self, az: &str, extra_args: &[&str]) -> Run {
        self.hello.world.finish(self.command("create-env", az, extra_args))
    }

    fn delete(&self, az: &str) -> Run {
        self.hello.world.finish(self.command("delete-env", az, &["-n"]))
    }

    /// Runs a command on a terminal, and types this answer.
    fn run_on_terminal(&self, command: &Command, answer: &str) -> Run {
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        self.hello.world.write("start", format!("#!/bin/sh\nexec {}\n", words.join(" ")));
        let script_line =
            format!("(sleep 3; echo {answer}) | script --quiet --return --command 'sh ./start' /dev/null");
        let mut script = prepare("sh");
        self.hello.world.enter(&mut script).env("TERM", "xterm").args(["-c", &script_line]);
        self.hello.world.finish(script)
    }

    /// Returns the resources of a kind (`vms`, `disks`, `stemcells`) in a cloud.
    fn resources(&self, cloud: &str, kind: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.hello.world.path(cloud).join(kind)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Returns the numbers of VMs, disks and stemcells in a cloud.
    fn counts(&self, cloud: &str) -> [usize; 3] {
        ["vms", "disks", "stemcells"].map(|kind| self.resources(cloud, kind).len())
    }

    /// Returns the clouds that are not empty.
    fn nonempty(&self) -> Vec<&'static str> {
        let all = ["default", "east", "west", "cloud"].into_iter();
        all.filter(|cloud| self.counts(cloud) != [0, 0, 0]).collect()
    }

    /// Makes a call to the CPI of a cloud without the program. Returns the CID in the answer.
    fn call_cpi_directly(&self, cloud: &str, method: &str, arguments: Value) -> String {
        let ip = self.hello.ip();
        let root = self.hello.world.path(cloud);
        // The address differs from that of the environment's own agent.
        let config = json!({"root": root, "agent": {"mbus": format!("https://unset:unset@{ip}:6899")}});
        self.hello.world.write("local.json", config.to_string());
        let result = self.hello.call(method, arguments);
        let config = config
            .to_string()
            .replace(root.to_str().unwrap(), self.hello.world.path("cloud").to_str().unwrap());
        self.hello.world.write("local.json", config);
        result.as_str().or(result[0].as_str()).unwrap_or_default().to_owned()
    }

    /// Changes the state file.
    fn rewrite_state(&self, change: impl Fn(&mut Value)) {
        let mut state = self.hello.state();
        change(&mut state);
        self.hello.world.write("state.json", state.to_string());
    }
}

/// Returns the complete output of a run.
fn output_of(run: &Run) -> String {
    format!("{}{}", run.stdout, run.stderr)
}

#[track_caller]
fn assert_output_contains(run: &Run, expected: &str) {
    assert!(output_of(run).contains(expected), "{expected} is not in:\n{}", output_of(run));
}

impl Drop for Clouds {
    fn drop(&mut self) {
        // A failed test must not leave a VM behind. The usual deletion lacks the configs.
        if std::thread::panicking() && self.hello.world.exists("state.json") {
            let extra_args = ["-n", "--skip-drain", "--forget-open-calls"];
            let _ = self.hello.world.finish(self.command("delete-env", "z-east", &extra_args));
        }
    }
}
