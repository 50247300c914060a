//! Generated variables and `monopile vars`, verified with OpenSSL and OpenSSH.

use crate::support::process::{RunToEnd, prepare};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::World;
use crate::support::hello::Hello;

const MANIFEST: &str = "\
name: ((password))
variables:
- name: password
  type: password
- name: short
  type: password
  options: {length: 7}
- name: leaf
  type: certificate
  options:
    ca: middle
    common_name: ((ip))
    organization: Me & Co
    alternative_names: [((ip)), '*.bosh', '::1']
    extended_key_usage: [client_auth, server_auth]
    duration: 60
    key_length: 2048
- name: root
  type: certificate
  options: {is_ca: true, common_name: root, duration: 3650, key_length: 2048}
- name: middle
  type: certificate
  options: {is_ca: true, common_name: middle, ca: root, key_length: 2048}
- name: plain
  type: certificate
  options: {ca: root, key_usage: [digital_signature, key_agreement]}
- name: rsa
  type: rsa
- name: ssh
  type: ssh
";

/// Returns a world with the manifest and a store generated from it.
fn world_with_store() -> World {
    let world = World::new();
    world.write("m.yml", MANIFEST);
    world.run(["int", "m.yml", "--vars-store", "s.yml", "-v", "ip=10.0.0.6", "--var-errs"]).success();
    world
}

/// Writes the value at `path` of the store to a file.
fn write_part(world: &World, path: &str) -> PathBuf {
    let text = world.run(["int", "s.yml", "--path", path]).success().stdout;
    world.write(path.trim_start_matches('/').replace('/', "-"), text)
}

fn run_tool(world: &World, program: &str, args: &[&str]) -> Output {
    let output = world.enter(prepare(program).args(args)).run_to_end();
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    output
}

fn run_openssl(world: &World, args: &[&str]) -> String {
    String::from_utf8(run_tool(world, "openssl", args).stdout).unwrap()
}

fn text(world: &World, certificate: &Path) -> String {
    let file = certificate.to_str().unwrap();
    let options = "no_pubkey,no_sigdump,no_serial,no_validity";
    run_openssl(world, &["x509", "-in", file, "-noout", "-text", "-certopt", options])
}

fn verify(world: &World, certificate: &str, authorities: &str, intermediate: Option<&str>) {
    let certificate = write_part(world, certificate);
    let authorities = write_part(world, authorities);
    let intermediate = intermediate.map(|path| write_part(world, path));
    let mut args = vec!["verify", "-x509_strict", "-CAfile", authorities.to_str().unwrap()];
    if let Some(intermediate) = &intermediate {
        args.extend(["-untrusted", intermediate.to_str().unwrap()]);
    }
    args.push(certificate.to_str().unwrap());
    assert!(run_openssl(world, &args).ends_with(": OK\n"));
}

fn store(world: &World) -> serde_yaml::Value {
    serde_yaml::from_str(&world.read("s.yml")).unwrap()
}

