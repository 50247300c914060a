//! An environment with a marked secret in every place that can hold one, and the search for leaks.

use crate::support::process::{RunToEnd, prepare};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::support::hello::Hello;
use crate::support::island::Island;
use crate::support::{MONOPILE, Run};

/// The mark in every given secret. With it, the search also finds a part of a secret.
const MARK: &str = "cAn4rY";
/// The secret in a disk hint, which the state records.
const HINT: &str = "cAn4rY-hint-secret";

/// The output mode of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum OutputMode {
    Plain,
    Json,
    Terminal,
}

pub(super) const ALL_MODES: [OutputMode; 3] = [OutputMode::Plain, OutputMode::Json, OutputMode::Terminal];

/// The environment that the module describes.
pub(super) struct Canary {
    pub hello: Hello,
    /// The output of all runs so far.
    outputs: Vec<(String, String)>,
    /// The number of outputs that were searched. Later runs cannot change them.
    searched_outputs: usize,
    /// Files that may contain secrets, because the operator wrote them or because secrets are their purpose.
    secret_files: Vec<PathBuf>,
    /// Secrets without the mark that are not in the vars store.
    unmarked_secrets: Vec<String>,
}

impl Canary {
    pub(super) fn new() -> Canary {
        Canary::of(Hello::new())
    }

    /// Creates an environment under contract v1 whose VM reaches the registry only through an SSH tunnel. The
    /// tunnel's key and the registry's credentials are secrets.
    pub(super) fn far() -> (Canary, Island) {
        let subnet = crate::support::hello::far_subnet();
        let mut canary = Canary::of(Hello::in_subnet(&subnet));
        let world = &canary.hello.world;
        let manifest = world.read("hello/stemcell/stemcell.MF");
        assert!(manifest.contains("api_version: 3\n"));
        world.write("hello/stemcell/stemcell.MF", manifest.replace("api_version: 3\n", ""));
        let mut island = Island::new(world, &subnet);
        island.start_sshd("");
        canary.secret_files.push(world.path("sshd"));
        let port = crate::support::free_port();
        let properties = "/cloud_provider/cpi/properties/registry/port";
        canary.hello.add_ops(
            "far.yml",
            &format!(
                "- {{type: replace, path: {properties}, value: {port}}}\n\
                 - {{type: replace, path: /resource_pools/name=vms/cloud_properties/network_namespace?, \
                 value: {}}}\n",
                island.namespace()
            ),
        );
        canary.hello.add_ops("tunnel.yml", "[]\n");
        canary.set_tunnel_key(&island, "key");
        (canary, island)
    }

    /// Sets this key of the island as the tunnel's key in the manifest.
    pub(super) fn set_tunnel_key(&mut self, island: &Island, key: &str) {
        let key = std::fs::read_to_string(island.file(key)).unwrap();
        let user = prepare("id").arg("-un").run_to_end().stdout;
        let tunnel = serde_json::json!({
            "host": island.ip(), "port": 22, "user": String::from_utf8(user).unwrap().trim(),
            "private_key": key,
        });
        let ops =
            serde_json::json!([{"type": "replace", "path": "/cloud_provider/ssh_tunnel?", "value": tunnel}]);
        self.write("tunnel.yml", &ops.to_string());
        let lines = key.lines().filter(|line| line.len() > 16 && !line.starts_with("-----"));
        self.unmarked_secrets.extend(lines.map(str::to_owned));
    }

