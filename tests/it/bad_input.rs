//! Invalid input fails with an error that names the problem and the place, before any call or write.

use std::os::unix::fs::PermissionsExt;

use crate::support::hello::{Hello, release_tarball, tarball_ops};
use crate::support::keys::Certificate;
use crate::support::tarballs::{StemcellTarball, Tar, sha1};
use crate::support::{Run, World};

/// Checks that `create-env` and `plan` reject an input with the same exit code and text, and that nothing was
/// called or written.
#[track_caller]
fn assert_both_refuse(hello: &Hello, extra_args: &[&str], code: i32, expected: &[&str]) {
    let plan = hello.world.finish(hello.command("plan", extra_args));
    assert_eq!(plan.stdout, "", "no plan is shown");
    let create = hello.create(extra_args);
    assert_eq!(
        code_and_error(&plan),
        code_and_error(&create),
        "what `plan` says is not what `create-env` says"
    );
    expect_error(hello, plan, code, expected);
    expect_error(hello, create, code, expected);
}

/// Returns the exit code and the error with its hints at the end, without paths and time of the run.
fn code_and_error(run: &Run) -> (i32, String) {
    let start = run.stderr.find("error: ").unwrap_or_else(|| panic!("no error in:\n{}", run.stderr));
    let lines = run.stderr[start..].lines().filter(|line| !line.starts_with("  log: "));
    let lines = lines.map(|line| match line.split_once("this machine's clock says ") {
        Some((text_before, _)) => format!("{text_before}this machine's clock says …"),
        // A hint may repeat the command line.
        None => line.replace("`monopile plan ", "`monopile create-env "),
    });
    (run.code, lines.collect::<Vec<_>>().join("\n"))
}

/// Checks the exit code and texts of an error, and that nothing was called or written.
#[track_caller]
fn expect_error(hello: &Hello, run: Run, code: i32, expected: &[&str]) {
    let run = run.exits_with(code);
    for text in expected {
        assert!(run.stderr.contains(text), "`{text}` is not in:\n{}", run.stderr);
    }
    assert!(hello.take_requests().is_empty(), "the CPI was called");
    assert_untouched(hello);
}

