//! The files that define CPIs and availability zones, and the commands that read them.

use serde_json::Value;

use super::{Clouds, assert_output_contains, output_of};

#[test]
fn cloud_config_zones_select_cpi_and_properties() {
    let mut clouds = Clouds::new();
    clouds.hello.add_ops("elsewhere-zones.yml", "- {type: remove, path: /azs}\n");
    let config = |zone: &str, other: &str| {
        format!(
            "azs:\n- {{name: z1, cpi: east, cloud_properties: {{zone: {zone}, more: az}}}}\n\
             - {{name: z2, cloud_properties: {{zone: {other}}}}}\nvm_types: [{{name: ((unset))}}]\n"
        )
    };
    let options = ["--cloud-config", "zones.yml"];
    clouds.hello.world.write("zones.yml", config("a", "x"));
    clouds.create("z1", &options).success();
    assert_eq!(clouds.nonempty(), ["east"]);
    clouds.hello.world.write("zones.yml", config("a", "y"));
    assert_output_contains(&clouds.create("z1", &options).success(), "Nothing to do");
    clouds.hello.world.write("zones.yml", config("b", "y"));
    let run = clouds.create("z1", &options).success();
    assert_output_contains(&run, "Creating VM");
    clouds.hello.world.finish(clouds.command("stop-env", "z1", &options)).success();
    clouds.hello.world.finish(clouds.command("delete-env", "z1", &["-n"])).success();
}

#[test]
fn zone_cloud_properties_are_defaults_for_the_vm_only() {
    let mut clouds = Clouds::new();
    clouds.hello.add_ops(
        "zone.yml",
        "- {type: replace, path: /azs/name=z-foreign/cloud_properties?, value: {zone: f, more: az, deep: {a: \
         1}}}\n\
         - {type: replace, path: /resource_pools/name=vms/cloud_properties, value: {more: vm, deep: {b: \
         2}}}\n\
         - {type: replace, path: /networks/name=default/subnets/0/cloud_properties?, value: {more: net}}\n",
    );
    clouds.create("z-foreign", &[]).success();
    let requests = clouds.hello.take_requests();
    let arguments = |method: &str| -> Value {
        requests.iter().find(|request| request["method"] == method).unwrap()["arguments"].clone()
    };
    let vm = arguments("create_vm");
    assert_eq!(vm[2], serde_json::json!({"zone": "f", "more": "vm", "deep": {"b": 2}}));
    assert_eq!(vm[3]["default"]["cloud_properties"], serde_json::json!({"more": "net"}));
    assert_eq!(arguments("create_disk")[1], serde_json::json!({"more": "disk"}));
    clouds.delete("z-foreign").success();
}

#[test]
fn templates_see_their_zone() {
    let clouds = Clouds::new();
    let path = "hello/release/jobs/hello/templates/pre-start.erb";
    let text = clouds.hello.world.read(path);
    clouds.hello.world.write(path, format!("{text}\n# zone <%= spec.az %>\n"));
    let render = |az: &str| {
        let command = clouds.command("render", az, &["--job", "hello"]);
        let state = ["--state", "state.json"];
        let words = command.get_args().filter(|word| !state.iter().any(|option| word == option));
        output_of(&clouds.hello.world.run(words).success())
    };
    for az in ["z-east", "z-default"] {
        assert!(render(az).contains(&format!("# zone {az}")));
    }
}

#[test]
fn cpis_of_the_manifest_can_be_listed_and_called() {
    let mut clouds = Clouds::new();
    let entries = clouds.hello.world.read("cpis.yml");
    let entries =
        entries.strip_prefix("cpis:\n").unwrap().replace("exec_path: scripted", "exec_path: ../scripted");
    let indented_entries: String = entries.lines().map(|line| format!("  {line}\n")).collect();
    clouds
        .hello
        .add_ops("own.yml", &format!("- type: replace\n  path: /cpis?\n  value:\n{indented_entries}"));
    let run_with_az = |words: &[&str], extra_args: &[&str]| {
        let mut options = vec!["-v", "az=z-east"];
        options.extend(extra_args);
        clouds.hello.world.finish(clouds.hello.subcommand(words, &options))
    };
    run_with_az(&["create-env"], &[]).success();
    assert_eq!(clouds.nonempty(), ["east"]);
    let verification = run_with_az(&["state", "verify"], &[]).success();
    assert!(verification.stdout.contains("CPI east"), "{}", verification.stdout);
    let show = clouds.hello.world.run(["state", "show", "--state", "state.json"]).success();
    assert!(show.stdout.contains("CPI east"), "{}", show.stdout);
    for (name, formats, version) in
        [("east", "local-directory", "2"), ("west", "local", "2"), ("foreign", "local", "1")]
    {
        let info = run_with_az(&["cpi", "info"], &["--cpi", name, "--json"]).success();
        let info: Value = serde_json::from_str(&info.stdout).unwrap();
        assert_eq!(info["info"]["api_version"].to_string(), version, "{name}");
        assert!(info["info"]["stemcell_formats"].to_string().contains(formats), "{info}");
    }
    let unknown = run_with_az(&["cpi", "info"], &["--cpi", "no-such-cpi"]).exits_with(3);
    assert_output_contains(&unknown, "--cpi names CPI 'no-such-cpi', which the CPI config does not have");
    // Without the CPI config, the CPI on record is unknown.
    run_with_az(&["delete-env"], &["-n"]).success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}

#[test]
fn import_uses_the_cpi_of_the_zone() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    let state = clouds.hello.state();
    let cid = |value: &Value| value.as_str().unwrap().to_owned();
    let (vm, disk) = (cid(&state["current_vm_cid"]), cid(&state["disks"][0]["cid"]));
    let stemcell = format!("{}=bosh-local-hello-go_agent/1.0", cid(&state["stemcells"][0]["cid"]));
    std::fs::remove_file(clouds.hello.world.path("state.json")).unwrap();
    let extra_args =
        ["--vm", &vm, "--disk", &disk, "--stemcell", &stemcell, "--cpi-config", "cpis.yml", "-v"];
    let import = |az: &str| {
        let mut options = extra_args.to_vec();
        let az = format!("az={az}");
        options.push(&az);
        clouds.hello.world.finish(clouds.hello.subcommand(&["state", "import"], &options))
    };
    assert_output_contains(&import("z-west").exits_with(3), "of CPI 'west'");
    import("z-east").success();
    let state = clouds.hello.state();
    for record in [&state["monopile"]["vm"], &state["disks"][0], &state["stemcells"][0]] {
        assert_eq!(record["cpi"], "east");
    }
    clouds.delete("z-east").success();
    assert_eq!(clouds.nonempty(), Vec::<&str>::new());
}