#[test]
fn openssl_accepts_the_certificates() {
    let world = world_with_store();
    verify(&world, "/leaf/certificate", "/root/certificate", Some("/leaf/ca"));
    verify(&world, "/middle/certificate", "/middle/ca", None);
    verify(&world, "/plain/certificate", "/plain/ca", None);
    verify(&world, "/root/certificate", "/root/ca", None);
    for name in ["leaf", "root", "middle", "plain", "rsa", "ssh"] {
        let key = write_part(&world, &format!("/{name}/private_key"));
        assert!(world.read(&key).starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
        let output = run_openssl(&world, &["rsa", "-in", key.to_str().unwrap(), "-check", "-noout"]);
        assert_eq!(output, "RSA key ok\n");
    }
}

#[test]
fn certificates_have_the_fields_of_bosh() {
    let world = world_with_store();
    let leaf = text(&world, &write_part(&world, "/leaf/certificate"));
    for expected in [
        "Version: 3 (0x2)",
        "Signature Algorithm: sha256WithRSAEncryption",
        "Issuer: C = US, O = Cloud Foundry, CN = middle",
        "Subject: C = US, O = Me & Co, CN = 10.0.0.6",
        "X509v3 Key Usage: critical\n                Digital Signature, Key Encipherment\n",
        "X509v3 Extended Key Usage: \n                TLS Web Client Authentication, TLS Web Server \
            Authentication\n",
        "X509v3 Basic Constraints: critical\n                CA:FALSE\n",
        "DNS:*.bosh, IP Address:10.0.0.6, IP Address:0:0:0:0:0:0:0:1\n",
    ] {
        assert!(leaf.contains(expected), "{expected:?} is not in\n{leaf}");
    }
    let middle = text(&world, &write_part(&world, "/middle/certificate"));
    for expected in [
        "X509v3 Key Usage: critical\n                Certificate Sign, CRL Sign\n",
        "X509v3 Basic Constraints: critical\n                CA:TRUE\n",
    ] {
        assert!(middle.contains(expected), "{expected:?} is not in\n{middle}");
    }
    assert!(!middle.contains("Extended Key Usage"), "{middle}");
    let plain = text(&world, &write_part(&world, "/plain/certificate"));
    assert!(plain.contains("Subject: C = US, O = Cloud Foundry\n"), "{plain}");
    assert!(plain.contains("Digital Signature, Key Agreement\n"), "{plain}");
    assert!(plain.contains("TLS Web Server Authentication\n"), "{plain}");

    // The authority key ID of a certificate is the subject key ID of its CA.
    let id = |text: &str, which: &str| {
        let text_after = text.split(which).nth(1).unwrap().trim_start_matches(": \n");
        text_after.lines().next().unwrap().trim().to_owned()
    };
    assert_eq!(id(&leaf, "Authority Key Identifier"), id(&middle, "Subject Key Identifier"));

    // The subject key ID is the SHA-1 of the modulus.
    let key = write_part(&world, "/middle/private_key");
    let modulus = run_openssl(&world, &["rsa", "-in", key.to_str().unwrap(), "-noout", "-modulus"]);
    let bytes: Vec<u8> = modulus
        .trim()
        .trim_start_matches("Modulus=")
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    let digest = <sha1::Sha1 as sha1::Digest>::digest(bytes);
    let digest: Vec<String> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(id(&middle, "Subject Key Identifier"), digest.join(":"));

    let leaf = write_part(&world, "/leaf/certificate");
    for (days, code) in [(59, 0), (61, 1)] {
        let seconds = (days * 24 * 3600).to_string();
        let mut command = prepare("openssl");
        command.args(["x509", "-noout", "-checkend", &seconds, "-in", leaf.to_str().unwrap()]);
        assert_eq!(world.enter(&mut command).run_to_end().status.code(), Some(code), "{days} days");
    }
}

#[test]
fn openssh_accepts_the_keys() {
    let world = world_with_store();
    let public = write_part(&world, "/ssh/public_key");
    let fingerprint_list =
        run_tool(&world, "ssh-keygen", &["-l", "-E", "md5", "-f", public.to_str().unwrap()]);
    let fingerprint_list = String::from_utf8(fingerprint_list.stdout).unwrap();
    let fingerprint = store(&world)["ssh"]["public_key_fingerprint"].as_str().unwrap().to_owned();
    assert!(fingerprint_list.starts_with(&format!("2048 MD5:{fingerprint} ")), "{fingerprint_list}");

    let private = write_part(&world, "/ssh/private_key");
    run_tool(&world, "chmod", &["600", private.to_str().unwrap()]);
    let key_output = run_tool(&world, "ssh-keygen", &["-y", "-f", private.to_str().unwrap()]);
    assert_eq!(
        String::from_utf8(key_output.stdout).unwrap().trim(),
        store(&world)["ssh"]["public_key"].as_str().unwrap().trim()
    );

    let key = write_part(&world, "/rsa/private_key");
    let public = run_openssl(&world, &["rsa", "-in", key.to_str().unwrap(), "-pubout"]);
    assert_eq!(public, store(&world)["rsa"]["public_key"].as_str().unwrap());
}

#[test]
fn passwords_have_their_length_and_alphabet() {
    let world = world_with_store();
    for (name, length) in [("password", 20), ("short", 7)] {
        let value = store(&world)[name].as_str().unwrap().to_owned();
        assert_eq!(value.len(), length);
        assert!(value.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()));
    }
}

