//! `upload-stemcell`, `stemcells` and `delete-stemcell` with several CPIs.

use crate::support::process::WaitForEnd;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::super::{Clouds, SECRET, assert_output_contains, output_of};
use crate::support::scripted::{InfoAnswer, Interruption, Script};

const NAME: &str = "bosh-local-hello-go_agent/1.0";
const UPLOAD: &str = "upload-stemcell";

/// Returns the number of stemcells in each cloud: default CPI, east, west, foreign.
fn counts(clouds: &Clouds) -> [usize; 4] {
    ["default", "east", "west", "cloud"].map(|cloud| clouds.resources(cloud, "stemcells").len())
}

#[test]
fn stemcell_is_uploaded_to_every_fitting_cpi_and_kept() {
    let clouds = Clouds::new();
    clouds.hello.set_script(Script::with_info(InfoAnswer::NotImplemented(0)));
    let run = clouds.run(UPLOAD, &["hello/stemcell"]).success();
    assert_output_contains(&run, "to CPI 'east', CPI 'west', CPI 'foreign'");
    assert_output_contains(&run, "CPI 'foreign' does not say which stemcell formats it accepts");
    assert!(!output_of(&run).contains(SECRET));
    assert_eq!(counts(&clouds), [0, 1, 1, 1], "the environment does not use the default CPI");
    let east = clouds.only_resource("east", "stemcells");
    let list = clouds.list("stemcells");
    let cpis: Vec<&str> = list.iter().map(|stemcell| stemcell["cpi"].as_str().unwrap()).collect();
    assert_eq!(cpis, ["east", "foreign", "west"]);
    assert_eq!(
        list[0],
        json!({"name": "bosh-local-hello-go_agent", "version": "1.0", "cid": east, "cpi": "east",
            "api_version": 3,
               "in_use": false, "kept": true, "undeleted": null})
    );

    // Repeating the command does nothing. `--fix` uploads the stemcell again and deletes the old upload.
    let run = clouds.run(UPLOAD, &["hello/stemcell"]).success();
    assert_output_contains(&run, "is uploaded already");
    let name_and_version = ["--name", "bosh-local-hello-go_agent", "--version", "1.0"];
    clouds.run(UPLOAD, &[&["nowhere.tgz"], &name_and_version[..]].concat()).success();
    clouds.run(UPLOAD, &["hello/stemcell", "--fix", "--cpi", "east"]).success();
    assert_eq!(counts(&clouds), [0, 1, 1, 1]);
    assert_ne!(clouds.only_resource("east", "stemcells"), east);
    assert_eq!(clouds.list("stemcells").len(), 3);

    // A CPI that rejects the stemcell does not matter if others accept it.
    clouds.run("delete-stemcell", &[NAME, "--cpi", "west"]).success();
    clouds.change_config(|text| text.replace("stemcell_formats: [local]", "stemcell_formats: [raw]"));
    let run = clouds.run(UPLOAD, &["hello/stemcell"]).success();
    assert_output_contains(&run, "CPI 'west' accepts the stemcell format raw");
    assert_eq!(counts(&clouds), [0, 1, 0, 1]);
    clouds.change_config(|text| text.replace("stemcell_formats: [raw]", "stemcell_formats: [local]"));
    clouds.run(UPLOAD, &["hello/stemcell"]).success();
    assert_eq!(counts(&clouds), [0, 1, 1, 1]);

    // The default CPI has no name.
    clouds.run(UPLOAD, &["hello/stemcell", "--cpi", ""]).success();
    assert_eq!(counts(&clouds), [1, 1, 1, 1]);

    // Bad input is reported before any effect.
    for (extra_args, code, expected) in [
        (&["hello/stemcell", "--cpi", "eats"][..], 3, "--cpi names CPI 'eats'"),
        (&["nowhere.tgz"], 3, "nowhere.tgz"),
        (&["hello/stemcell", "--name", "x", "--version", "1"], 3, "the command line says x/1"),
        (&["hello/stemcell", "--name", "x"], 2, "--version"),
    ] {
        assert_output_contains(&clouds.run(UPLOAD, extra_args).exits_with(code), expected);
    }
    clouds.set_formats("local");
    let run = clouds.run(UPLOAD, &["hello/stemcell"]).exits_with(3);
    assert_output_contains(&run, "another stemcell under the name");
    let run =
        clouds.run(UPLOAD, &["hello/stemcell", "--fix", "--cpi", "west", "--cpi", "east"]).exits_with(3);
    assert_output_contains(
        &run,
        "CPI 'east' accepts the stemcell format local-directory, but this stemcell has local",
    );
    clouds.set_formats("vsphere-ova");
    clouds.hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = clouds.run(UPLOAD, &["hello/stemcell", "--fix"]).exits_with(3);
    for text in
        ["CPI 'east' accepts the stemcell format local-directory", "CPI 'west' accepts", "vsphere-ova"]
    {
        assert_output_contains(&run, text);
    }
    assert_eq!(counts(&clouds), [1, 1, 1, 1]);

    // One is named by its CID, the others by name and version.
    let west = clouds.only_resource("west", "stemcells");
    assert_output_contains(
        &clouds.run("delete-stemcell", &["stemcell-nowhere", "-n"]).exits_with(3),
        "is on record",
    );
    assert_output_contains(
        &clouds.run("delete-stemcell", &[NAME, "--cpi", "eats"]).exits_with(3),
        "--cpi names CPI 'eats'",
    );
    clouds.run("delete-stemcell", &[&west]).success();
    assert_eq!(counts(&clouds), [1, 1, 0, 1]);
    clouds.run("delete-stemcell", &[NAME, "--cpi", "foreign"]).success();
    assert_eq!(counts(&clouds), [1, 1, 0, 0]);
    clouds.run("delete-stemcell", &[NAME, "--json"]).success();
    assert_eq!(counts(&clouds), [0, 0, 0, 0]);
    assert!(clouds.list("stemcells").is_empty());
}

