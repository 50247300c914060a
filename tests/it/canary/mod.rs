//! No secret leaks. Every place that can hold a secret holds a marked one, each step fails in turn with
//! verbose output, and all output and remaining files are searched for the marks.

mod world;

use std::process::Stdio;

use crate::cpi_release::setup::{Env, Machine};
use crate::support::http::{Server, answer};
use crate::support::process::join;
use crate::support::scripted::wait_until;
use crate::support::tarballs::sha1;
use world::{ALL_MODES, Canary, OutputMode};

#[test]
fn successful_lifecycle_shows_no_secret() {
    let mut canary = Canary::new();
    canary.run("create-env", &[], OutputMode::Plain).success();
    canary.check(&[]);
    canary.run("create-env", &["--recreate"], OutputMode::Terminal).success();
    canary.check(&[]);
    canary.run("delete-env", &["-n"], OutputMode::Json).success();
    canary.check(&[]);
    canary.assert_hid_something();
    assert_eq!(canary.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn cpi_config_properties_are_not_shown() {
    let mut canary = Canary::new();
    canary.with_cpi_config();
    let config = ["--cpi-config", "cpis.yml", "--skip-drain"];
    for (mode, output_mode) in [
        ("error info", OutputMode::Plain),
        ("error create_stemcell", OutputMode::Json),
        ("retry create_vm", OutputMode::Terminal),
        ("error attach_disk", OutputMode::Plain),
    ] {
        canary.set_mode(mode);
        let _ = std::fs::remove_file(canary.hello.world.path("retried"));
        canary.run("create-env", &config, output_mode).exits_with(1);
        canary.check(&[]);
    }
    canary.set_mode("");
    canary.run("create-env", &config, OutputMode::Plain).success();
    assert!(canary.hello.world.read("state.json").contains("\"cpi\": \"leaky\""));
    let output = canary.all_output();
    assert!(output.contains("External CPI request"), "{output}");
    // If the file is invalid, its content must not be shown.
    let text = canary.hello.world.read("cpis.yml");
    canary.hello.world.write("cpis.yml", text.replace("type: leaky", "typ: leaky"));
    canary.run("create-env", &config, OutputMode::Plain).exits_with(3);
    canary.hello.world.write("cpis.yml", text.replace("type: leaky", "type: [leaky"));
    canary.run("create-env", &config, OutputMode::Json).exits_with(3);
    canary.check(&[]);
    canary.hello.world.write("cpis.yml", text);
    canary.run("delete-env", &["-n", "--cpi-config", "cpis.yml"], OutputMode::Plain).success();
    canary.check(&[]);
    canary.assert_hid_something();
}

#[test]
fn cpi_errors_show_no_secret() {
    let mut canary = Canary::new();
    for (mode, output_mode) in [
        ("error info", OutputMode::Plain),
        ("error create_stemcell", OutputMode::Json),
        ("retry create_vm", OutputMode::Terminal),
        ("error attach_disk", OutputMode::Plain),
        ("shape attach_disk", OutputMode::Json),
        ("error set_disk_metadata", OutputMode::Plain),
    ] {
        canary.set_mode(mode);
        let _ = std::fs::remove_file(canary.hello.world.path("retried"));
        canary.run("create-env", &["--skip-drain"], output_mode).exits_with(1);
        canary.check(&[]);
    }
    canary.assert_hid_something();
    canary.set_mode("");
    canary.run("delete-env", &["-n", "--skip-drain"], OutputMode::Plain).success();
    canary.check(&[]);
}

#[test]
fn malformed_answers_show_no_secret() {
    for (mode, output_mode) in
        [("garbage create_vm", OutputMode::Plain), ("shape create_vm", OutputMode::Json)]
    {
        let mut canary = Canary::new();
        canary.set_mode(mode);
        canary.run("create-env", &[], output_mode).exits_with(1);
        canary.check(&[]);
        // The next run repeats the problem before it reads the manifest.
        canary.set_mode("");
        for output_mode in ALL_MODES {
            let code = canary.run("create-env", &[], output_mode).code;
            canary.check(&[]);
            if code == 0 {
                break;
            }
        }
        canary.run("delete-env", &["-n", "--forget-open-calls", "--skip-drain"], OutputMode::Plain).success();
        canary.check(&[]);
    }
}

#[test]
fn killed_runs_show_no_secret() {
    let mut canary = Canary::new();
    canary.set_mode("kill create_vm");
    for output_mode in [OutputMode::Plain, OutputMode::Json] {
        canary.run("create-env", &[], output_mode).exits_with(-1);
        // The CPI's own output exists until the next run has read it. The scratch directory exists until a
        // later run removes it. Both are in private directories.
        canary.check(&["state.json.journal/", "tmp/monopile-"]);
    }
    canary.set_mode("");
    canary.run("create-env", &[], OutputMode::Plain).success();
    canary.run("delete-env", &["-n", "--skip-drain"], OutputMode::Plain).success();
    canary.check(&["tmp/monopile-"]);
}

#[test]
fn run_killed_while_generating_a_secret_shows_none() {
    let mut canary = Canary::new();
    for output_mode in ALL_MODES {
        // The disk hint is in the CPI's log before any run knows that it contains credentials.
        canary.set_mode("late attach_disk");
        let run = canary.run("create-env", &["--recreate", "--skip-drain"], output_mode);
        assert!(![0, 1].contains(&run.code), "it was not killed: {run:?}");
        canary.check(&["state.json.journal/", "tmp/monopile-"]);
    }
    canary.set_mode("");
    canary.run("create-env", &["--skip-drain"], OutputMode::Plain).success();
    canary.run("delete-env", &["-n", "--skip-drain"], OutputMode::Plain).success();
    canary.check(&["tmp/monopile-"]);
}

#[test]
fn registry_and_tunnel_show_no_secret() {
    // The registry's content is in the private journal.
    let registry = &["state.json.journal/"][..];
    let (mut canary, mut island) = Canary::far();
    canary.run("create-env", &[], OutputMode::Plain).success();
    canary.check(registry);
    canary.assert_hid_something();
    assert!(canary.hello.state()["monopile"]["vm"]["contract"] == "v1");
    assert!(island.log().contains("Accepted publickey"), "{}", island.log());
    for (mode, output_mode) in [
        ("error attach_disk", OutputMode::Json),
        ("error delete_vm", OutputMode::Terminal),
        ("error create_vm", OutputMode::Plain),
    ] {
        canary.set_mode(mode);
        canary.run("create-env", &["--recreate", "--skip-drain"], output_mode).exits_with(1);
        canary.check(registry);
    }
    canary.set_mode("");
    // Four tunnel failures: an unauthorised key, forbidden forwarding, no server, and an invalid key.
    island.generate_key("stranger", "-t rsa -b 2048 -N ''");
    canary.set_tunnel_key(&island, "stranger");
    canary.run("create-env", &["--agent-timeout", "2s"], OutputMode::Terminal).exits_with(5);
    canary.check(registry);
    canary.set_tunnel_key(&island, "key");
    island.stop_sshd();
    island.start_sshd("AllowTcpForwarding no");
    canary.run("create-env", &["--agent-timeout", "2s"], OutputMode::Json).exits_with(5);
    canary.check(registry);
    island.stop_sshd();
    canary.run("create-env", &["--agent-timeout", "2s"], OutputMode::Plain).exits_with(5);
    canary.check(registry);
    let bad_tunnel = canary.hello.world.read("tunnel.yml").replacen("OPENSSH", "cAn4rY", 1);
    canary.write("tunnel.yml", &bad_tunnel);
    for output_mode in ALL_MODES {
        canary.run("create-env", &[], output_mode).exits_with(3);
        canary.check(registry);
    }
    canary.set_tunnel_key(&island, "key");
    // Another process holds the registry's port. Then the registry's file is corrupt.
    let ops = canary.hello.world.read("far.yml");
    let port: u16 = ops.split_once("port, value: ").unwrap().1.split('}').next().unwrap().parse().unwrap();
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    canary.run("create-env", &[], OutputMode::Plain).exits_with(1);
    canary.check(registry);
    drop(listener);
    let file = canary.hello.world.path("state.json.journal/registry.json");
    let content = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, content.replacen(':', ": [", 1)).unwrap();
    canary.run("create-env", &[], OutputMode::Json).exits_with(1);
    canary.check(registry);
    std::fs::write(&file, content).unwrap();
    island.start_sshd("");
    canary.run("create-env", &["--skip-drain"], OutputMode::Terminal).success();
    canary.check(registry);
    canary.run("delete-env", &["-n", "--skip-drain"], OutputMode::Plain).success();
    canary.check(registry);
    assert!(!canary.hello.world.exists("state.json.journal/registry.json"));
}

#[test]
fn interrupted_run_shows_no_secret() {
    let mut canary = Canary::new();
    canary.set_mode("hang create_vm");
    let world = canary.hello.world.root().to_owned();
    let hang_mark = canary.hello.world.path("hanging");
    // Ctrl-C is pressed twice.
    let interrupt = std::thread::spawn(move || {
        wait_until("the CPI hangs", || hang_mark.exists());
        let mut kill_count = 0;
        for _ in 0..2 {
            for entry in std::fs::read_dir("/proc").unwrap().flatten() {
                let Ok(words) = std::fs::read(entry.path().join("cmdline")) else { continue };
                let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
                let text = String::from_utf8_lossy(&words).into_owned();
                if cwd.starts_with(&world) && text.contains("create-env") && !text.contains("cpi-exec") {
                    let pid: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
                    let pid = rustix::process::Pid::from_raw(pid).unwrap();
                    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
                    kill_count += 1;
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        kill_count
    });
    canary.run("create-env", &[], OutputMode::Plain).exits_with(130);
    assert_eq!(join("the program is interrupted", interrupt), 2);
    canary.check(&["state.json.journal/", "tmp/monopile-"]);
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if cwd.starts_with(canary.hello.world.root())
            && let Ok(pid) = entry.file_name().to_str().unwrap().parse::<i32>()
        {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
    }
}

#[test]
fn failing_jobs_show_no_secret() {
    let mut canary = Canary::new();
    let fail = |what: &str| {
        format!(
            "- {{type: replace, path: '/instance_groups/name=hello/jobs/name=hello/properties/fail?', value: \
                {what}}}\n"
        )
    };
    canary.add_ops("fail.yml", &fail("template"));
    canary.run("create-env", &[], OutputMode::Plain).exits_with(3);
    canary.check(&[]);
    canary.assert_hid_something();
    canary.hello.world.write("fail.yml", fail("pre-start"));
    for output_mode in [OutputMode::Json, OutputMode::Terminal] {
        canary.run("create-env", &[], output_mode).exits_with(1);
        canary.check(&[]);
    }
    canary.hello.world.write(
        "hello/release/packages/greeting/packaging",
        "set -x\nenv\ncat /var/vcap/bosh/settings.json /var/vcap/jobs/*/bin/* || true\nexit 1\n",
    );
    canary.run("create-env", &[], OutputMode::Plain).exits_with(1);
    canary.check(&[]);
    canary.run("delete-env", &["-n", "--skip-drain"], OutputMode::Plain).success();
    canary.check(&[]);
}

#[test]
fn silent_agent_shows_no_secret() {
    let mut canary = Canary::new();
    // The agent listens on another port.
    let url = |port: u16| format!("https://cAn4rY-user:cAn4rY-literal%2Fpass@{}:{port}", canary.hello.ip());
    let ops = format!(
        "- {{type: replace, path: /cloud_provider/mbus, value: '{}'}}\n\
         - {{type: replace, path: /cloud_provider/properties/agent/mbus, value: '{}'}}\n",
        url(1),
        url(6868),
    );
    canary.add_ops("mbus.yml", &ops);
    for output_mode in [OutputMode::Plain, OutputMode::Terminal] {
        canary.run("create-env", &["--agent-timeout", "2s"], output_mode).exits_with(5);
        canary.check(&[]);
    }
    canary.run("delete-env", &["-n", "--skip-drain"], OutputMode::Json).success();
    canary.check(&[]);
}

#[test]
fn failed_downloads_show_no_secret() {
    let server = Server::start(|request, _| match request.path().contains("found") {
        true => answer("200 OK", &[], b"unexpected"),
        false => answer("401 Unauthorized", &[], format!("you asked for {}", request.path()).as_bytes()),
    });
    let mut canary = Canary::new();
    for (path, output_mode) in [
        ("refused.tgz", OutputMode::Plain),
        ("found.tgz", OutputMode::Json),
        ("found.tgz", OutputMode::Terminal),
    ] {
        for (what, name) in
            [("/releases/name=hello", "release"), ("/resource_pools/name=vms/stemcell", "stemcell")]
        {
            let url = format!(
                "http://cAn4rY-user:cAn4rY-url%20pass@127.0.0.1:{}/{path}?\
                 X-Amz-Signature=cAn4rY-signature&token=cAn4rY-token",
                server.port()
            );
            canary.add_ops(
                "download.yml",
                &format!(
                    "- {{type: replace, path: {what}/url, value: '{url}'}}\n\
                     - {{type: replace, path: '{what}/sha1?', value: {}}}\n",
                    sha1(name.as_bytes())
                ),
            );
            let code = canary.run("create-env", &[], output_mode).code;
            assert!([1, 3].contains(&code), "{path}: {code}");
            canary.check(&[]);
        }
    }
    assert!(server.requests().len() >= 6);
}

#[test]
fn invalid_manifests_show_no_secret() {
    let mut canary = Canary::new();
    canary.generate();
    canary.add_ops("invalid.yml", "[]\n");
    for (name, text) in [
        ("mbus", "- {type: replace, path: /cloud_provider/mbus, value: 'ftp://u:cAn4rY-mbus@h:1'}"),
        ("mbus-list", "- {type: replace, path: /cloud_provider/mbus, value: [cAn4rY-mbus]}"),
        ("properties", "- {type: replace, path: /cloud_provider/properties, value: cAn4rY-properties}"),
        (
            "key",
            "- {type: replace, path: /cloud_provider/cert, value: {ca: cAn4rY-ca-secret, private_key: \
                cAn4rY}}",
        ),
        (
            "port",
            "- {type: replace, path: /cloud_provider/cpi/properties/registry/port, value: ((var_secret))}",
        ),
        ("disk", "- {type: replace, path: /disk_pools/name=disks/disk_size, value: ((env_secret))}"),
        ("missing", "- {type: replace, path: /name, value: ((given_secret.part)) ((no_such_variable))}"),
        ("in a text", "- {type: replace, path: /name, value: x-((vars_file_secret))}"),
        ("network", "- {type: replace, path: /networks/name=default/type, value: ((var_secret))}"),
        ("url", "- {type: replace, path: /releases/name=hello/url, value: 'http://u:cAn4rY@[broken/x'}"),
        ("no scheme", "- {type: replace, path: /releases/name=hello/url, value: ((var_secret))}"),
        ("digest", "- {type: replace, path: '/releases/name=hello/sha1?', value: ((var_secret))}"),
        ("ops", "- {type: replace, path: /nowhere/at/all, value: cAn4rY-op-password}"),
        ("test", "- {type: test, path: /name, value: cAn4rY-op}"),
        ("syntax", "- {type: replace, path: /name, value: cAn4rY-op: : [}"),
    ] {
        canary.write("invalid.yml", &format!("{text}\n"));
        let run = canary.run("create-env", &[], OutputMode::Plain);
        assert!([2, 3].contains(&run.code), "{name}: {run:?}");
        canary.check(&[]);
    }
}

#[test]
fn unreadable_variables_show_no_secret() {
    let mut canary = Canary::new();
    canary.generate();
    let readable = ["vars.yml", "creds.yml"].map(|file| (file, canary.hello.world.read(file)));
    for (file, text) in [
        ("vars.yml", "vars_file_secret: [cAn4rY-vars-file\nx: {cAn4rY: 'cAn4rY\n"),
        ("vars.yml", "cAn4rY-only-text\n"),
        ("vars.yml", "? [cAn4rY]\n: x\n"),
        (
            "creds.yml",
            "given_secret: cAn4rY-given\nmbus_bootstrap_ssl: cAn4rY-text\ndefault_ca: {private_key: \
                cAn4rY-key}\n",
        ),
    ] {
        for (file, text) in &readable {
            canary.write(file, text);
        }
        canary.write(file, text);
        canary.run("create-env", &[], OutputMode::Plain).exits_with(3);
        let output = canary.all_output();
        assert!(!output.contains("cAn4rY"), "{output}");
    }
}

#[test]
fn packaging_scripts_of_the_cpi_show_no_secret() {
    let machine = Machine::new();
    let mut release = machine.release();
    release.packages[0].files[0].1.push_str("env\nenv | base64 -w 60\nexit 7\n");
    let env = Env::new(&machine, &release);
    let mut command =
        env.command("create-env", &["--verbose", "--verbose", "--verbose", "--vars-env", "SECRET"]);
    command.env("SECRET_x", "cAn4rY-of-the-environment-29x").stdin(Stdio::null());
    let run = env.hello.world.finish(command).exits_with(1);
    assert!(run.stderr.contains("<redacted>"), "{}", run.stderr);
    let mut texts = vec![("output".to_owned(), run.stdout), ("errors".to_owned(), run.stderr)];
    for root in [machine.path("cache"), env.hello.world.home()] {
        for entry in
            walkdir::WalkDir::new(root).into_iter().flatten().filter(|entry| entry.file_type().is_file())
        {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
            texts.push((entry.path().display().to_string(), text));
        }
    }
    assert!(texts.iter().any(|(name, _)| name.ends_with("packaging.log")));
    for (name, text) in texts {
        assert!(!text.contains("cAn4rY") && !text.contains("hunter2-of-the-cpi"), "{name}: {text}");
    }
}
