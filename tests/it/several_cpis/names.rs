//! CPIs that are renamed, moved in the config, or given other credentials.

use super::{Clouds, SECRET, assert_output_contains, output_of};

#[test]
fn renamed_cpi_keeps_its_resources() {
    let mut clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    let state_before = clouds.hello.state();
    clouds.change_config(|text| text.replace("name: east,", "name: orient, migrated_from: [{name: east}],"));
    clouds.hello.add_ops("orient.yml", "- {type: replace, path: /azs/name=z-east/cpi, value: orient}\n");
    let run = clouds.create("z-east", &[]).success();
    assert_output_contains(&run, "the resources of CPI 'east' now belong to CPI 'orient'");
    assert_output_contains(&run, "Nothing to do");
    let mut state_after = clouds.hello.state();
    assert_eq!(state_after["current_vm_cid"], state_before["current_vm_cid"]);
    for record in [&state_after["monopile"]["vm"], &state_after["disks"][0], &state_after["stemcells"][0]] {
        assert_eq!(record["cpi"], "orient");
    }
    // The values of the manifest are those of the last deploy.
    state_after["monopile"].as_object_mut().unwrap().remove("manifest_leaves");
    assert!(!state_after.to_string().contains("\"east\""));
    let run = clouds.create("z-east", &[]).success();
    assert!(!output_of(&run).contains("migrated_from"), "once is enough: {}", output_of(&run));
    clouds.create("z-east", &["--recreate"]).success();
    assert_eq!(clouds.counts("east"), [1, 1, 1]);
    clouds.delete("z-east").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}

#[test]
fn default_cpi_gets_a_name() {
    let clouds = Clouds::new();
    clouds.create("z-default", &[]).success();
    let root = clouds.hello.world.path("default").display().to_string();
    clouds.change_config(|text| {
        format!(
            "{text}- {{name: named, type: local, migrated_from: [{{name: \"\"}}], properties: {{root: \
            {root}}}}}\n"
        )
    });
    // The zone still belongs to the default CPI. Its resources would be mistaken for those of the other CPI.
    let run = clouds.create("z-default", &[]).exits_with(3);
    assert_output_contains(&run, "(`migrated_from`), but the VM would be created by the default CPI");
    assert!(!clouds.hello.state().to_string().contains("\"named\""));
    clouds.delete("z-default").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}

#[test]
fn recorded_cpi_cannot_be_removed_from_the_config() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    let stored_text_before = clouds.hello.world.read("state.json");
    let good = clouds.hello.world.read("cpis.yml");
    clouds.change_config(|text| text.replace("name: east,", "name: other,"));
    for az in ["z-west", "z-default"] {
        let run = clouds.create(az, &[]).exits_with(3);
        assert_output_contains(&run, "the state has resources of CPI 'east', which is not in the CPI config");
        assert_output_contains(&run, "on record: VM 'vm-");
    }
    let run = clouds.delete("z-east").exits_with(3);
    assert_output_contains(&run, "the state has resources of CPI 'east'");
    let run = clouds
        .hello
        .world
        .finish(clouds.hello.command("delete-env", &["-n", "-v", "az=z-east"]))
        .exits_with(3);
    assert_output_contains(&run, "there is no CPI config");
    assert_eq!(clouds.hello.world.read("state.json"), stored_text_before);
    clouds.hello.world.write("cpis.yml", good);
    clouds.delete("z-east").success();
}

#[test]
fn changed_credentials_need_no_deploy() {
    let clouds = Clouds::new();
    clouds.create("z-foreign", &[]).success();
    clouds.hello.take_requests();
    clouds.change_config(|text| text.replace(SECRET, "another-s3cret"));
    let run = clouds.create("z-foreign", &[]).success();
    assert_output_contains(&run, "Nothing to do");
    clouds.create("z-foreign", &["--recreate"]).success();
    for request in clouds.hello.take_requests() {
        assert_eq!(request["context"]["key"], "another-s3cret");
    }
    clouds.delete("z-foreign").success();
}
