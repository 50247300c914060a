//! `cpis`: lists the CPIs with their answers to `info`.

use serde_json::{Value, json};

use super::super::{Clouds, SECRET, assert_output_contains, output_of};
use crate::support::scripted::{InfoAnswer, Script};

#[test]
fn list_shows_info_or_error_of_every_cpi() {
    let clouds = Clouds::new();
    let parse_list = |json: &str| serde_json::from_str::<Value>(json).unwrap();
    let run = clouds.run("cpis", &["--json"]).success();
    let both_formats = json!(["local-directory", "local"]);
    let expected = |name: Value, kind: &str, api: u32, formats: Value| {
        let version = (kind == "local").then_some(env!("CARGO_PKG_VERSION"));
        json!({"name": name, "type": kind, "reachable": true, "api_version": api,
            "version": version, "release": null,
            "stemcell_formats": formats,
               "problem": null})
    };
    assert_eq!(
        parse_list(&run.stdout),
        json!([
            expected(json!(null), "local", 2, both_formats.clone()),
            expected(json!("east"), "local", 2, json!(["local-directory"])),
            expected(json!("west"), "local", 2, json!(["local"])),
            expected(json!("foreign"), "anything", 1, both_formats),
        ])
    );
    assert!(!clouds.hello.world.exists("state.json"), "looking leaves no state");

    // Unknown formats are not a problem. A failing CPI is.
    clouds.hello.set_script(Script::with_info(InfoAnswer::NotImplemented(1)));
    let run = clouds.run("cpis", &[]).success();
    assert!(run.stdout.contains("foreign\tanything\t-\t1\tunknown\t"), "{}", run.stdout);
    clouds.hello.set_script(Script::with_info(InfoAnswer::Local).fail(
        "info",
        9,
        &format!("Broken::{SECRET}"),
        false,
    ));
    let run = clouds.run("cpis", &["--json"]).exits_with(1);
    let foreign = parse_list(&run.stdout)[3].clone();
    assert_eq!(
        (foreign["reachable"].clone(), foreign["stemcell_formats"].clone()),
        (json!(false), json!(null))
    );
    assert!(foreign["problem"].as_str().unwrap().contains("info failed as the script says"), "{foreign}");
    assert!(!output_of(&run).contains(SECRET), "{}", output_of(&run));
    assert_output_contains(&clouds.run("cpis", &[]).exits_with(1), "not every CPI answers: foreign");
}