#[test]
fn store_is_private_and_keeps_its_content() {
    let world = World::new();
    world.write("m.yml", "variables:\n- {name: a, type: password}\nx: ((b))\n");
    world.write("s.yml", "b: {kept: [1, ~]}\n");
    let args = ["int", "m.yml", "--vars-store", "s.yml"];
    let first = world.run(args).success().stdout;
    let store_text = world.read("s.yml");
    assert!(store_text.ends_with("b:\n  kept:\n  - 1\n  - null\n"), "{store_text}");
    assert_eq!(world.path("s.yml").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(world.run(args).success().stdout, first);
    assert_eq!(world.read("s.yml"), store_text);
    assert_eq!(std::fs::read_dir(world.path("")).unwrap().count(), 2, "nothing is left beside it");
}

#[test]
fn values_generated_before_a_failure_are_kept() {
    let world = World::new();
    let manifest =
        "variables:\n- {name: a, type: password}\n- {name: b, type: password, options: {length: ((c))}}\n";
    world.write("m.yml", manifest);
    let run = world.run(["int", "m.yml", "--vars-store", "s.yml", "-v", "c=x"]).exits_with(3);
    assert!(run.stderr.contains("m.yml:3:47: option 'length' is a string, not an integer"), "{}", run.stderr);
    assert_eq!(store(&world)["a"].as_str().unwrap().len(), 20);
}

#[test]
fn concurrent_runs_agree_on_the_values() {
    let world = World::new();
    world.write(
        "m.yml",
        "variables:\n- {name: a, type: password}\n- {name: s, type: ssh}\nx: ((a))((s.public_key))\n",
    );
    let outputs: Vec<String> = std::thread::scope(|scope| {
        let run = || world.run(["int", "m.yml", "--vars-store", "s.yml"]).success().stdout;
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert!(outputs.iter().all(|output| *output == outputs[0]), "{outputs:#?}");
}

#[test]
fn ca_may_have_any_common_key_type() {
    let kinds: [(&str, &[&str]); 6] = [
        ("pkcs1", &["genrsa", "-traditional", "-out", "key", "2048"]),
        ("pkcs8", &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "key"]),
        ("sec1", &["ecparam", "-name", "prime256v1", "-genkey", "-out", "key"]),
        ("p384", &["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-out", "key"]),
        ("p521", &["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521", "-out", "key"]),
        ("ed25519", &["genpkey", "-algorithm", "ED25519", "-out", "key"]),
    ];
    for (kind, args) in kinds {
        let world = World::new();
        run_tool(&world, "openssl", args);
        // The name has repeated attributes, so the issuer must be copied and not rebuilt.
        let subject = "/DC=org/DC=example/OU=one/OU=two/CN=Any CA";
        run_tool(
            &world,
            "openssl",
            &["req", "-x509", "-new", "-key", "key", "-subj", subject, "-days", "99", "-out", "ca.pem"],
        );
        world.write(
            "m.yml",
            "variables:\n- name: leaf\n  type: certificate\n  options: {ca: mine, common_name: a, \
                key_length: 2048}\n",
        );
        let ca_options = ["--var-file", "mine.certificate=ca.pem", "--var-file", "mine.private_key=key"];
        world.run(["int", "m.yml", "--vars-store", "s.yml"].into_iter().chain(ca_options)).success();
        let leaf = write_part(&world, "/leaf/certificate");
        let output = run_openssl(&world, &["verify", "-CAfile", "ca.pem", leaf.to_str().unwrap()]);
        assert!(output.ends_with(": OK\n"), "{kind}: {output}");
        let run = world.run(["vars", "check", "s.yml"]).success();
        assert_eq!(run.stdout, "1 variable, 1 certificate: nothing needs attention.\n", "{kind}");
    }
    let world = World::new();
    world.write("m.yml", "name: a\ncloud_provider: {}\n");
    let run = world.run(["vars", "check", "m.yml"]).exits_with(3);
    assert!(run.stderr.contains("'m.yml' is a manifest, not a vars store"), "{}", run.stderr);
    world.write("m-vars.yml", "a: 1\n");
    let run = world.run(["vars", "get", "m.yml", "/a"]).exits_with(3);
    assert!(run.stderr.contains("`monopile vars get m-vars.yml /a`"), "{}", run.stderr);
}

#[test]
fn manifest_in_place_of_the_vars_store_is_not_changed() {
    let world = World::new();
    let text = "name: a\ninstance_groups: []\nvariables: [{name: pw, type: password}]\n";
    world.write("m.yml", text);
    let commands: [&[&str]; 3] = [&["int", "m.yml"], &["create-env", "m.yml", "-n"], &["plan", "m.yml"]];
    for (has_vars_store, hint) in [
        (false, "name a new file: `monopile "),
        (true, "pass the vars store beside the manifest: `monopile "),
    ] {
        for command in commands {
            let run = world.run(command.iter().chain(&["--vars-store", "m.yml"])).exits_with(3);
            let error = format!(
                "error: 'm.yml' (--vars-store) is a manifest, not a vars store: it has `instance_groups`\n  \
                 note: nothing was changed\n  hint: {hint}{} --vars-store m-vars.yml`\n",
                command.join(" ")
            );
            assert!(run.stderr.contains(&error), "{command:?}: {}", run.stderr);
            assert_eq!(world.read("m.yml"), text, "{command:?}");
        }
        if !has_vars_store {
            world.write("m-vars.yml", "pw: x\n");
        }
    }
}

#[test]
fn state_in_place_of_variables_is_not_changed() {
    let world = World::new();
    world.write("m.yml", "name: a\ninstance_groups: []\nvariables: [{name: pw, type: password}]\n");
    world.write("m-vars.yml", "pw: x\n");
    let text = r#"{"director_id": "d", "installation_id": "i", "current_vm_cid": "vm-1"}"#;
    world.write("s.json", text);
    for command in ["int", "create-env", "plan"] {
        let error = format!(
            "error: 's.json' (--vars-store) is a state, not a vars store: it has `director_id`\n  note: \
             nothing was changed\n  hint: pass the vars store beside the manifest: `monopile {command} m.yml \
             --vars-store m-vars.yml`\n"
        );
        let run = world.run([command, "m.yml", "--vars-store", "s.json"]).exits_with(3);
        assert!(run.stderr.contains(&error), "{command}: {}", run.stderr);
        let run = world.run([command, "m.yml", "-l", "s.json"]).exits_with(3);
        let error = "error: vars file 's.json' is a state, which has no variables: it has `director_id`\n";
        assert!(run.stderr.contains(error) && run.stderr.contains("`--state s.json`"), "{}", run.stderr);
    }
    for words in [&["list", "s.json"][..], &["check", "s.json"], &["get", "s.json", "/current_vm_cid"]] {
        let run = world.run(["vars"].iter().chain(words)).exits_with(3);
        assert!(run.stderr.contains("'s.json' is a state, not a vars store"), "{words:?}: {}", run.stderr);
    }
    let one_file = ["create-env", "m.yml", "--state", "new.json", "--vars-store", "./new.json"];
    let run = world.run(one_file).exits_with(2);
    assert!(run.stderr.contains("'./new.json' is the state and the vars store"), "{}", run.stderr);
    assert!(!world.exists("new.json"));
    assert_eq!(world.read("s.json"), text);
    // One key of a state alone may be a variable.
    world.write("l.yml", "director_id: 1\n");
    world.run(["int", "m.yml", "-l", "l.yml", "--vars-store", "m-vars.yml"]).success();
}

#[test]
fn rejects_a_ca_with_a_mismatched_key() {
    let world = world_with_store();
    let other = write_part(&world, "/plain/private_key");
    let certificate = write_part(&world, "/root/certificate");
    world.write("n.yml", "variables:\n- {name: new, type: certificate, options: {ca: mine}}\n");
    let (key, certificate) = (
        format!("mine.private_key={}", other.display()),
        format!("mine.certificate={}", certificate.display()),
    );
    let run =
        world.run(["int", "n.yml", "--vars-store", "t.yml", "--var-file", &key, "--var-file", &certificate]);
    assert!(run.stderr.contains("its private key does not match its certificate"), "{run:?}");
}

#[test]
fn converge_regenerates_values_that_no_longer_match() {
    let world = World::new();
    let manifest = |name: &str, mode: &str| {
        format!(
            "variables:\n- name: root\n  type: certificate\n  options: {{is_ca: true, common_name: r, \
             key_length: 2048}}\n\
             - name: leaf\n  type: certificate\n  update_mode: {mode}\n  options: {{ca: root, common_name: \
             {name}, key_length: 2048}}\n"
        )
    };
    let run = |name: &str, mode: &str| {
        world.write("m.yml", manifest(name, mode));
        world.run(["int", "m.yml", "--vars-store", "s.yml"]).success()
    };
    run("one", "converge");
    let first = world.read("s.yml");
    run("one", "converge");
    assert_eq!(world.read("s.yml"), first, "nothing changed");
    run("two", "no-overwrite");
    assert_eq!(world.read("s.yml"), first, "the default keeps what there is");
    let report = run("two", "converge").stderr;
    assert!(
        report.contains("variable 'leaf' is generated again: its common name is 'one' instead of 'two'\n"),
        "{report}"
    );
    assert_ne!(world.read("s.yml"), first);
    verify(&world, "/leaf/certificate", "/root/certificate", None);
}

#[test]
fn list_shows_everything_but_secrets() {
    let world = world_with_store();
    let list = world.run(["vars", "list", "s.yml"]).success().stdout;
    let values = store(&world);
    for line in ["root", "middle", "leaf", "plain", "rsa", "ssh", "password", "short"] {
        let start = format!("{line}\t");
        assert!(list.lines().any(|other| other.starts_with(&start)), "{line} is not in\n{list}");
    }
    assert!(list.lines().all(|line| line.matches('\t').count() == 4) && !list.contains("NAME"), "{list}");
    assert!(list.contains("CN=10.0.0.6 for *.bosh, 10.0.0.6, ::1"), "{list}");
    assert!(list.contains(values["ssh"]["public_key_fingerprint"].as_str().unwrap()));
    for secret in ["password", "short"] {
        assert!(!list.contains(values[secret].as_str().unwrap()));
    }
    assert!(!list.contains("PRIVATE KEY"));
    let json: serde_json::Value =
        serde_json::from_str(&world.run(["vars", "list", "s.yml", "--json"]).success().stdout).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 8);
    assert_eq!(json[0]["name"], "leaf");
    assert_eq!(json[0]["signed_by"], "middle");
}

#[test]
fn get_prints_one_value() {
    let world = world_with_store();
    let get = |path| world.run(["vars", "get", "s.yml", path]);
    assert_eq!(get("/short").success().stdout.trim_end().len(), 7);
    let output = world.run(["int", "s.yml", "--path", "/leaf/ca"]).success().stdout;
    assert_eq!(get("/leaf/ca").success().stdout, output);
    assert!(get("/leaf").success().stdout.contains("private_key: |"));
    let missing = get("/shrot").exits_with(3);
    assert!(missing.stderr.contains("shrot") && missing.stderr.contains("short"), "{}", missing.stderr);
    world.run(["vars", "get", "nowhere.yml", "/short"]).exits_with(3);
}

#[test]
fn slips_in_the_words_of_vars_are_explained() {
    let world = world_with_store();
    let missing = world.run(["vars", "list", "creds.yml"]).exits_with(3);
    assert!(
        missing.stderr.contains("the vars store of NAME.yml is NAME-vars.yml beside the state"),
        "{}",
        missing.stderr
    );
    world.write("bosh-vars.yml", "short: a\n");
    for (words, code, hint) in [
        (&["list", "creds.yml"][..], 3, "in the same directory: `monopile vars list bosh-vars.yml`"),
        (&["rotate", "creds.yml", "short"], 3, "`monopile vars rotate bosh-vars.yml short`"),
        (&["get", "s.yml", "short"], 2, "`monopile vars get s.yml /short`"),
        (&["get", "s.yml", "short"], 2, "the path 'short' does not begin with '/'\n"),
        (&["get", "s.yml", "shrt"], 3, "did you mean `monopile vars get s.yml /short`?"),
        (&["get", "s.yml", "laef.ca"], 3, "did you mean `monopile vars get s.yml /leaf/ca`?"),
        (&["get", "s.yml", "nope.ca"], 3, "there is no variable 'nope' in 's.yml'"),
        (&["get", "s.yml", "leaf.ca"], 2, "`monopile vars get s.yml /leaf/ca`"),
        (&["get", "short", "s.yml"], 3, "the vars store comes first: `monopile vars get s.yml /short`"),
        (&["get", "/short", "s.yml"], 3, "the vars store comes first: `monopile vars get s.yml /short`"),
        (&["rotate", "short", "s.yml"], 3, "the vars store comes first: `monopile vars rotate s.yml short`"),
        (&["rotate", "s.yml", "/short"], 3, "did you mean 'short'?"),
        (&["get", "s.yml"], 2, "to list the names: `monopile vars list s.yml`"),
        (&["rotate", "s.yml"], 2, "name it: `monopile vars rotate s.yml NAME`\n"),
        (
            &["get", "/short"],
            2,
            "name it: `monopile vars get STORE /short`\n  hint: or set `vars_store` in a file .monopile.yml",
        ),
    ] {
        let run = world.run(["vars"].iter().chain(words)).exits_with(code);
        assert!(run.stderr.contains(hint), "{words:?}: {}", run.stderr);
    }
    // With a vars store from an env file, one word is enough, but the name of a YAML file is a slip.
    world.write("store.yml", "vars_store: s.yml\n");
    world.write("short", "a file with the name of a variable\n");
    let with_env_file =
        |words: &[&str]| world.run(["vars"].iter().chain(words).chain(&["--env-file", "store.yml"]));
    for command in ["get", "rotate"] {
        let run = with_env_file(&[command, "bosh-vars.yml"]).exits_with(2);
        assert!(
            run.stderr.contains("no variable is given, only the vars store 'bosh-vars.yml'"),
            "{}",
            run.stderr
        );
    }
    with_env_file(&["get", "/short"]).success();
    let run = with_env_file(&["rotate", "short"]).exits_with(3);
    assert!(run.stderr.contains("'short' cannot be rotated"), "{}", run.stderr);
    let run = world.run(["int", "s.yml", "--path", "short"]).exits_with(2);
    assert!(run.stderr.contains("add it: `monopile int s.yml --path /short`"), "{}", run.stderr);
}

#[test]
fn check_reports_findings_by_exit_code() {
    let world = world_with_store();
    let check = |args: &[&str]| world.run(["vars", "check", "s.yml"].iter().chain(args));
    check(&[]).success();
    check(&["-m", "m.yml", "-v", "ip=10.0.0.6"]).success();
    let soon = check(&["--within", "61d"]).exits_with(3);
    assert!(soon.stderr.contains("leaf: it expires on"), "{}", soon.stderr);
    let hint = "hint: to generate a new value of leaf: `monopile vars rotate s.yml leaf`\n";
    assert!(soon.stderr.contains(hint), "{}", soon.stderr);
    let other = check(&["-m", "m.yml", "-v", "ip=10.0.0.7"]).exits_with(3);
    assert!(
        other.stderr.contains("leaf: its common name is '10.0.0.6' instead of '10.0.0.7'"),
        "{}",
        other.stderr
    );
    assert!(other.stderr.contains("leaf: its alternative names are not as declared"), "{}", other.stderr);
    check(&["--within", "1y"]).exits_with(2);

    // The leaf has another CA, and the key belongs to another certificate.
    let mut values = store(&world);
    let root = values["root"].clone();
    values["leaf"]["ca"] = root["certificate"].clone();
    values["plain"]["private_key"] = root["private_key"].clone();
    world.write("s.yml", serde_yaml::to_string(&values).unwrap());
    let failed_check = check(&[]).exits_with(3);
    assert!(
        failed_check.stderr.contains("leaf: it is not signed by a certificate under 'ca'"),
        "{}",
        failed_check.stderr
    );
    assert!(
        failed_check.stderr.contains("plain: its private key does not match its certificate"),
        "{}",
        failed_check.stderr
    );
    assert!(!failed_check.stderr.contains("clock"), "{}", failed_check.stderr);
}

#[test]
fn ca_rotation_takes_two_steps() {
    let world = world_with_store();
    let stored_text_before = store(&world);
    world.run(["vars", "rotate", "s.yml", "root", "-m", "m.yml", "-v", "ip=10.0.0.6"]).success();
    let store_between = store(&world);
    for name in ["root", "middle", "leaf", "plain"] {
        assert_ne!(stored_text_before[name]["private_key"], store_between[name]["private_key"], "{name}");
    }
    for name in ["password", "short", "rsa", "ssh"] {
        assert_eq!(stored_text_before[name], store_between[name], "{name}");
    }
    // The new bundle trusts both old and new certificates.
    verify(&world, "/plain/certificate", "/plain/ca", None);
    verify(&world, "/leaf/certificate", "/root/certificate", Some("/leaf/ca"));
    let old = world.write("old-plain", stored_text_before["plain"]["certificate"].as_str().unwrap());
    let bundle = write_part(&world, "/plain/ca");
    let args = ["verify", "-CAfile", bundle.to_str().unwrap(), old.to_str().unwrap()];
    assert!(run_openssl(&world, &args).ends_with(": OK\n"));
    // Every command names the step that comes next, for the CA at the top of the chain.
    let deploy = "`monopile create-env MANIFEST --vars-store s.yml`";
    let not_deployed = format!("the rotation of 'root' is not deployed yet; deploy it: {deploy}");
    let check_of_manifest =
        world.run(["vars", "check", "s.yml", "-m", "m.yml", "-v", "ip=10.0.0.6"]).success();
    let full_hint = not_deployed.replace("MANIFEST", "m.yml -v ip=10.0.0.6");
    assert!(check_of_manifest.stderr.contains(&full_hint), "{}", check_of_manifest.stderr);
    let check = world.run(["vars", "check", "s.yml"]).success();
    let list = world.run(["vars", "list", "s.yml"]).success();
    for run in [&check, &list] {
        assert!(run.stderr.contains(&not_deployed), "{}", run.stderr);
        assert!(!run.stderr.contains("'middle'"), "{}", run.stderr);
    }
    assert!(check.stdout.ends_with(": no problems, but a rotation is not finished.\n"), "{}", check.stdout);
    assert!(list.stdout.contains(", rotation not deployed\n"), "{}", list.stdout);

    let second_rotation = world.run(["vars", "rotate", "s.yml", "root"]).exits_with(3);
    assert!(
        second_rotation.stderr.contains("the last rotation of 'root' is not deployed yet: "),
        "{}",
        second_rotation.stderr
    );
    assert!(
        second_rotation.stderr.contains(&format!("deploy it first, which removes the old value: {deploy}")),
        "{}",
        second_rotation.stderr
    );
    assert_eq!(store(&world), store_between);

    // The old values stay until a deploy, or until the operator removes them after one by another program.
    let early_finish = world.run(["vars", "rotate", "s.yml", "root", "--finish"]).exits_with(3);
    assert!(
        early_finish.stderr.contains("if another program deployed it, remove `monopile_previous`"),
        "{}",
        early_finish.stderr
    );
    let mut deployed_store = store_between;
    deployed_store.as_mapping_mut().unwrap().remove("monopile_previous").unwrap();
    world.write("s.yml", serde_yaml::to_string(&deployed_store).unwrap());
    let store_between = deployed_store;
    let finish = "once everything trusts the new CA: `monopile vars rotate s.yml root --finish`";
    let check = world.run(["vars", "check", "s.yml"]).success();
    let second_rotation = world.run(["vars", "rotate", "s.yml", "root"]).exits_with(3);
    for run in [&check, &second_rotation] {
        assert!(run.stderr.contains(finish), "{}", run.stderr);
        assert!(!run.stderr.contains("create-env"), "{}", run.stderr);
    }
    world.run(["vars", "rotate", "s.yml", "root", "--finish"]).success();
    let stored_text_after = store(&world);
    let count = |value: &serde_yaml::Value| value.as_str().unwrap().matches("BEGIN CERTIFICATE").count();
    for name in ["root", "middle", "leaf", "plain"] {
        assert_eq!(
            (count(&stored_text_after[name]["ca"]), count(&stored_text_after[name]["certificate"])),
            (1, 1),
            "{name}"
        );
        assert_eq!(stored_text_after[name]["private_key"], store_between[name]["private_key"], "{name}");
    }
    // The VM trusts the old certificate until the next deploy.
    let check = world.run(["vars", "check", "s.yml"]).success();
    assert!(check.stderr.contains(&not_deployed), "{}", check.stderr);
    verify(&world, "/plain/certificate", "/plain/ca", None);
    world.run(["vars", "rotate", "s.yml", "root", "--finish"]).exits_with(3);
}

#[test]
fn ca_that_is_stored_twice_is_finished() {
    let world = world_with_store();
    let mut values = store(&world);
    values["copy"] = values["root"].clone();
    world.write("s.yml", serde_yaml::to_string(&values).unwrap());
    let none = world.run(["vars", "rotate", "s.yml", "root", "--finish"]).exits_with(3);
    assert!(none.stderr.contains("there is no rotation of 'root' to finish"), "{}", none.stderr);
}

#[test]
fn expired_ca_signs_nothing() {
    let world = world_with_store();
    let now = time::OffsetDateTime::now_utc();
    let day = |days| now + time::Duration::days(days);
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    // The subject is that of a generated CA, so that the new CA has the same one.
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, text) in [
        (rcgen::DnType::CountryName, "US"),
        (rcgen::DnType::OrganizationName, "Cloud Foundry"),
        (rcgen::DnType::CommonName, "old"),
    ] {
        params.distinguished_name.push(kind, rcgen::DnValue::PrintableString(text.try_into().unwrap()));
    }
    (params.not_before, params.not_after) = (day(-20), day(-10));
    let key = rcgen::KeyPair::generate().unwrap();
    let (ca, private) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
    let issuer = rcgen::Issuer::new(params, key);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (day(10), day(90));
    let leaf = params.signed_by(&key, &issuer).unwrap().pem();
    let store = serde_json::json!({
        "old": {"ca": ca, "certificate": ca, "private_key": private},
        "young": {"ca": ca, "certificate": leaf, "private_key": key.serialize_pem()},
    });
    let text = store.to_string();
    world.write("old.yml", &text);
    let check = world.run(["vars", "check", "old.yml"]).exits_with(3);
    for expected in [
        "old: it expired on ",
        "young: it is not valid before ",
        "young: its CA expired on ",
        "to generate new values of old and young: `monopile vars rotate old.yml old`",
        "clock says",
    ] {
        assert!(check.stderr.contains(expected), "{expected} is not in: {}", check.stderr);
    }
    let run = world.run(["vars", "rotate", "old.yml", "young"]).exits_with(3);
    assert!(run.stderr.contains("its CA 'old' expired on "), "{}", run.stderr);
    assert!(run.stderr.contains("monopile vars rotate old.yml old"), "{}", run.stderr);
    assert_eq!(world.read("old.yml"), text, "nothing was written");
    world.run(["vars", "rotate", "old.yml", "old"]).success();
    world.run(["vars", "rotate", "old.yml", "young"]).success();
    world.run(["vars", "check", "old.yml", "--within", "1d"]).success();
}

