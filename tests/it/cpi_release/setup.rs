//! A CPI release whose CPI records each request and passes it to the built-in CPI, and environments that use
//! it.

use std::path::{Path, PathBuf};

use crate::support::hello::Hello;
use crate::support::process::wait_until;
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball};
use crate::support::{MONOPILE, Run};

/// The shared directory of packaging scripts and caches. Two environments may use the same one.
pub(crate) struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine { directory: crate::support::create_directory() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the packages whose scripts ran, in order.
    pub(crate) fn compiled_packages(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("compiled")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the script of a package runs.
    pub(crate) fn wait_for(&self, name: &str) {
        wait_until(&format!("the script of {name} runs"), || {
            self.compiled_packages().iter().any(|package| package == name)
        });
    }

    /// Returns the compiled packages in alphabetical order.
    pub(crate) fn compiled_sorted(&self) -> Vec<String> {
        let mut names = self.compiled_packages();
        names.sort();
        names
    }

    /// Returns a package whose script records its run.
    pub(crate) fn package(&self, name: &str, dependencies: &[&str], script: &str) -> PackageTarball {
        let packaging = format!("set -e\necho {name} >> {}\n{script}\n", self.path("compiled").display());
        PackageTarball::new(name, &packaging, dependencies)
    }

    /// Returns the release: `recorder` needs `left` and `right`, which need `base`.
    pub(crate) fn release(&self) -> ReleaseTarball {
        let side = |name: &str| {
            self.package(
                name,
                &["base"],
                &format!("echo {name} of $(cat $BOSH_PACKAGES_DIR/base/share) > $BOSH_INSTALL_TARGET/share"),
            )
        };
        ReleaseTarball::new("test-cpi", "7")
            .job(cpi_job("test_cpi"))
            .package(self.recorder())
            .package(side("left"))
            .package(side("right"))
            .package(
                self.package("base", &[], "[ $PWD = $BOSH_COMPILE_TARGET ]\ncp share $BOSH_INSTALL_TARGET/")
                    .file("share", "base\n"),
            )
    }

    /// Returns the package with the program. Like Ruby, it records the compile-time paths of itself and its
    /// dependencies.
    pub(crate) fn recorder(&self) -> PackageTarball {
        let script = format!(
            r#"mkdir ../built $BOSH_INSTALL_TARGET/bin
[ "$BOSH_PACKAGE_NAME" = recorder ] && [ -n "$BOSH_PACKAGE_VERSION" ]
cat > ../built/recorder <<END
#!/bin/bash
set -e
cat $BOSH_PACKAGES_DIR/left/share $BOSH_PACKAGES_DIR/right/share > \$1.shares
[ -x $BOSH_INSTALL_TARGET/bin/recorder ]
request=\$(cat; printf x)
request=\${{request%x}}
printf '%s\n' "\$request" >> \$1
answer=\$(printf '%s' "\$request" | {MONOPILE} cpi-exec local --config \$2)
printf '%s' "\$answer"
printf '{{"request": %s, "answer": %s}}\n' "\$request" "\$answer" >> \$1.calls
END
chmod +x ../built/recorder
mv ../built/recorder $BOSH_INSTALL_TARGET/bin/"#
        );
        self.package("recorder", &["left", "right"], &script)
    }
}

/// Returns the CPI's job.
pub(crate) fn cpi_job(name: &str) -> JobTarball {
    let cpi = r#"#!/bin/bash
packages=${BOSH_PACKAGES_DIR:-/var/vcap/packages}
jobs=${BOSH_JOBS_DIR:-/var/vcap/jobs}
config=$jobs/NAME/config/cpi.json
echo "$(stat -c %a $0) $(stat -c %a $config) $(stat -c %a $jobs) $0" >> <%= p("recorder.requests") %>.modes
exec $packages/recorder/bin/recorder <%= p("recorder.requests") %> $config
"#;
    JobTarball::new(name)
        .spec("packages: [recorder]\n")
        .spec("properties:\n  root: {}\n  agent: {}\n  greeting: {default: none}\n  recorder.requests: {}\n")
        .template("cpi.erb", "bin/cpi", &cpi.replace("NAME", name))
        .template(
            "cpi.json.erb",
            "config/cpi.json",
            r#"<%= JSON.dump({"root" => p("root"), "agent" => p("agent")}) %>"#,
        )
}

/// An environment with a CPI from a release.
pub(crate) struct Env {
    pub hello: Hello,
    cache: PathBuf,
    pub options: Vec<String>,
}

impl Env {
    /// Creates an environment that is not deployed and uses the machine's cache.
    pub(crate) fn new(machine: &Machine, release: &ReleaseTarball) -> Env {
        let mut env = Env { hello: Hello::new(), cache: machine.path("cache"), options: Vec::new() };
        let properties = format!(
            "{{root: {root}, recorder: {{requests: {requests}}}, password: hunter2-of-the-cpi,\
             agent: {{mbus: 'https://mbus:((mbus_bootstrap_password))@((internal_ip)):((mbus_port))'}}}}",
            root = env.hello.world.path("cloud").display(),
            requests = env.hello.world.path("requests.jsonl").display(),
        );
        env.hello.add_ops(
            "cpi.yml",
            &format!(
                "- {{type: remove, path: /cloud_provider/cpi}}\n\
                 - {{type: replace, path: '/cloud_provider/template?', value: {{name: test_cpi, release: \
                 test-cpi}}}}\n\
                 - {{type: replace, path: /cloud_provider/properties, value: {properties}}}\n"
            ),
        );
        env.add_release(release);
        env
    }

    /// Adds a release to the manifest.
    pub(crate) fn add_release(&mut self, release: &ReleaseTarball) {
        let file = format!("{}.tgz", release.name);
        release.write(&self.hello.world.path(&file));
        let name = &release.name;
        let ops = format!(
            "- {{type: replace, path: /releases/-, value: {{name: {name}, url: 'file://../{file}'}}}}\n"
        );
        self.hello.add_ops(&format!("{name}.yml"), &ops);
    }

    /// Replaces the CPI's usual job with these jobs.
    pub(crate) fn set_templates(&mut self, templates: &str) {
        let ops = format!(
            "- {{type: remove, path: /cloud_provider/template}}\n\
             - {{type: replace, path: '/cloud_provider/templates?', value: {templates}}}\n"
        );
        self.hello.add_ops("templates.yml", &ops);
    }

    /// Returns a command with the machine's cache.
    pub(crate) fn command(&self, command: &str, extra_args: &[&str]) -> std::process::Command {
        let options: Vec<&str> =
            self.options.iter().map(String::as_str).chain(extra_args.iter().copied()).collect();
        let mut command = self.hello.command(command, &options);
        command.env("XDG_CACHE_HOME", &self.cache);
        command
    }

    pub(crate) fn create(&self, extra_args: &[&str]) -> Run {
        self.hello.world.finish(self.command("create-env", extra_args))
    }

    pub(crate) fn delete(&self, extra_args: &[&str]) -> Run {
        self.hello.world.finish(self.command("delete-env", &[&["-n"], extra_args].concat()))
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        if std::thread::panicking() && self.hello.world.exists("state.json") {
            let _ = self.delete(&["--skip-drain", "--forget-open-calls"]);
        }
    }
}

/// Returns every file below a directory by its relative path.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => paths.push(entry.path().strip_prefix(root).unwrap().display().to_string()),
            }
        }
    }
    paths.sort();
    paths
}