#[track_caller]
fn assert_untouched(hello: &Hello) {
    for file in ["state.json", "state.json.lock", "state.json.journal"] {
        assert!(!hello.world.exists(file), "{file} was left behind");
    }
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Returns the example with one text of its manifest replaced.
fn hello_with(original: &str, replacement: &str) -> Hello {
    let hello = Hello::without_vars_store();
    let manifest = hello.world.read("hello/manifest.yml");
    assert!(manifest.contains(original), "the example has no `{original}`");
    hello.world.write("hello/manifest.yml", manifest.replacen(original, replacement, 1));
    hello
}

/// A network whose addresses the IaaS assigns.
const DYNAMIC_NETWORK_OPS: &str = "\
    - {type: replace, path: /networks/0, value: {name: default, type: dynamic}}\n\
    - {type: replace, path: /instance_groups/0/networks/0, value: {name: default}}\n";

#[test]
fn rejects_invalid_manifests() {
    for (original, replacement, expected) in [
        ("name: hello\n", "name: hello\n  oops: [\n", &["hello/manifest.yml:", ":"][..]),
        ("release: hello", "release: helo", &["'helo'", "did you mean 'hello'?"]),
        ("  jobs:\n  - name: hello", "  jobs:\n  - name: helo", &["no job 'helo'", "did you mean 'hello'?"]),
        ("resource_pool: vms", "resource_pool: vm", &["resource pool 'vm'", "did you mean 'vms'?"]),
        ("persistent_disk_pool: disks", "persistent_disk_pool: disk", &["'disk'", "did you mean 'disks'?"]),
        (
            "url: file://release",
            "url: file://release\n  sha1: 12345678901234567890123456789012345678e1",
            &["`releases[0].sha1` must be in quotes"],
        ),
        ("disk_size: 1024", "disk_size: 0", &["`disk_pools[0].disk_size` must be at least 1"]),
        ("disk_size: 1024", "disk_size: lots", &["must be a whole number of MiB, such as 1024, not 'lots'"]),
        ("instances: 1", "instances: 2", &["must have `instances: 1`, not 2"]),
        (
            "type: manual",
            "type: manul",
            &["must be 'manual', 'dynamic' or 'vip', not 'manul'", "did you mean 'manual'?"],
        ),
        ("cloud_properties: {}", "cloud_properties: {1: 2}", &["the key has the type integer"]),
        ("file://release", "file://nowhere", &["nowhere"]),
        (
            "port: 8580",
            "port: ((a)) ((b.c))",
            &["2 variables have no value", "((a))", "((b))", "manifest.yml:54:13"],
        ),
    ] {
        let hello = hello_with(original, replacement);
        // The ops file that relocates the example would itself fail on some of these.
        hello.world.write("hello/elsewhere.yml", "[]\n");
        let subnet = hello.ip().strip_suffix('2').unwrap();
        hello
            .world
            .write("hello/manifest.yml", hello.world.read("hello/manifest.yml").replace("127.0.10.", subnet));
        assert_both_refuse(&hello, &[], 3, expected);
    }
}

#[test]
fn several_problems_are_reported_at_once() {
    let hello = hello_with("disk_size: 1024", "disk_size: 0");
    let manifest =
        hello.world.read("hello/manifest.yml").replace("resource_pool: vms", "resource_pool: nope");
    hello.world.write("hello/manifest.yml", manifest);
    assert_both_refuse(&hello, &[], 3, &["2 problems", "disk_pools[0]", "instance_groups[0]"]);
}

#[test]
fn other_yaml_is_not_to_be_completed() {
    let hello = Hello::new();
    hello.world.write("spec.yml", "name: hello\ntemplates: {ctl.erb: bin/ctl}\n");
    let hint = "hint: if this file is not the manifest, name the one that has `instance_groups` and";
    for command in ["create-env", "plan", "cpis"] {
        let run = hello.world.run([command, "spec.yml", "--state", "state.json"]);
        expect_error(&hello, run, 3, &["needs a `cloud_provider`", hint]);
    }
}

#[test]
fn rejects_missing_files() {
    let hello = Hello::new();
    let run = hello.world.run(["create-env", "nowhere.yml", "--state", "state.json"]);
    expect_error(&hello, run, 3, &["nowhere.yml", "does not exist"]);
    assert_both_refuse(&hello, &["-o", "nope.yml"], 3, &["nope.yml"]);
    assert_both_refuse(&hello, &["-l", "nope.yml"], 3, &["nope.yml"]);
    expect_error(&hello, hello.delete(&[]), 3, &["there is no state", "--state"]);
    let run = hello.world.run(["create-env", "hello/manifest.yml", "--state", "no/such/dir/state.json"]);
    expect_error(&hello, run, 3, &["no/such/dir", "does not exist"]);
}

#[test]
fn rejects_damaged_state_files() {
    for (text, expected) in [
        ("", "the file is empty"),
        ("{\"director_id\": \"d\", \"disks\": [{}]}", "`id` is missing"),
        ("{\"director_id\": \"d\", \"disks\": [{\"id\": \"a\", \"cid\": \"\", \"size\": 1}]}", "has no CID"),
        ("{\"director_id\": \"d\", \"current_disk_id\": \"x\"}", "no disk has that id"),
        ("{\"director_id\": \"d\", \"monopile\": {\"format\": 3}}", "reads formats up to 2"),
        (
            "{\"director_id\": \"d\", \"Current_VM_CID\": \"vm-1\"}",
            "it has the key 'Current_VM_CID', which must be 'current_vm_cid'",
        ),
        ("{\"Director_ID\": \"d\"}", "it has the key 'Director_ID', which must be 'director_id'"),
        (
            "{\"director_id\": \"d\", \"disks\": [{\"id\": \"a\", \"CID\": \"x\", \"size\": 1}]}",
            "it has the key 'CID', which must be 'cid'",
        ),
    ] {
        let hello = Hello::new();
        hello.world.write("state.json", text);
        for run in [hello.create(&[]), hello.delete(&[]), hello.world.finish(hello.command("plan", &[]))] {
            let run = run.exits_with(3);
            assert!(run.stderr.contains(expected), "{text}: {}", run.stderr);
        }
        assert_eq!(hello.world.read("state.json"), text, "the state was changed");
        assert!(hello.take_requests().is_empty());
    }
}

#[test]
fn rejects_damaged_stemcells() {
    let good = || StemcellTarball::default();
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    for (bytes, sha, expected) in [
        (StemcellTarball { has_manifest: false, ..good() }.build(), None, &["no stemcell.MF"][..]),
        (StemcellTarball { image: None, ..good() }.build(), None, &["no image"]),
        (
            StemcellTarball { api_version: Some("two".into()), ..good() }.build(),
            None,
            &["api_version", "'two'"],
        ),
        (StemcellTarball { image_sha1: Some("0".repeat(40)), ..good() }.build(), None, &["image", "0000"]),
        (good().build(), Some("1".repeat(40)), &["stemcell.tgz", "1111"]),
        (cut(good().build()), None, &["stemcell.tgz"]),
        (b"no archive at all".to_vec(), None, &["stemcell.tgz"]),
        (
            StemcellTarball { extra: "stemcell_formats: [vsphere-ova]\n".into(), ..good() }.build(),
            None,
            &["local-directory", "vsphere-ova"],
        ),
    ] {
        let mut hello = Hello::new();
        let release = release_tarball(&hello).build();
        hello.world.write("release.tgz", &release);
        hello.world.write("stemcell.tgz", &bytes);
        let sha = sha.unwrap_or_else(|| sha1(&bytes));
        hello.add_ops(
            "tarballs.yml",
            &tarball_ops("../release.tgz", &sha1(&release), "../stemcell.tgz", &sha),
        );
        if expected.contains(&"vsphere-ova") {
            // Only the CPI knows its stemcell formats. It gets no other request.
            let run = hello.create(&[]);
            assert_eq!(Hello::methods(&hello.take_requests()), ["info"]);
            expect_error(&hello, run, 3, expected);
        } else {
            assert_both_refuse(&hello, &[], 3, expected);
        }
    }
}

#[test]
fn rejects_damaged_releases() {
    let zeros = "0".repeat(40);
    type Make<'a> = &'a dyn Fn(&Hello) -> Vec<u8>;
    let cases: [(Make<'_>, &[&str]); 6] = [
        (&|hello| release_tarball(hello).wrong_sha1("job/hello", &zeros).build(), &["job 'hello'", "0000"]),
        (
            &|hello| release_tarball(hello).wrong_sha1("package/counter", &zeros).build(),
            &["package 'counter'", "0000"],
        ),
        (&|_| Tar::default().file("other", "").tgz(), &["no release.MF"]),
        (
            &|hello| {
                let bytes = release_tarball(hello).build();
                bytes[..bytes.len() - 20].to_vec()
            },
            &["release.tgz"],
        ),
        (
            &|hello| {
                let mut release = release_tarball(hello);
                release.name = "other".into();
                release.build()
            },
            &["'other'", "'hello'"],
        ),
        (
            &|hello| {
                let mut release = release_tarball(hello);
                let greeting = release.packages.iter_mut().find(|package| package.name == "greeting");
                greeting.unwrap().dependencies.push("counter".into());
                release.build()
            },
            &["dependency cycle: counter -> greeting -> counter"],
        ),
    ];
    for (make, expected) in cases {
        let mut hello = Hello::new();
        let release = make(&hello);
        let stemcell = StemcellTarball::default().build();
        hello.world.write("release.tgz", &release);
        hello.world.write("stemcell.tgz", &stemcell);
        let ops = tarball_ops("../release.tgz", &sha1(&release), "../stemcell.tgz", &sha1(&stemcell));
        hello.add_ops("tarballs.yml", &ops);
        assert_both_refuse(&hello, &[], 3, expected);
    }
    // A local file whose content contradicts the manifest is also rejected, whether it is in the cache or
    // not.
    let mut hello = Hello::new();
    hello.world.write("release.tgz", release_tarball(&hello).build());
    let stemcell = StemcellTarball::default().build();
    hello.world.write("stemcell.tgz", &stemcell);
    hello
        .add_ops("tarballs.yml", &tarball_ops("../release.tgz", &zeros, "../stemcell.tgz", &sha1(&stemcell)));
    for _ in 0..2 {
        assert_both_refuse(&hello, &[], 3, &["release 'hello'", &zeros]);
    }
}

#[test]
fn template_errors_stop_the_run_before_any_effect() {
    let hello = Hello::new();
    hello.world.write("hello/release/jobs/hello/templates/hello.conf.erb", "a\n<%= p('prot') %>\n");
    assert_both_refuse(&hello, &[], 3, &["hello.conf.erb", "prot", "port"]);
    // An unknown address is not blamed for an unrelated error. Before the VM exists, a failure that it may
    // have caused is not an error.
    let mut hello = Hello::new();
    let template = "<%= p('prot') unless spec.address == '127.0.0.1' %>\n";
    hello.world.write("hello/release/jobs/hello/templates/hello.conf.erb", template);
    hello.add_ops("networks.yml", DYNAMIC_NETWORK_OPS);
    assert_both_refuse(&hello, &[], 3, &["hello.conf.erb", "prot", "port"]);
    let template = "<%= raise \"what is #{spec.address}?\" %>\n";
    hello.world.write("hello/release/jobs/hello/templates/hello.conf.erb", template);
    let run = hello.create(&[]).exits_with(3);
    assert!(run.stderr.contains("what is ") && !run.stderr.contains("192.0.2"), "{}", run.stderr);
    assert!(!hello.take_requests().is_empty(), "the VM tells its address");
    hello.delete(&["--skip-drain"]).success();
}

#[test]
fn missing_links_are_errors_only_if_a_template_uses_them() {
    let hello_with_template = |template: &str| {
        let hello = Hello::new();
        let spec = hello.world.read("hello/release/jobs/hello/spec");
        let consumes = "consumes:\n- {name: db, type: postgres}\n";
        hello.world.write("hello/release/jobs/hello/spec", format!("{spec}\n{consumes}"));
        hello.world.write("hello/release/jobs/hello/templates/post-stop.erb", template);
        hello
    };
    let expected = ["job 'hello' needs a link (it consumes 'db' of type 'postgres')", "post-stop.erb:2: "];
    for (mode, ops) in [("native", ""), ("ruby", ""), ("native", DYNAMIC_NETWORK_OPS)] {
        let mut hello = hello_with_template("#!/bin/bash\n# <%= link('db').p('port') %>\n");
        hello.add_ops("networks.yml", ops);
        assert_both_refuse(&hello, &["--renderer", mode], 3, &expected);
        let run = hello.create(&["--renderer", mode]);
        assert!(!run.stderr.contains("raw_properties"), "{}", run.stderr);
    }
    // A template that checks for the link first works without it.
    let hello = hello_with_template("#!/bin/bash\n<% if_link('db') do |db| %><%= db.p('port') %><% end %>\n");
    hello.create(&[]).success();
    hello.delete(&[]).success();
}

#[test]
fn unrunnable_cpis_are_reported() {
    for (content, mode, expected) in [
        (None, 0, &["cannot be run", "correct the path"][..]),
        (Some("#!/bin/sh\n"), 0o644, &["cannot be run", "chmod +x"]),
        (
            Some("#!/no/such/interpreter -x\n"),
            0o755,
            &["cpi.yml:1:", "its interpreter '/no/such/interpreter', named in its first line, is missing"],
        ),
        // The following problems show only when the CPI is called, which `plan` does not do.
        (Some("#!/bin/sh\necho broken >&2\n"), 0o755, &["`info`", "wrote nothing", "broken"]),
        (Some("#!/bin/sh\necho '{\"result\": {'\n"), 0o755, &["`info`", "not one JSON document"]),
        (
            Some("#!/bin/sh\necho '{\"result\": {\"api_version\": \"two\"}}'\n"),
            0o755,
            &["api_version", "two"],
        ),
    ] {
        let mut hello = Hello::new();
        hello.add_ops("cpi.yml", "- {type: replace, path: /cloud_provider/cpi, value: {path: ../own-cpi}}\n");
        if let Some(content) = content {
            let path = hello.world.write("own-cpi", content);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        if content.is_some_and(|content| content.contains("echo")) {
            expect_error(&hello, hello.create(&[]), 1, expected);
        } else {
            assert_both_refuse(&hello, &[], 3, expected);
        }
    }
}

#[test]
fn missing_cpis_are_reported() {
    let template = "template: {name: hello, release: hello}";
    for (cloud_provider, expected) in [
        (
            "cpi: {builtin: lokal}",
            &["cpi.yml:2:", ": there is no built-in CPI 'lokal'", "did you mean 'local'?"][..],
        ),
        ("cpi: {builtin: openstack}", &["no built-in CPI 'openstack'", "local, ironic"]),
        ("cpi: {path: ../hello}", &["cannot be run", "it is a directory"]),
        ("cpi: {exec: ../hello}", &["cpi.yml:2:", "unknown key 'exec'", "did you mean 'path'?"]),
        ("cpi: {biultin: local}", &["cpi.yml:2:", "unknown key 'biultin'", "did you mean 'builtin'?"]),
        (template, &["no job of `cloud_provider` has the template `bin/cpi`", "hello"]),
        ("template: {name: helo, release: hello}", &["no job 'helo'", "did you mean 'hello'?"]),
    ] {
        let mut hello = Hello::new();
        let (key, value) = cloud_provider.split_once(": ").unwrap();
        let ops = "- {type: remove, path: /cloud_provider/cpi}\n";
        hello.add_ops(
            "cpi.yml",
            &format!("{ops}- {{type: replace, path: /cloud_provider/{key}?, value: {value}}}\n"),
        );
        assert_both_refuse(&hello, &[], 3, expected);
        let plan = hello.world.finish(hello.command("plan", &[]));
        assert!(!plan.stderr.contains("which is ignored"), "{}", plan.stderr);
    }
}

#[test]
fn port_in_use_leaves_no_vm_and_the_next_run_succeeds() {
    let hello = Hello::new();
    let listener = std::net::TcpListener::bind(format!("{}:6868", hello.ip())).unwrap();
    let run = hello.create(&[]).exits_with(1);
    assert!(run.stderr.contains("6868"), "{}", run.stderr);
    assert_eq!(hello.state()["current_vm_cid"], "");
    drop(listener);
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn rejects_unusable_mbus_certificates() {
    const ROTATE: &str = "monopile vars rotate creds.yml mbus_bootstrap_ssl";
    for (host, days, is_trusted, expected) in [
        (
            None,
            (-20, -10),
            true,
            &["`resource_pools[].env.bosh.mbus.cert`) expired on ", ROTATE, "clock"][..],
        ),
        (None, (10, 20), true, &["is not valid before ", ROTATE, "clock"]),
        (None, (-1, 20), false, &["is not signed by `cloud_provider.cert.ca`", ROTATE]),
        (
            Some("192.0.2.9"),
            (-1, 20),
            true,
            &[
                "the host of `cloud_provider.mbus`: it is for 192.0.2.9\n",
                "the certificate is older than the manifest: `",
                ROTATE,
            ],
        ),
        (Some("agent.lan"), (-1, 20), true, &["it is for agent.lan\n"]),
    ] {
        let hello = Hello::new();
        hello.write_vars_store(&Certificate { host: host.unwrap_or(hello.ip()), days, is_trusted });
        assert_both_refuse(&hello, &[], 3, expected);
    }
    // A certificate that is in no vars store has no variable to rotate.
    let mut hello = Hello::new();
    hello.write_vars_store(&Certificate { host: hello.ip(), days: (-20, -10), is_trusted: true });
    hello.world.write("vars.yml", hello.world.read("creds.yml"));
    std::fs::remove_file(hello.world.path("creds.yml")).unwrap();
    hello.add_ops("none.yml", "- {type: remove, path: /variables}\n");
    let expected = ["expired on ", "put a new certificate into variable 'mbus_bootstrap_ssl' ('vars.yml')"];
    assert_both_refuse(&hello, &["-l", "vars.yml"], 3, &expected);
}

#[test]
fn private_key_that_the_agent_cannot_use_is_refused() {
    let hello = Hello::new();
    hello.world.write("creds.yml", hello.world.read("creds.yml").replace("PRIVATE KEY-", "KEY-"));
    let expected = [
        "the private key of the agent's certificate (`resource_pools[].env.bosh.mbus.cert`) is refused",
        "there is no private key in PEM form",
        "to generate a certificate and its own key: `monopile vars rotate creds.yml mbus_bootstrap_ssl -m ",
    ];
    assert_both_refuse(&hello, &[], 3, &expected);
}

#[test]
fn mistyped_mbus_host_is_compared_with_the_static_ip() {
    let mut hello = Hello::without_vars_store();
    hello.add_ops(
        "typo.yml",
        "- {type: replace, path: /cloud_provider/mbus, value: \
         'https://mbus:((mbus_bootstrap_password))@192.0.2.9:6868'}\n",
    );
    let first = format!(
        "  hint: the static address of the VM is {}: if '192.0.2.9' is a mistake, correct it in \
         `cloud_provider.mbus` and in `cloud_provider.properties.agent.mbus`\n  hint: if '192.0.2.9' is \
         right, add it to the `alternative_names` of variable 'mbus_bootstrap_ssl'",
        hello.ip()
    );
    for command in ["plan", "create-env"] {
        let run = hello.world.finish(hello.command(command, &[])).exits_with(3);
        assert!(run.stderr.contains(&first), "{command}: {}", run.stderr);
        assert!(!run.stderr.contains("another environment"), "{command}: {}", run.stderr);
    }
    assert!(hello.take_requests().is_empty(), "the CPI was called");
}

#[test]
fn broken_ca_is_named_with_its_variable() {
    let mut hello = Hello::new();
    let bad_creds = hello.world.read("creds.yml").replace("-BEGIN CERTIFICATE-", "-BEGIN CERT-");
    hello.world.write("creds.yml", &bad_creds);
    let expected = [
        "the agent's certificate cannot be verified\n  cause: `cloud_provider.cert.ca` has no certificate",
        "note: the value is that of variable 'mbus_bootstrap_ssl' ('creds.yml')\n",
        "generate a new value: `monopile vars rotate creds.yml mbus_bootstrap_ssl -m hello/manifest.yml",
    ];
    assert_both_refuse(&hello, &[], 3, &expected);
    hello.world.write("vars.yml", &bad_creds);
    std::fs::remove_file(hello.world.path("creds.yml")).unwrap();
    hello.add_ops("none.yml", "- {type: remove, path: /variables}\n");
    let expected = [
        "note: the value is that of variable 'mbus_bootstrap_ssl' ('vars.yml')\n",
        "hint: correct the value of this variable\n",
    ];
    assert_both_refuse(&hello, &["-l", "vars.yml"], 3, &expected);
}

/// Runs the command of each hint, after which the value can be used.
#[test]
fn damaged_value_is_named_with_its_variable_and_vars_store() {
    let hello = Hello::new();
    let good: serde_yaml::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let mut authority = good["default_ca"].clone();
    authority["ca"] = good["default_ca"]["certificate"].clone();
    for (name, value, expected) in [
        ("mbus_bootstrap_ssl", "abc".into(), "`cloud_provider.cert` must be a mapping, not a string"),
        ("mbus_bootstrap_password", serde_yaml::from_str("{a: 1}").unwrap(), "only strings and integers"),
        (
            "mbus_bootstrap_ssl",
            serde_yaml::from_str("{certificate: x}").unwrap(),
            "`cloud_provider.cert.ca` is missing",
        ),
        // The declaration has no `is_ca`.
        ("mbus_bootstrap_ssl", authority, "hint: to generate a server certificate (not that of a CA): `"),
    ] {
        let mut damaged_state = good.clone();
        damaged_state[name] = value;
        hello.world.write("creds.yml", serde_yaml::to_string(&damaged_state).unwrap());
        let run = hello.world.finish(hello.command("plan", &[])).exits_with(3);
        let note = format!("note: the value is that of variable '{name}' ('creds.yml')\n");
        assert!(run.stderr.contains(expected), "{expected}: {}", run.stderr);
        assert!(expected.starts_with("hint: ") || run.stderr.contains(&note), "{}", run.stderr);
        assert!(!run.stderr.contains("--insecure-agent"), "{}", run.stderr);
        let rotate = format!("monopile vars rotate creds.yml {name} -m hello/manifest.yml");
        let command = run.stderr.split('`').find(|part| part.starts_with(&rotate)).expect("a command");
        hello.world.run(command.split(' ').skip(1)).success();
        hello.world.finish(hello.command("plan", &[])).success();
    }
    assert!(hello.take_requests().is_empty(), "the CPI was called");
}

#[test]
fn refused_mbus_certificate_keeps_the_vm() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let state = hello.world.read("state.json");
    assert!(!hello.take_requests().is_empty());
    // The address differs from the recorded one, as without the ops files of the deploy.
    hello.world.write(
        "moved.yml",
        "- {type: replace, path: /cloud_provider/mbus, value: 'https://mbus:x@192.0.2.9:6868'}\n",
    );
    let run = hello.world.finish(hello.command("plan", &["-o", "moved.yml"])).exits_with(3);
    for line in [
        format!(
            "note: the recorded address of the VM is {}, but `cloud_provider.mbus` has 192.0.2.9\n",
            hello.ip()
        ),
        "hint: pass the same --state, --vars-store, ops files and variables as for the last create-env, or \
         correct the host in `cloud_provider.mbus`\n"
            .to_owned(),
        "hint: if '192.0.2.9' is right, add it to the `alternative_names` of variable \
         'mbus_bootstrap_ssl', then: `"
            .to_owned(),
        format!("hint: the static address of the VM is {}: if '192.0.2.9' is a mistake, ", hello.ip()),
    ] {
        assert!(run.stderr.contains(&line), "{}", run.stderr);
    }
    // The certificate of another environment must not be replaced.
    hello.world.write("renamed.yml", "- {type: replace, path: /name, value: other}\n");
    let options = ["-o", "moved.yml", "-o", "renamed.yml"];
    let other = hello.world.finish(hello.command("plan", &options)).exits_with(3);
    for text in ["this state records 'hello' at ", "they may be of two environments"] {
        assert!(other.stderr.contains(text), "{text}: {}", other.stderr);
    }
    assert!(!other.stderr.contains("vars rotate"), "{}", other.stderr);
    hello.write_vars_store(&Certificate { host: hello.ip(), days: (-20, -10), is_trusted: true });
    for extra_args in [&[][..], &["--recreate"]] {
        let run = hello.create(extra_args).exits_with(3);
        assert!(run.stderr.contains("expired on"), "{}", run.stderr);
    }
    assert_eq!(hello.world.read("state.json"), state);
    assert!(hello.take_requests().is_empty(), "the CPI was called");
    assert_eq!(hello.ask_counter(), 1, "the VM is still there");
    // The command in the hint solves the problem.
    hello.world.run(["vars", "rotate", "creds.yml", "mbus_bootstrap_ssl"]).success();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 2);
    hello.delete(&[]).success();
}

#[test]
fn mistakes_are_named_where_they_are() {
    let world = World::new();
    for (text, expected) in [
        ("name hello\nreleases:\n- name: a\n", "y.yml:1:1: this line has no ':' after its key"),
        ("a:\n  b c\n\n  d: e\n", "y.yml:2:3: this line has no ':' after its key"),
        ("a: [b, 'c]'\nd: [e]\n", "y.yml:1:4: the bracket '[' is not closed"),
        ("a: |\n  if [ b\nc: {d: e\nf: g\n", "y.yml:3:4: the bracket '{' is not closed"),
        ("a:\n- [b, c\n- d: 1\n", "y.yml:2:3: the bracket '[' is not closed"),
        ("networks: [\n- name: d\n", "y.yml:1:11: the bracket '[' is not closed"),
        (
            "name: a\nvariables: [{name: a, type: pasword}]\n",
            "there is no variable type 'pasword'\n  hint: did you mean 'password'?\n",
        ),
    ] {
        world.write("y.yml", text);
        let run = world.run(["int", "y.yml", "--vars-store", "s.yml"]).exits_with(3);
        assert!(run.stderr.contains(expected), "{text}: {}", run.stderr);
    }
    world.write("creds.yml", "password: x\n");
    let run = world.run(["vars", "get", "creds.yml", "/pasword"]).exits_with(3);
    assert!(run.stderr.contains("did you mean") && !run.stderr.contains("need not exist"), "{}", run.stderr);
    let run = world.run(["state", "show", "x.yml"]).exits_with(3);
    assert!(run.stderr.starts_with("error: manifest 'x.yml' does not exist"), "{}", run.stderr);
    let run = world.run(["int", "m.yml", "-l", "absent.txt"]).exits_with(3);
    assert!(run.stderr.contains("\n  hint: list the files there: `ls /"), "{}", run.stderr);
    world.write("release/vars.yml", "a: 1\n");
    let run = world.run(["int", "y.yml", "-l", "relase/vars.yml"]).exits_with(3);
    assert!(run.stderr.contains("\n  hint: did you mean 'release/vars.yml'?\n"), "{}", run.stderr);
    // `y.yml` is no manifest.
    let run = world.run(["int", "zzz.yml"]).exits_with(3);
    assert!(run.stderr.contains("\n  hint: ") && !run.stderr.contains("'y.yml'"), "{run:?}");
    world.write("other.yml", "name: a\ninstance_groups: []\n");
    let run = world.run(["int", "zzz.yml"]).exits_with(3);
    assert!(run.stderr.contains("\n  hint: did you mean 'other.yml'?\n"), "{run:?}");
    let run = world.run(["int", "https://x/y.yml"]).exits_with(3);
    assert!(run.stderr.contains("hint: download it first: `curl -LO https://x/y.yml`"), "{}", run.stderr);
    world.write("o p.yml", "- {type: replace, path: /a, value: ((b))}\n");
    for (words, code, expected) in [
        (
            &["o p.yml"][..],
            3,
            "'o p.yml' is an ops file, not a manifest\n  hint: name the manifest, and pass this file with \
             `-o 'o p.yml'`",
        ),
        (&["o p.yml", "-o", "o p.yml"], 3, "'o p.yml' is an ops file, not a manifest"),
        (&["y.yml", "-l", "o p.yml"], 3, "hint: pass it as an ops file: `-o 'o p.yml'`"),
        (
            &["y.yml", "--state", "."],
            3,
            "error: '.' (--state) is a directory\n  hint: list the files in it: `ls .`",
        ),
        (&["y.yml", "--state", "s3:/x"], 2, "  hint: write s3://x/KEY\n"),
    ] {
        let run = world.run([&["create-env"], words].concat()).exits_with(code);
        assert!(run.stderr.contains(expected), "{words:?}: {}", run.stderr);
    }
    world.run(["int", "o p.yml"]).success();
    let run = world.run(["int", "y.yml", "--encrypt-to", "age1xyz"]).exits_with(2);
    let expected = "error: 'age1xyz' (--encrypt-to, MONOPILE_ENCRYPT_TO) is not an age recipient\n  hint: \
                    name a public key";
    assert!(run.stderr.starts_with(expected), "{}", run.stderr);
}
