//! State files edited by hand are rejected with the line, and nothing is called or changed.

use crate::support::hello::Hello;

#[test]
fn rejects_invalid_states_and_names_the_line() {
    let disk =
        |fields: &str| format!("{{\n  \"director_id\": \"d\",\n  \"disks\": [\n    {fields}\n  ]\n}}\n");
    let stemcell =
        |fields: &str| format!("{{\n  \"director_id\": \"d\",\n  \"stemcells\": [\n    {fields}\n  ]\n}}\n");
    let top = |field: &str| format!("{{\n  \"director_id\": \"d\",\n  {field}\n}}\n");
    let good = r#"{"id": "a", "cid": "x", "size": 1}"#;
    let cases: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        ("nothing", b"".to_vec(), "cause: the file is empty", ""),
        ("blank", b" \n\n".to_vec(), "cause: the file is empty", ""),
        ("zeros", vec![0; 64], "not valid JSON", "line 1"),
        ("text", b"director_id: d\n".to_vec(), "not valid JSON", "line 1"),
        (
            "a manifest",
            b"name: x\ninstance_groups: []\n".to_vec(),
            "state.json' (--state) is a manifest, not a state: it has `instance_groups`\n  note: nothing was \
             changed\n  hint: name the state of this environment, or a copy of it: `monopile ",
            " --state FILE`\n",
        ),
        ("a list", b"[]".to_vec(), "a state is a JSON object", "line 1"),
        ("null", b"null".to_vec(), "a state is a JSON object", "line 1"),
        ("truncated", b"{\n  \"director_id\": \"d\",\n  \"disks\": [".to_vec(), "not valid JSON", "line \
            3"),
        ("with more after it", b"{\"director_id\": \"d\"}\n{}".to_vec(), "not valid JSON", "line 2"),
        ("with a BOM", b"\xef\xbb\xbf{\"director_id\": \"d\"}".to_vec(), "byte order mark", "line 1"),
        ("not UTF-8", b"{\"director_id\": \"d\xff\"}".to_vec(), "not valid JSON", "line 1"),
        ("a key twice", top("\"disks\": [],\n  \"disks\": []").into(), "duplicate field `disks`", "line 4"),
        ("without a director", b"{\n  \"disks\": []\n}".to_vec(), "director_id", "which every state has"),
        ("of another kind", b"{\"a\": 1}".to_vec(), "it is another JSON file", ""),
        ("an empty director", b"{\n  \"director_id\": \" \"\n}".to_vec(), "`director_id` is empty", "line 2"),
        ("a VM without a CID", top("\"current_vm_cid\": \" \"").into(), "`current_vm_cid` is blank", "line \
            3"),
        (
            "a VM of the wrong type",
            top("\"current_vm_cid\": 7").into(),
            "`current_vm_cid` must be a string, not the number 7",
            "line 3",
        ),
        ("an empty disk", disk("{}").into(), "`id` is missing", "line 4"),
        ("a disk without a CID", disk(r#"{"id": "a", "cid": "", "size": 1}"#).into(), "has no CID", "line 4"),
        ("a disk without an id", disk(r#"{"id": "", "cid": "x", "size": 1}"#).into(), "has no id", "line 4"),
        (
            "a disk of no size",
            disk(r#"{"id": "a", "cid": "x", "size": "1"}"#).into(),
            "`size` must be a whole number, not the string \"1\"",
            "line 4",
        ),
        (
            "a disk with a number",
            disk(r#"{"id": "a", "cid": 5, "size": 1}"#).into(),
            "`cid` must be a string, not the number 5",
            "line 4",
        ),
        ("a disk twice", disk(&format!("{good},\n{good}")).into(), "two disks have the id 'a'", "line 4"),
        (
            "disks that are none",
            top("\"disks\": {}").into(),
            "`disks` must be a list, not an object",
            "line 3",
        ),
        ("a disk in use that is none", top("\"current_disk_id\": \"y\"").into(), "no disk has that \
            id", "line 3"),
        ("an empty stemcell", stemcell("{}").into(), "`id` is missing", "line 4"),
        (
            "a stemcell without a CID",
            stemcell(r#"{"id": "a", "name": "n", "version": "1", "cid": " "}"#).into(),
            "has no CID",
            "line 4",
        ),
        (
            "a stemcell in use that is none",
            top("\"current_stemcell_id\": \"y\"").into(),
            "no stemcell has that id",
            "line 3",
        ),
        (
            "a newer format",
            top("\"monopile\": {\n    \"format\": 99\n  }").into(),
            "line 4: it has format 99, but this version of monopile reads formats up to 2\n  note: nothing \
             was changed\n  hint: use the monopile that wrote it, or a newer \
             one; this is ",
            "",
        ),
        ("no format", top("\"monopile\": {}").into(), "`format` is missing", "line 3"),
        (
            "a VM record of the wrong type",
            top("\"monopile\": {\"format\": 1, \"vm\": []}").into(),
            "`vm` must be an object, not a list",
            "line 3",
        ),
        (
            "an undeleted VM without a CID",
            top(r#""monopile": {"format": 2, "undeleted": [{"kind": "vm", "cid": "", "reason": "", "first_attempt_at": ""}]}"#)
                .into(),
            "a VM in `undeleted` has no CID",
            "line 3",
        ),
        (
            "a failed call without an id",
            top(r#""monopile": {"format": 2, "suspects": [{"kind": "vm", "request_id": " ", "description": "", "cpi_message": "", "called_at": ""}]}"#)
                .into(),
            "a record in `suspects` has no request ID",
            "line 3",
        ),
        (
            "a failed call for nothing known",
            top(r#""monopile": {"format": 2, "suspects": [{"kind": "moon", "request_id": "r"}]}"#).into(),
            "unknown variant `moon`",
            "line 3",
        ),
    ];
    let hello = Hello::new();
    let path = hello.world.path("state.json");
    let mut problems: Vec<String> = Vec::new();
    for (number, (name, bytes, message, line)) in cases.iter().enumerate() {
        std::fs::write(&path, bytes).unwrap();
        let mut runs = vec![
            ("state show", hello.world.run(["state", "show", "--state", "state.json"])),
            (
                "state forget",
                hello.world.run(["state", "forget", "--yes", "--vm", "v", "--state", "state.json"]),
            ),
        ];
        // All commands share the code that reads the state, so a sample of them is enough.
        runs.push(match number % 5 {
            0 => ("create-env", hello.create(&[])),
            1 => ("delete-env", hello.delete(&[])),
            2 => ("stop-env", hello.world.finish(hello.command("stop-env", &[]))),
            3 => ("start-env", hello.world.finish(hello.command("start-env", &[]))),
            _ => ("state verify", hello.world.finish(hello.subcommand(&["state", "verify"], &[]))),
        });
        for (command, run) in runs {
            assert_eq!(run.code, 3, "{name}, {command}: {}", run.stderr);
            let missing = [*message, *line, "state.json"].into_iter().find(|text| !run.stderr.contains(text));
            problems
                .extend(missing.map(|text| format!("{name}, {command}: `{text}` is not in {}", run.stderr)));
        }
        assert_eq!(std::fs::read(&path).unwrap(), *bytes, "{name}: the file was changed");
        for other in ["state.json.bak", "state.json.lock", "state.json.journal", "state.json.versions"] {
            assert!(!hello.world.exists(other), "{name}: {other} was left");
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(hello.take_requests().is_empty(), "the CPI was called");
}

/// A state that is lost must not pass for an environment that was deleted.
#[test]
fn lost_state_with_an_earlier_version_is_no_deleted_environment() {
    let hello = Hello::new();
    hello.create(&[]).success();
    std::fs::rename(hello.world.path("state.json"), hello.world.path("elsewhere.json")).unwrap();
    let leftovers_before = hello.leftovers();
    for (command, extra_args) in
        [("delete-env", &["--allow-missing"][..]), ("delete-env", &[]), ("status", &[])]
    {
        let run = hello.world.finish(hello.command(command, extra_args)).exits_with(3);
        assert!(run.stderr.contains("an earlier version of it is kept\n"), "{}", run.stderr);
        assert!(run.stderr.contains("/state.json.bak', written at 20"), "{}", run.stderr);
        let hint = "then compare it with the IaaS, because a run may have changed more since: `monopile ";
        assert!(run.stderr.contains(hint), "{}", run.stderr);
        assert!(run.stderr.contains("`monopile state backup --restore bak --state"), "{}", run.stderr);
    }
    assert_eq!(hello.leftovers(), leftovers_before);
    let import = hello.world.run(["state", "import", "hello/manifest.yml", "elsewhere.json"]).exits_with(2);
    let hint = "pass the state: `monopile state import hello/manifest.yml --state elsewhere.json`\n";
    assert!(import.stderr.contains(hint), "{}", import.stderr);
    let restore = ["state", "backup", "--restore", "bak", "--state", "state.json", "--yes"];
    hello.world.run(restore).success();
    // An earlier version that cannot be read either is not offered.
    let state = hello.world.read("state.json");
    hello.world.write("state.json", "{");
    let show = ["state", "show", "--state", "state.json"];
    let backup = hello.world.read("state.json.bak");
    let damaged_run = hello.world.run(show).exits_with(3);
    for text in ["--restore bak", "then compare it with the IaaS, "] {
        assert!(damaged_run.stderr.contains(text), "{text}: {}", damaged_run.stderr);
    }
    hello.world.write("state.json.bak", "{}");
    assert!(!hello.world.run(show).exits_with(3).stderr.contains("--restore bak"));
    hello.world.write("state.json", state);
    hello.world.write("state.json.bak", backup);
    hello.delete(&[]).success();
    // After a deletion, nothing is kept.
    hello.delete(&["--allow-missing"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
