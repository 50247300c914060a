//! `ssh` and `scp` to a VM whose job runs a real sshd, as a user that the agent creates.
//!
//! The tests need root, because only then a VM has users of its own.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Running, run};
use crate::support::hello::{Hello, far_subnet};
use crate::support::http::ForwardProxy;
use crate::support::island::Island;

const PORT: &str = "--opts=-o Port=2222";

/// Adds a job that runs sshd with the VM's own host key.
fn with_sshd(hello: &mut Hello) {
    let job = "hello/release/jobs/sshd";
    let templates = "templates:\n  ctl.erb: bin/ctl\n  pre-start.erb: bin/pre-start\n  sshd_config.erb: \
        config/sshd_config\n";
    hello.world.write(
        format!("{job}/spec"),
        format!("---\nname: sshd\n{templates}packages: []\nproperties: {{}}\n"),
    );
    hello.world.write(
        format!("{job}/monit"),
        "check process sshd\n  with pidfile /var/vcap/sys/run/sshd/sshd.pid\n  \
         start program \"/var/vcap/jobs/sshd/bin/ctl start\"\n  stop program \"/var/vcap/jobs/sshd/bin/ctl \
         stop\"\n",
    );
    hello.world.write(
        format!("{job}/templates/pre-start.erb"),
        "#!/bin/bash\nset -eu\nmkdir -p /run/sshd /var/vcap/sys/run/sshd /etc/ssh\n\
         rm -f /etc/ssh/ssh_host_*\nssh-keygen -q -t rsa -b 2048 -N '' -f /etc/ssh/ssh_host_rsa_key\n",
    );
    hello.world.write(
        format!("{job}/templates/ctl.erb"),
        "#!/bin/bash\nset -eu\npid=/var/vcap/sys/run/sshd/sshd.pid\ncase $1 in\n\
         start) /usr/sbin/sshd -f /var/vcap/jobs/sshd/config/sshd_config -E /var/vcap/sys/log/sshd/sshd.log \
         ;;\n\
         stop) kill $(cat $pid) || true; rm -f $pid ;;\nesac\n",
    );
    hello.world.write(
        format!("{job}/templates/sshd_config.erb"),
        "Port 2222\nListenAddress <%= spec.address %>\nHostKey /etc/ssh/ssh_host_rsa_key\n\
         PidFile /var/vcap/sys/run/sshd/sshd.pid\nUsePAM no\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin no\nAllowUsers bosh_*\nSubsystem sftp \
         internal-sftp\n",
    );
    hello.add_ops(
        "sshd.yml",
        "- {type: replace, path: /instance_groups/name=hello/jobs/-, value: {name: sshd, release: hello}}\n",
    );
}

/// Returns the session users on the VM.
fn users(hello: &Hello) -> Vec<String> {
    let vm = hello.world.path("cloud/vms").join(hello.state()["current_vm_cid"].as_str().unwrap());
    let passwd = std::fs::read_to_string(vm.join("root/etc/passwd")).unwrap();
    let names = passwd.lines().filter_map(|line| line.split(':').next());
    names.filter(|name| name.starts_with("bosh_")).map(str::to_owned).collect()
}

fn assert_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test needs root, because only then a VM has users of its own"
    );
}

