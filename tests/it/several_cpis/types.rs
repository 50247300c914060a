//! VM types, disk types and networks of a cloud config, and cloud properties that differ by CPI.

use serde_json::{Value, json};

use super::{Clouds, assert_output_contains, output_of};
use crate::support::hello::Hello;

/// Turns the example into a manifest for a director.
const V2: &str = "\
- {type: remove, path: /resource_pools}
- {type: remove, path: /disk_pools}
- {type: remove, path: /networks}
- {type: remove, path: /instance_groups/0/resource_pool}
- {type: remove, path: /instance_groups/0/persistent_disk_pool}
- {type: replace, path: /stemcells?, value: [{alias: default, os: local-hello, version: ((version)), \
url: file://stemcell}]}
- {type: replace, path: /instance_groups/0/stemcell?, value: default}
- {type: replace, path: /instance_groups/0/azs?, value: [z1]}
- {type: replace, path: /instance_groups/0/((size))?, value: ((of))}
- {type: replace, path: /instance_groups/0/vm_extensions?, value: [public]}
- {type: replace, path: /instance_groups/0/persistent_disk_type?, value: fast}
- {type: replace, path: /instance_groups/0/env?, value: {bosh: {mbus: {cert: ((mbus_bootstrap_ssl))}}}}
";

/// Returns a cloud config with this number of CPUs in its VM type.
fn cloud_config(hello: &Hello, cpus: u32, other: &str) -> String {
    let subnet = hello.ip().strip_suffix(".2").unwrap();
    format!(
        "azs: [{{name: z1, cloud_properties: {{zone: a, cpu: 0}}}}, {{name: z2}}]\n\
         vm_types:\n- {{name: small, cloud_properties: {{cpu: {cpus}}}}}\n- {{name: {other}, x: ((unset))}}\n\
         vm_extensions: [{{name: public, cloud_properties: {{open: true}}}}]\n\
         disk_types: [{{name: fast, disk_size: 1024, cloud_properties: {{type: ssd}}}}]\n\
         networks:\n- name: default\n  type: manual\n  subnets:\n\
         \x20 - {{range: 192.0.2.0/24, gateway: 192.0.2.1, az: z2}}\n\
         \x20 - {{range: {subnet}.0/24, gateway: {subnet}.1, azs: [z1], cloud_properties: {{id: n1}}}}\n\
         compilation: {{az: ((unset))}}\n"
    )
}

/// Returns the arguments of the last request of a method.
fn arguments(requests: &[Value], method: &str) -> Value {
    let request = requests.iter().rfind(|request| request["method"] == method);
    request.unwrap_or_else(|| panic!("no {method}"))["arguments"].clone()
}

#[test]
fn manifest_for_a_director_is_created_changed_and_deleted() {
    let mut hello = Hello::new();
    let ops_of_type = V2.replace("((size))", "vm_type").replace("((of))", "small");
    hello.add_ops("v2.yml", &ops_of_type.replace("((version))", "1.latest"));
    let config = ["--cloud-config", "cloud.yml"];
    hello.world.write("cloud.yml", cloud_config(&hello, 1, "large"));
    hello.create(&config).success();
    let requests = hello.take_requests();
    let vm = arguments(&requests, "create_vm");
    assert_eq!(vm[2], json!({"zone": "a", "cpu": 1, "open": true}));
    assert_eq!(vm[3]["default"]["cloud_properties"], json!({"id": "n1"}));
    let disk = arguments(&requests, "create_disk");
    assert_eq!((&disk[0], &disk[1]), (&json!(1024), &json!({"type": "ssd"})));
    // Entries that are not in use do not matter.
    hello.world.write("cloud.yml", cloud_config(&hello, 1, "huge"));
    assert_output_contains(&hello.create(&config).success(), "Nothing to do");
    hello.world.write("cloud.yml", cloud_config(&hello, 2, "huge"));
    let plan = hello.world.finish(hello.command("plan", &config)).success();
    assert_output_contains(&plan, "Replace the VM: its cloud properties change");
    assert_output_contains(&plan, "~ /vm_types/name=small/cloud_properties/cpu: 1 -> 2");
    // The CPI calculates the cloud properties of a size.
    let size = "{cpu: 1, ram: 64, ephemeral_disk_size: 128}";
    let ops_of_size = V2.replace("((size))", "vm_resources").replace("((of))", size);
    hello.world.write("v2.yml", ops_of_size.replace("((version))", "\"1.0\""));
    hello.take_requests();
    hello.create(&config).success();
    let requests = hello.take_requests();
    let calculation = arguments(&requests, "calculate_vm_cloud_properties");
    assert_eq!(calculation, json!([{"cpu": 1, "ram": 64, "ephemeral_disk_size": 128}]));
    let expected = json!({"zone": "a", "open": true, "cpu": 1, "ram": 64, "ephemeral_disk": {"size": 128}});
    assert_eq!(arguments(&requests, "create_vm")[2], expected);
    assert_output_contains(&hello.create(&config).success(), "Nothing to do");
    // A size that the machine does not have is refused before the VM is touched.
    hello
        .world
        .write("v2.yml", ops_of_size.replace("((version))", "latest").replace("cpu: 1", "cpu: 100000"));
    let run = hello.create(&config).exits_with(1);
    assert_output_contains(&run, "v2.yml:");
    assert_output_contains(&run, "the VM needs 100000 CPUs");
    assert_output_contains(&run, "`vm_type` in place of `vm_resources`");
    hello.world.write("v2.yml", ops_of_size.replace("((version))", "\"2.0\""));
    let run = hello.create(&config).exits_with(3);
    assert_output_contains(
        &run,
        "has the version '2.0', but the stemcell at its `url` has the version '1.0'",
    );
    hello.ask_greeting_and_counter();
    hello.delete(&config).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn manifest_moves_by_zone_without_a_default_cpi() {
    let mut clouds = Clouds::new();
    clouds.hello.add_ops(
        "by-cpi.yml",
        "- {type: replace, path: /cloud_provider/cpi, value: none}\n\
         - {type: remove, path: /instance_groups/name=hello/persistent_disk_pool}\n\
         - type: replace\n  path: /resource_pools/name=vms/cloud_properties_by_cpi?\n\
         \x20 value: {east: {size: e}, west: {size: w, zone: own}}\n\
         - {type: replace, path: /resource_pools/name=vms/cloud_properties, value: {size: any}}\n",
    );
    let run = clouds.create("z-default", &[]).exits_with(3);
    assert_output_contains(
        &run,
        "`cloud_provider.cpi` is `none`, so the instance group needs a `cpi` in availability zone \
         'z-default'",
    );
    let vm_properties = |cloud: &str| {
        let vms = clouds.resources(cloud, "vms");
        let text = clouds.hello.world.read(format!("{cloud}/vms/{}/vm.json", vms.first().unwrap()));
        serde_json::from_str::<Value>(&text).unwrap()["cloud_properties"].clone()
    };
    clouds.create("z-east", &[]).success();
    assert_eq!(vm_properties("east"), json!({"zone": "e", "more": "az", "size": "e"}));
    // No CPI of this name exists, and the other ones need not be asked.
    let list = clouds.hello.world.finish(
        clouds.hello.subcommand(&["cpi", "list"], &["--cpi-config", "cpis.yml", "-v", "az=z-east", "--json"]),
    );
    let names: Vec<Value> = serde_json::from_str::<Vec<Value>>(&list.success().stdout).unwrap();
    let names: Vec<&Value> = names.iter().map(|cpi| &cpi["name"]).collect();
    assert_eq!(names, ["east", "west", "foreign"]);
    let run = clouds.create("z-west", &["-n"]).success();
    assert_eq!(vm_properties("west"), json!({"size": "w", "zone": "own"}), "{}", output_of(&run));
    assert_eq!(clouds.nonempty(), ["west"]);
    clouds.delete("z-west").success();
    clouds.hello.add_ops(
        "typo.yml",
        "- {type: replace, path: /resource_pools/name=vms/cloud_properties_by_cpi/eats?, value: {}}\n",
    );
    let run = clouds.create("z-east", &[]).exits_with(3);
    assert_output_contains(
        &run,
        "names CPI 'eats', which the CPI config does not have\n  hint: did you mean 'east'?\n",
    );
}