#[test]
fn rotating_one_variable_changes_only_it() {
    let world = world_with_store();
    let stored_text_before = store(&world);
    for name in ["leaf", "password", "rsa", "ssh"] {
        world.run(["vars", "rotate", "s.yml", name]).success();
    }
    let stored_text_after = store(&world);
    for name in ["leaf", "password", "rsa", "ssh"] {
        assert_ne!(stored_text_before[name], stored_text_after[name], "{name}");
    }
    for name in ["root", "middle", "plain", "short"] {
        assert_eq!(stored_text_before[name], stored_text_after[name], "{name}");
    }
    world.run(["vars", "check", "s.yml", "-m", "m.yml", "-v", "ip=10.0.0.6"]).success();
    let failed_run = world.run(["vars", "rotate", "s.yml", "leef"]).exits_with(3);
    assert!(failed_run.stderr.contains("did you mean 'leaf'?"), "{}", failed_run.stderr);
    // The origin of such a text cannot be inferred.
    world.write("t.yml", "url: https://a.b/c\n");
    let unknown = world.run(["vars", "rotate", "t.yml", "url"]).exits_with(3);
    assert!(unknown.stderr.contains("does not show how 'url' was generated"), "{}", unknown.stderr);
    assert!(!unknown.stderr.contains("https://a.b/c"), "{}", unknown.stderr);
}