    /// Adds a marked secret at each kind of place: manifest, variables of every source, generated values, and
    /// a job that shows its secrets and fails where the test says.
    fn of(mut hello: Hello) -> Canary {
        let world = &hello.world;
        let leaky = include_str!("leaky").replace("@MONOPILE@", MONOPILE).replace("@HINT@", HINT);
        let leaky = world.write("leaky", leaky);
        std::fs::set_permissions(&leaky, std::fs::Permissions::from_mode(0o755)).unwrap();
        let root = world.path("cloud").display().to_string();
        world.write("creds.yml", format!("given_secret: {MARK}-store-\"given\"\n"));
        world.write("file.secret", format!("{MARK}-first line\n{MARK}-second line\n\n{MARK}-4th\n"));
        world.write("vars.yml", format!("vars_file_secret: {{deep: [{MARK}-vars-file]}}\n"));
        // The job's properties: secrets that it reads and shows, and the point at which it fails.
        let spec = world.read("hello/release/jobs/hello/spec");
        world.write(
            "hello/release/jobs/hello/spec",
            format!("{spec}  secrets:\n    default: []\n  fail:\n    default: nowhere\n"),
        );
        let script = world.read("hello/release/jobs/hello/templates/pre-start.erb");
        let script = format!(
            "{script}\ncat <<'END'\n<%= p('secrets').join(\"\\n\") %>\n<%= JSON.dump(p('secrets')) %>\nEND\n\
             cat /var/vcap/jobs/hello/bin/pre-start >&2\n[ '<%= p('fail') %>' != pre-start ]\n\
             <% if p('fail') == 'template' then raise \"cannot use #{{p('secrets').inspect}}\" end %>\n"
        );
        world.write("hello/release/jobs/hello/templates/pre-start.erb", script);
        let packaging = world.read("hello/release/packages/greeting/packaging");
        world.write(
            "hello/release/packages/greeting/packaging",
            format!("{packaging}\nenv\ncat /var/vcap/bosh/*.json || true\n"),
        );
        hello.add_ops(
            "secrets.yml",
            &format!(
                r#"
- type: replace
  path: /cloud_provider/cpi
  value:
    path: {leaky}
    properties:
      root: {root}
      api_key: "{MARK}-property & <key>"
      list: [{{deep: {MARK}-property-list}}]
      registry: {{host: 127.0.0.1, port: 6901, username: registry, password: {MARK}-registry/1}}
- type: replace
  path: /cloud_provider/ssh_tunnel?
  value: {{host: 127.0.0.1, port: 22, user: vcap, password: "{MARK}-tunnel:pass"}}
- type: replace
  path: /resource_pools/name=vms/env/bosh/password?
  value: $6${MARK}-env-password
- type: replace
  path: /resource_pools/name=vms/cloud_properties/shared_secret?
  value: ((env_secret))
- type: replace
  path: /instance_groups/name=hello/jobs/name=hello/properties/secrets?
  value:
  - ((var_secret))
  - ((file_secret))
  - ((vars_file_secret.deep))
  - ((env_secret))
  - ((given_secret))
  - ((generated_password))
  - ((generated_key.private_key))
  - ((generated_ssh.private_key))
  - ((default_ca.private_key))
- type: replace
  path: /variables/-
  value: {{name: generated_password, type: password}}
- type: replace
  path: /variables/-
  value: {{name: generated_key, type: rsa}}
- type: replace
  path: /variables/-
  value: {{name: generated_ssh, type: ssh}}
"#,
                leaky = leaky.display(),
            ),
        );
        let secret_files =
            ["hello", "leaky", "creds.yml", "file.secret", "vars.yml", "secrets.yml", "cloud", "start"];
        let secret_files = secret_files.iter().map(|name| hello.world.path(name)).collect();
        Canary { hello, outputs: Vec::new(), searched_outputs: 0, secret_files, unmarked_secrets: Vec::new() }
    }

    /// Writes a file with secrets.
    pub(super) fn write(&mut self, name: &str, text: &str) {
        let path = self.hello.world.write(name, text);
        self.secret_files.push(path);
    }

    /// Writes an ops file with secrets, like [`Hello::add_ops`].
    pub(super) fn add_ops(&mut self, name: &str, text: &str) {
        self.hello.add_ops(name, text);
        self.secret_files.push(self.hello.world.path(name));
    }

    /// Describes the environment's CPI in a CPI config with secret properties.
    pub(super) fn with_cpi_config(&mut self) {
        let root = self.hello.world.path("cloud").display().to_string();
        let ip = self.hello.ip();
        let agent = format!("{{mbus: \"https://mbus:((mbus_bootstrap_password))@{ip}:6868\"}}");
        let config = format!(
            r#"
cpis:
- name: other
  type: local
  properties: {{root: {root}-other, unused: "{MARK}-unused"}}
- name: leaky
  type: leaky
  exec_path: leaky
  properties:
    root: {root}
    agent: {agent}
    api_key: "{MARK}-of-cpi & <key>"
    list: [{{deep: {MARK}-of-cpi-list}}]
    variable: ((given_secret))
    certificate: ((generated_key.private_key))
"#
        );
        self.write("cpis.yml", &config);
        self.hello.add_ops(
            "zones.yml",
            "- {type: replace, path: /azs?, value: [{name: z1, cpi: leaky}]}\n\
             - {type: replace, path: /instance_groups/name=hello/azs?, value: [z1]}\n",
        );
    }

