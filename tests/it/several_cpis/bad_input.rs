//! Invalid combinations are rejected before anything happens in any cloud.

use super::{Clouds, SECRET, assert_output_contains, output_of};
use crate::support::scripted::{InfoAnswer, Reaction, Script};

/// Runs plan and create-env, which must both fail with this exit code, and checks that nothing happened.
#[track_caller]
fn assert_both_refuse(clouds: &Clouds, az: &str, code: i32, expected: &[&str]) {
    let plan = clouds.hello.world.finish(clouds.command("plan", az, &[])).exits_with(code);
    expected.iter().for_each(|text| assert_output_contains(&plan, text));
    expect_error(clouds, az, code, expected);
}

/// Runs create-env, which must fail with this exit code, and checks that nothing happened.
#[track_caller]
fn expect_error(clouds: &Clouds, az: &str, code: i32, expected: &[&str]) {
    let run = clouds.create(az, &[]).exits_with(code);
    for text in expected {
        assert_output_contains(&run, text);
    }
    assert!(!output_of(&run).contains(SECRET));
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
    assert!(!clouds.hello.world.exists("state.json"), "{}", output_of(&run));
}

#[test]
fn rejects_invalid_configs() {
    let clouds = Clouds::new();
    let good = clouds.hello.world.read("cpis.yml");
    assert_both_refuse(
        &clouds,
        "z-eats",
        3,
        &["names availability zone 'z-eats', which is not in `azs`", "did you mean 'z-east'?"],
    );
    for (original, replacement, expected) in [
        ("name: east", "name: eats", "zone 'z-east' uses CPI 'eats', which the CPI config does not have"),
        ("name: west", "name: east", "`cpis[1]` defines CPI 'east' a second time"),
        ("exec_path: scripted", "exec_path: cpis.yml", "it is not executable"),
        ("exec_path: scripted", "exec_path: nowhere", "cannot be run"),
        (
            "type: local, properties: {root: ",
            "type: nonesuch, properties: {root: ",
            "no program found for CPI 'east' of type 'nonesuch'",
        ),
        ("name: east,", "name: east, migrated_from: [{name: east}],", "but that is this CPI itself"),
        ("name: east,", "name: east, migrated_from: [{name: west}],", "but the CPI config still defines it"),
        ("key: s3cret", "key: ((nowhere))s3cret", "nowhere"),
        ("cpis:", "cpi:", "the CPI config needs `cpis`, a list of CPIs"),
    ] {
        // The zone names an existing CPI, so the first case renames that CPI in the config.
        clouds.hello.world.write("cpis.yml", good.replacen(original, replacement, 1));
        let expected = if replacement == "name: eats" {
            expected.replace("'eats'", "'east'")
        } else {
            expected.to_owned()
        };
        assert_both_refuse(&clouds, "z-east", 3, &[&expected]);
    }
    let looping_config = good
        .replacen("name: east,", "name: east, migrated_from: [{name: west}],", 1)
        .replacen("name: west,", "name: west, migrated_from: [{name: east}],", 1);
    clouds.hello.world.write("cpis.yml", looping_config);
    assert_both_refuse(&clouds, "z-east", 3, &["a cycle"]);
    let duplicate = good.replacen("name: east,", "name: east, migrated_from: [{name: old}],", 1).replacen(
        "name: west,",
        "name: west, migrated_from: [{name: old}],",
        1,
    );
    clouds.hello.world.write("cpis.yml", duplicate);
    assert_both_refuse(
        &clouds,
        "z-east",
        3,
        &["has CPI 'old' in `migrated_from`, but CPI 'east' has it too"],
    );
}

#[test]
fn rejects_a_zone_without_its_config() {
    let mut clouds = Clouds::new();
    let run =
        clouds.hello.world.finish(clouds.hello.command("create-env", &["-v", "az=z-east"])).exits_with(3);
    assert_output_contains(&run, "availability zone 'z-east' uses CPI 'east', but there is no CPI config");
    assert_output_contains(&run, "--cpi-config");
    clouds.hello.add_ops(
        "two.yml",
        "- {type: replace, path: /instance_groups/name=hello/azs, value: [z-east, z-west]}\n",
    );
    assert_both_refuse(&clouds, "z-east", 3, &["must be in one availability zone (`azs`), not in 2"]);
    clouds.hello.add_ops(
        "same.yml",
        "- {type: replace, path: /instance_groups/name=hello/azs, value: [z-west]}\n\
         - {type: replace, path: /azs/-, value: {name: z-west}}\n",
    );
    assert_both_refuse(&clouds, "z-east", 3, &["defines availability zone 'z-west' a second time"]);
}

#[test]
fn rejects_configs_given_twice() {
    let mut clouds = Clouds::new();
    clouds.hello.world.write("zones.yml", "azs: [{name: z-east}]\n");
    let run = clouds.create("z-east", &["--cloud-config", "zones.yml"]).exits_with(3);
    assert_output_contains(&run, "`azs` and `azs` of the --cloud-config cannot both be given");
    clouds.hello.add_ops("own.yml", "- {type: replace, path: /cpis?, value: [{name: a, type: local}]}\n");
    assert_both_refuse(
        &clouds,
        "z-east",
        3,
        &["`cpis` of the manifest and a --cpi-config cannot both be given"],
    );
}

#[test]
fn failing_info_of_a_cpi_stops_the_run() {
    let clouds = Clouds::new();
    let message = format!("cannot log in with {SECRET}");
    let reaction =
        Reaction::Fail { error_type: "Bosh::Clouds::CloudError".into(), message, ok_to_retry: false };
    clouds.hello.set_script(Script::with_info(InfoAnswer::Version(1)).first("info", 9, reaction));
    expect_error(&clouds, "z-foreign", 1, &["CPI 'foreign'", "cannot log in with <redacted>"]);
    // A CPI that is not needed gets no request.
    clouds.create("z-east", &[]).success();
    clouds.delete("z-east").success();
}

#[test]
fn rejects_a_stemcell_of_an_unsupported_format() {
    let clouds = Clouds::new();
    clouds.set_formats("local-directory");
    expect_error(
        &clouds,
        "z-west",
        3,
        &["CPI 'west' accepts the stemcell format local, but this stemcell has local-directory"],
    );
    clouds.hello.set_script(Script::with_info(InfoAnswer::NotImplemented(1)));
    let run = clouds.create("z-foreign", &[]).success();
    assert_output_contains(&run, "CPI 'foreign' does not say which stemcell formats it accepts");
    clouds.delete("z-foreign").success();
}