/// Names only options of `vars rotate`, and a command that generates the CA that is missing.
#[test]
fn rotation_without_a_value_of_its_options_names_the_next_command() {
    let world = world_with_store();
    let rotate = |name: &str| world.run(["vars", "rotate", "s.yml", name, "-m", "m.yml"]);
    let run = rotate("leaf").exits_with(3);
    let hint = "hint: give values to ip: `monopile vars ";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    let mut without_ca = store(&world);
    without_ca.as_mapping_mut().unwrap().remove("root");
    world.write("s.yml", serde_yaml::to_string(&without_ca).unwrap());
    let run = rotate("plain").exits_with(3);
    let hint =
        "generate root and save it in the vars store first: `monopile interpolate m.yml --vars-store s.yml";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    let command = run.stderr.split('`').find(|part| part.starts_with("monopile interpolate")).unwrap();
    world.run(command.split(' ').skip(1).chain(["-v", "ip=10.0.0.6"])).success();
    rotate("plain").success();
}

#[test]
fn interpolate_warns_about_expiring_certificates() {
    let world = World::new();
    world.write(
        "m.yml",
        "variables:\n- name: r\n  type: certificate\n  options: {is_ca: true, common_name: r, duration: 20, \
            key_length: 2048}\n",
    );
    let run = world.run(["int", "m.yml", "--vars-store", "s.yml"]).success();
    assert!(run.stderr.contains("certificate 'r.ca' expires in 19 days, on "), "{}", run.stderr);
    assert_eq!(run.stderr.matches("expires in").count(), 1, "a certificate is named once: {}", run.stderr);
}