    /// Sets the behaviour of the CPI.
    pub(super) fn set_mode(&self, mode: &str) {
        self.hello.world.write("mode", mode);
    }

    /// Runs a command with maximum verbosity.
    pub(super) fn run(&mut self, command: &str, extra_args: &[&str], output_mode: OutputMode) -> Run {
        let mut options =
            vec!["--verbose", "--verbose", "--verbose", "--vars-env", "SECRET", "-l", "vars.yml"];
        let file = "file_secret=file.secret".to_owned();
        let var = format!("var_secret={MARK}-var \"quoted\" & p@ss/wörd'%+\\");
        let mbus = format!("mbus_bootstrap_password={MARK}-mb%40us");
        options.extend(["--var-file", &file, "-v", &var, "-v", &mbus]);
        options.extend((output_mode == OutputMode::Json).then_some("--json"));
        // No operator confirms the prompt.
        options.extend((output_mode == OutputMode::Terminal && command == "create-env").then_some("-n"));
        options.extend(extra_args);
        let program = self.hello.command(command, &options);
        let run = match output_mode {
            OutputMode::Terminal => self.run_on_terminal(&program),
            _ => {
                let mut program = program;
                make_noisy(&mut program);
                self.hello.world.finish(program)
            }
        };
        let name = format!("{command} {extra_args:?} {output_mode:?}");
        self.outputs.push((format!("standard output of {name}"), run.stdout.clone()));
        self.outputs.push((format!("standard error of {name}"), run.stderr.clone()));
        run
    }

    fn run_on_terminal(&self, program: &Command) -> Run {
        let words: Vec<String> = std::iter::once(program.get_program())
            .chain(program.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''")))
            .collect();
        self.hello.world.write("start", format!("#!/bin/sh\nexec {}\n", words.join(" ")));
        let mut script = prepare("script");
        self.hello.world.enter(&mut script).env("TERM", "xterm");
        make_noisy(&mut script);
        script.args(["--quiet", "--return", "--command", "sh ./start", "/dev/null"]);
        self.hello.world.finish(script)
    }

    /// Returns the values that must not be shown: the mark, and generated values.
    fn secrets(&self) -> BTreeSet<String> {
        let mut secrets = BTreeSet::from([MARK.to_owned()]);
        secrets.extend(self.unmarked_secrets.iter().cloned());
        let store: serde_json::Value = serde_yaml::from_str(&self.hello.world.read("creds.yml")).unwrap();
        for (name, value) in store.as_object().unwrap() {
            match value {
                serde_json::Value::String(text) if name != "given_secret" => {
                    secrets.insert(text.clone());
                }
                serde_json::Value::Object(parts) => {
                    let key = parts["private_key"].as_str().unwrap();
                    let lines = key.lines().filter(|line| line.len() > 16 && !line.starts_with("-----"));
                    secrets.extend(lines.map(str::to_owned));
                }
                _ => {}
            }
        }
        assert!(secrets.len() > 50, "{}", secrets.len());
        secrets
    }

    /// Checks new output and remaining files for secrets in any spelling, and for files that others can read.
    /// Files whose names contain one of `secret_names` may hold secrets if their directories are private.
    #[track_caller]
    pub(super) fn check(&mut self, secret_names: &[&str]) {
        let secrets = self.secrets();
        let spellings: Vec<(String, &str)> = secrets
            .iter()
            .flat_map(|secret| spellings(secret).into_iter().map(move |spelling| (spelling, secret.as_str())))
            .collect();
        let mut leaks = Vec::new();
        for (name, text) in &self.outputs[self.searched_outputs..] {
            leaks.extend(search(name, text, &spellings));
        }
        self.searched_outputs = self.outputs.len();
        let mut file_count = 0;
        for entry in walkdir::WalkDir::new(self.hello.world.root()) {
            let Ok(entry) = entry else { continue };
            let path = entry.path();
            if self.secret_files.iter().any(|file| path.starts_with(file)) || entry.file_type().is_symlink() {
                continue;
            }
            let name = path.strip_prefix(self.hello.world.root()).unwrap().display().to_string();
            let mode = std::fs::symlink_metadata(path).map_or(0, |meta| meta.permissions().mode() & 0o777);
            leaks.extend(open_door(&name, entry.file_type().is_dir(), mode));
            if !entry.file_type().is_file() {
                continue;
            }
            file_count += 1;
            let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
            let text = if name.contains("state.json") { text.replace(HINT, "") } else { text };
            if secret_names.iter().any(|secret_name| name.contains(secret_name)) {
                if mode & 0o077 != 0 && !is_closed(path, self.hello.world.root()) {
                    leaks.push(format!("{name} has mode {mode:o}, and no directory above it is closed"));
                }
            } else {
                leaks.extend(search(&name, &text, &spellings));
            }
        }
        assert!(file_count > 0);
        assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
        let mode = self.hello.world.path("creds.yml").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "creds.yml");
    }