#[test]
fn session_has_its_own_user_and_returns_the_exit_code() {
    assert_root();
    let mut hello = Hello::new();
    with_sshd(&mut hello);
    hello.create(&[]).success();

    let session = run(&hello, "ssh", &[PORT, "-c", "id -un; id -Gn; cat > copy; cat copy"]).success();
    let mut lines = session.stdout.lines();
    let user = lines.next().unwrap();
    assert!(user.starts_with("bosh_") && user.len() == 20, "{}", session.stdout);
    assert!(lines.next().unwrap().contains("vcap"), "{}", session.stdout);
    assert_eq!(run(&hello, "ssh", &[PORT, "-c", "exit 7"]).code, 7);
    // Arguments stay separate, so special characters start no other command.
    let echo = run(&hello, "ssh", &[PORT, "-c", "echo", "-c", "'$(touch x);'"]).success();
    assert_eq!(echo.stdout, "$(touch x);\n");
    assert!(!hello.world.exists("x"));
    assert_eq!(users(&hello), Vec::<String>::new(), "users outlive their session");

    // Copies files in both directions.
    hello.world.write("here/a:b", "content");
    run(&hello, "scp", &[PORT, "here/a:b", ":/tmp/there"]).success();
    run(&hello, "scp", &[PORT, "-r", "./here", "hello/0:/tmp/tree"]).success();
    // Another session has another user, who can read the files of the first one.
    run(&hello, "scp", &[PORT, ":/tmp/there", "back"]).success();
    assert_eq!(hello.world.read("back"), "content");
    let listing = run(&hello, "ssh", &[PORT, "-c", "ls /tmp/tree"]).success();
    assert_eq!(listing.stdout, "a:b\n");
    let none = run(&hello, "scp", &["a", "b"]).exits_with(2);
    assert!(none.stderr.contains("none of the paths is on the VM"), "{}", none.stderr);

    // A foreign sshd is not mistaken for the VM's.
    let keys = hello.find("work/cloud", "ssh_host_rsa_key.pub");
    let other = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7 other\n";
    std::fs::write(&keys[0], other).unwrap();
    let failed_run = run(&hello, "ssh", &[PORT, "-c", "echo in"]).exits_with(255);
    assert!(failed_run.stdout.is_empty(), "{}", failed_run.stdout);
    assert_eq!(users(&hello), Vec::<String>::new());
    // A server without a known host key cannot be verified.
    std::fs::write(&keys[0], "").unwrap();
    let nameless = run(&hello, "ssh", &[PORT, "-c", "echo in"]).exits_with(1);
    assert!(nameless.stderr.contains("did not return the host key"), "{}", nameless.stderr);
    assert_eq!(users(&hello), Vec::<String>::new());

    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn interrupted_session_removes_its_user() {
    assert_root();
    let mut hello = Hello::new();
    with_sshd(&mut hello);
    hello.create(&[]).success();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let session = Running::start(hello.command("ssh", &[PORT, "-c", "echo in; sleep 1000"]));
        session.wait_for_line("in");
        assert_eq!(users(&hello).len(), 1);
        let start = Instant::now();
        assert_eq!(session.end(signal), Some(code));
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(users(&hello), Vec::<String>::new());
    }
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn sessions_go_through_jump_hosts_and_proxies() {
    assert_root();
    let subnet = far_subnet();
    let mut hello = Hello::in_subnet(&subnet);
    let mut island = Island::new(&hello.world, &subnet);
    island.start_sshd("");
    hello.add_ops(
        "far.yml",
        &format!(
            "- type: replace\n  path: /resource_pools/name=vms/cloud_properties\n  \
             value: {{network_namespace: {}}}\n",
            island.namespace()
        ),
    );
    with_sshd(&mut hello);
    hello.create(&[]).success();

    let (host, key) = (island.ip(), island.file("key"));
    let jump = ["--gw-host", &host, "--gw-user", "root", "--gw-private-key", &key];
    let logins = |island: &Island| island.log().matches("Accepted publickey for root").count();
    let jump_run = run(&hello, "ssh", &[&jump[..], &[PORT, "-c", "echo there"]].concat()).success();
    assert_eq!((jump_run.stdout.as_str(), logins(&island)), ("there\n", 1));
    hello.world.write("file", "content");
    run(&hello, "scp", &[&jump[..], &[PORT, "file", ":/tmp/"]].concat()).success();
    assert_eq!(logins(&island), 2);
    // The command line can disable a setting from the environment.
    let mut direct = hello.command("ssh", &[PORT, "-c", "echo there", "--gw-disable"]);
    direct.env("BOSH_GW_HOST", "nowhere.invalid");
    assert_eq!(hello.world.finish(direct).success().stdout, "there\n");
    assert_eq!(logins(&island), 2);
    let mut command = hello.command("ssh", &[PORT, "-c", "echo there"]);
    command.env("BOSH_GW_HOST", "nowhere.invalid");
    assert_eq!(hello.world.finish(command).code, 255);
    let hostile = run(&hello, "ssh", &[PORT, "--gw-host=-oProxyCommand=touch x"]).exits_with(2);
    assert!(hostile.stderr.contains("has characters that ssh does not accept"), "{}", hostile.stderr);

    let socks = ForwardProxy::socks5(Some(("me", "s3cret-of-socks")));
    let url = format!("socks5://me:s3cret-of-socks@127.0.0.1:{}", socks.port());
    let session = run(&hello, "ssh", &[PORT, "--gw-socks5", &url, "-c", "echo there"]).success();
    assert_eq!(session.stdout, "there\n");
    assert_eq!(socks.targets(), [format!("{host}:2222")]);
    let bad_url = url.replace("s3cret-of-socks", "wrong-one");
    let failed_run = run(&hello, "ssh", &[PORT, "--gw-socks5", &bad_url, "-c", "echo there"]).exits_with(255);
    assert!(!failed_run.stderr.contains("wrong-one"), "{}", failed_run.stderr);

    assert_eq!(users(&hello), Vec::<String>::new());
    hello.delete(&["--skip-drain"]).success();
    island.stop_sshd();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