#[test]
fn uploads_run_in_parallel_and_fail_independently() {
    let clouds = Clouds::new();
    // The call that is held comes first.
    clouds.change_config(|text| {
        let (other_cpis, foreign) = text.split_once("- name: foreign").unwrap();
        format!("cpis:\n- name: foreign{foreign}{}", other_cpis.strip_prefix("cpis:\n").unwrap())
    });
    clouds.hello.set_script(Script::with_interruption(2, Interruption::Hold));
    let mut run =
        clouds.command(UPLOAD, "z-east", &["hello/stemcell"]).stdout(Stdio::null()).spawn().unwrap();
    clouds.hello.wait_until_held();
    let at_once = (0..1500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        counts(&clouds) == [0, 1, 1, 0]
    });
    clouds.hello.release_call();
    assert!(run.end().success());
    assert!(at_once, "the others do not wait for the first");
    assert_eq!(counts(&clouds), [0, 1, 1, 1]);
    clouds.run("delete-stemcell", &[NAME]).success();

    clouds.hello.set_script(Script::with_info(InfoAnswer::Local).fail("create_stemcell", 1, "Quota", false));
    let run = clouds.run(UPLOAD, &["hello/stemcell"]).exits_with(1);
    assert_output_contains(&run, "1 of 3 uploads failed; the others are on record");
    assert_eq!(clouds.list("stemcells").len(), 2);
    let run = clouds.run(UPLOAD, &["hello/stemcell"]).success();
    assert_output_contains(&run, "to CPI 'foreign'");
    assert_eq!(counts(&clouds), [0, 1, 1, 1]);
    clouds.run("delete-stemcell", &[NAME]).success();

    // The run is killed before the stemcell is on record, and the next run finds it.
    clouds.hello.set_script(Script::with_interruption(2, Interruption::After));
    clouds.run(UPLOAD, &["hello/stemcell", "--cpi", "foreign"]).exits_with(-1);
    clouds.hello.wait_until_idle();
    assert_eq!((counts(&clouds), clouds.list("stemcells").len()), ([0, 0, 0, 1], 0));
    let run = clouds.run(UPLOAD, &["hello/stemcell", "--cpi", "foreign"]).success();
    assert_output_contains(&run, "is uploaded already");
    assert_eq!((counts(&clouds), clouds.list("stemcells").len()), ([0, 0, 0, 1], 1));
    // The run is killed after the deletion, with the stemcell still on record.
    clouds.hello.set_script(Script::with_interruption(2, Interruption::After));
    clouds.run("delete-stemcell", &[NAME]).exits_with(-1);
    clouds.hello.wait_until_idle();
    clouds.run("delete-stemcell", &[NAME]).exits_with(3);
    assert_eq!((counts(&clouds), clouds.list("stemcells").len()), ([0, 0, 0, 0], 0));
}

#[test]
fn deploy_uses_uploaded_stemcells_and_keeps_them() {
    let clouds = Clouds::new();
    clouds.run(UPLOAD, &["hello/stemcell"]).success();
    let uploaded_cid = clouds.only_resource("east", "stemcells");
    clouds.create("z-east", &[]).success();
    clouds.create("z-east", &[]).success();
    assert_eq!(counts(&clouds), [0, 1, 1, 1]);
    assert_eq!(clouds.only_resource("east", "stemcells"), uploaded_cid);
    let run = clouds.run("delete-stemcell", &[&uploaded_cid]).exits_with(3);
    assert_output_contains(&run, "was created from stemcell");

    // The VM's stemcell is deleted with the VM.
    let run = clouds.run(UPLOAD, &["hello/stemcell", "--fix", "--cpi", "east"]).success();
    assert_output_contains(&run, "so that stays until create-env replaces the VM");
    assert_eq!(counts(&clouds), [0, 2, 1, 1]);
    clouds.create("z-east", &["--recreate"]).success();
    assert_ne!(clouds.only_resource("east", "stemcells"), uploaded_cid);
    clouds.delete("z-east").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}