#[test]
fn read_only_commands_write_no_vars_store() {
    const COMMANDS: [&[&str]; 5] =
        [&["cpi", "info"], &["cpis"], &["plan"], &["status"], &["state", "verify"]];
    let hello = Hello::new();
    hello.create(&[]).success();
    let store_text = hello.world.read("creds.yml");
    std::fs::remove_file(hello.world.path("creds.yml")).unwrap();
    let files = || {
        let entries = std::fs::read_dir(hello.world.path(".")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let files_before = files();
    for command in COMMANDS {
        let run = hello.world.finish(hello.subcommand(command, &[]));
        assert_eq!(files(), files_before, "{command:?} wrote: {}", run.stderr);
    }
    // Some of the declared variables have values.
    let path = hello.world.write("creds.yml", "mbus_bootstrap_password: secret\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    let files_before = files();
    for command in COMMANDS {
        let run = hello.world.finish(hello.subcommand(command, &[]));
        assert!(!run.stderr.contains("ermission denied"), "{command:?}: {}", run.stderr);
        assert_eq!(hello.world.read("creds.yml"), "mbus_bootstrap_password: secret\n", "{command:?}");
        assert_eq!(files(), files_before, "{command:?}");
    }
    std::fs::remove_file(&path).unwrap();
    hello.world.write("creds.yml", store_text);
    hello.delete(&[]).success();
}

#[test]
fn broken_certificate_of_a_ca_is_renewed_with_what_it_signed() {
    let world = world_with_store();
    let store = world.read("s.yml");
    let (text_before, middle) = store.split_once("\nmiddle:").unwrap();
    let (head, certificate) = middle.split_once("  certificate: |\n    -----BEGIN").unwrap();
    world.write("s.yml", format!("{text_before}\nmiddle:{head}  certificate: |\n    -----{certificate}"));
    let check = world.run(["vars", "check", "s.yml"]).exits_with(3);
    for text in [
        "middle: its certificate cannot be read: there is no certificate in PEM form",
        "hint: put the vars store back from a copy, if there is one\n",
        "`monopile vars rotate s.yml middle -m MANIFEST`\n",
    ] {
        assert!(check.stderr.contains(text), "{text}: {}", check.stderr);
    }
    let rotate = ["vars", "rotate", "s.yml", "middle"];
    let run = world.run(rotate).exits_with(3);
    let hint = "name the manifest that declares 'middle': `monopile vars rotate s.yml middle -m MANIFEST`";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    let run = world.run(rotate.iter().chain(&["-m", "m.yml", "-v", "ip=10.0.0.6"])).success();
    assert!(run.stdout.contains("New values in 's.yml': middle, leaf\n"), "{}", run.stdout);
    world.run(["vars", "check", "s.yml"]).success();
}
