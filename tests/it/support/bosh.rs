//! The hello environment for a `bosh` binary, with releases as tarballs and a CPI from a release.

use std::path::Path;
use std::process::Command;

use super::hello::Hello;
use super::process::prepare;
use super::tarballs::{JobTarball, ReleaseTarball};

/// Changes an environment so that `bosh` can deploy it, with one idle job and this program as the CPI.
pub(crate) fn adapt_for_bosh(hello: &mut Hello, cpi: &Path) {
    let mut idle = JobTarball::new("idle")
        .template("config.erb", "config/file", "<%= spec.ip %>\n")
        .spec("packages: []\n");
    idle.monit = String::new();
    let idle = ReleaseTarball::new("idle", "1").job(idle).write(&hello.world.path("idle.tgz"));
    let exec = format!("#!/bin/bash\nexec '{}'\n", cpi.display());
    let mut job = JobTarball::new("exec_cpi").template("cpi.erb", "bin/cpi", &exec).spec("packages: []\n");
    job.monit = String::new();
    let release = ReleaseTarball::new("exec-cpi", "1").job(job).write(&hello.world.path("exec-cpi.tgz"));
    hello.add_ops(
        "bosh.yml",
        &format!(
            "- {{type: remove, path: /cloud_provider/cpi}}\n\
             - {{type: replace, path: '/cloud_provider/template?', value: {{name: exec_cpi, release: \
             exec-cpi}}}}\n\
             - {{type: replace, path: /releases/name=hello, value: {{name: idle, url: 'file://{}'}}}}\n\
             - {{type: replace, path: /releases/-, value: {{name: exec-cpi, url: 'file://{}'}}}}\n\
             - {{type: replace, path: /instance_groups/name=hello/jobs, value: [{{name: idle, release: idle, \
             properties: {{}}}}]}}\n\
             - {{type: replace, path: '/instance_groups/name=hello/properties?', value: {{}}}}\n\
             - {{type: replace, path: '/properties?', value: {{}}}}\n",
            idle.display(),
            release.display()
        ),
    );
}

/// Returns a command of `bosh` on this environment.
pub(crate) fn command(bosh: &Path, hello: &Hello, command: &str) -> Command {
    // `bosh` has the same options.
    let ours = hello.builtin_command(&[command], &[]);
    let mut theirs = prepare(bosh);
    hello.world.enter(&mut theirs).arg("-n").args(ours.get_args());
    theirs
}