    /// Generates the vars store, so that there are secrets to search for.
    pub(super) fn generate(&mut self) {
        self.set_mode("error info");
        self.run("create-env", &[], OutputMode::Plain).exits_with(1);
        self.outputs.clear();
        self.searched_outputs = 0;
        self.set_mode("");
    }

    /// Returns all output so far.
    pub(super) fn all_output(&self) -> String {
        self.outputs.iter().map(|(name, text)| format!("{name}:\n{text}\n")).collect()
    }

    /// Checks that something was redacted. Otherwise a check could pass for lack of output.
    #[track_caller]
    pub(super) fn assert_hid_something(&self) {
        let count: usize = self.outputs.iter().map(|(_, text)| text.matches("<redacted>").count()).sum();
        assert!(count > 0, "nothing was redacted");
    }
}

fn make_noisy(command: &mut Command) {
    command.env("BOSH_LOG_LEVEL", "debug").env("SECRET_env_secret", format!("{MARK}-env"));
}

/// Checks that the state, the journal, the logs and scratch directories are private.
fn open_door(name: &str, is_dir: bool, mode: u32) -> Option<String> {
    let must_be_private =
        name.contains("state.json") || name.contains("/logs") || name.contains("tmp/monopile-");
    let is_closed_above = name.contains("tmp/monopile-") && name.matches('/').count() > 1;
    let allowed_mode = if is_dir { 0o700 } else { 0o600 };
    (must_be_private && !is_closed_above && mode & 0o077 != 0)
        .then(|| format!("{name} has mode {mode:o}, not {allowed_mode:o}"))
}

fn is_closed(path: &Path, root: &Path) -> bool {
    path.ancestors().skip(1).take_while(|directory| directory.starts_with(root)).any(|directory| {
        directory != root && directory.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o077 == 0)
    })
}

fn search(name: &str, text: &str, spellings: &[(String, &str)]) -> Vec<String> {
    let mut leaks = Vec::new();
    for (spelling, secret) in spellings {
        if let Some(position) = memchr::memmem::find(text.as_bytes(), spelling.as_bytes()) {
            let start = text.floor_char_boundary(position.saturating_sub(80));
            let end = text.ceil_char_boundary((position + spelling.len() + 60).min(text.len()));
            leaks.push(format!("{name}: '{secret}' as '{spelling}' in: {}", text[start..end].escape_debug()));
        }
    }
    leaks.truncate(3);
    leaks
}

/// Returns the secret unchanged, percent-encoded, and in base64 at the three alignments.
fn spellings(secret: &str) -> Vec<String> {
    let mut spellings = vec![secret.to_owned()];
    let percent: String = secret
        .bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    spellings.push(percent);
    for offset in 0..3 {
        let text = [&b"xxx"[..offset], secret.as_bytes()].concat();
        let length = text.len() * 8 / 6;
        for base64 in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
            spellings.push(base64[(offset * 8).div_ceil(6)..length].to_owned());
        }
    }
    spellings
}
