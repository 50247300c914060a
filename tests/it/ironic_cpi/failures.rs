//! Nothing is left behind, whichever step of `create_vm` fails.

use serde_json::{Value, json};

use super::Metal;

const CREATION_ERROR: &str = "Bosh::Clouds::VMCreationFailed";
const CLOUD: &str = "Bosh::Clouds::CloudError";

/// Checks that the call fails and leaves only the stemcell.
#[track_caller]
fn assert_fails(metal: &Metal, node: &crate::support::ironic::Node, kind: &str, words: &str) {
    let stemcell = metal.create_stemcell();
    let message = metal.expect_error(kind, "create_vm", metal.create_vm_arguments(&stemcell, node));
    assert!(message.contains(words), "{message}");
    assert!(!message.contains("cleaning up failed"), "{message}");
    metal.assert_clean(node, &[&format!("stemcell-{stemcell}")]);
    metal.call("delete_stemcell", json!([stemcell]));
}

#[test]
fn node_that_does_not_fit_is_an_error() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let path = format!("/v1/nodes/{}", node.uuid);
    let replace = |key: &str, value: &str| json!([{"op": "replace", "path": key, "value": value}]);
    metal.ironic.call("PATCH", &path, Some(replace("/properties/capabilities", "iscsi_boot:false")));
    assert_fails(&metal, &node, CREATION_ERROR, "no capability 'iscsi_boot:true'");
    metal.ironic.call("PATCH", &path, Some(replace("/properties/capabilities", "iscsi_boot:true")));

    let connectors = metal.ironic.call("GET", &format!("/v1/volume/connectors?node={}", node.uuid), None);
    let connector = connectors["connectors"][0]["uuid"].as_str().unwrap().to_owned();
    metal.ironic.call("DELETE", &format!("/v1/volume/connectors/{connector}"), None);
    assert_fails(&metal, &node, CREATION_ERROR, "no volume connector of type 'iqn'");
    let connector = json!({"node_uuid": node.uuid, "type": "iqn", "connector_id": node.initiator});
    metal.ironic.call("POST", "/v1/volume/connectors", Some(connector));

    // Both volumes and both targets exist at this point.
    let ports = metal.ironic.call("GET", &format!("/v1/ports?node={}", node.uuid), None);
    metal.ironic.call("DELETE", &format!("/v1/ports/{}", ports["ports"][0]["uuid"].as_str().unwrap()), None);
    assert_fails(&metal, &node, CREATION_ERROR, "does not have any port");
}

#[test]
fn missing_node_is_an_error() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let stemcell = metal.create_stemcell();
    let arguments_with = |properties: Value| {
        let mut arguments = metal.create_vm_arguments(&stemcell, &node);
        arguments[2] = properties;
        arguments
    };
    let class = &node.resource_class;
    for properties in [
        json!({"resource_class": "no-such-class"}),
        json!({"resource_class": class, "capabilities": {"boot_mode": "uefi"}}),
        json!({"resource_class": class, "traits": ["CUSTOM_GPU"]}),
    ] {
        metal.expect_error(CREATION_ERROR, "create_vm", arguments_with(properties));
        metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
    }
    for properties in [json!({}), json!({"resource_class": class, "traits": "x"})] {
        metal.expect_error("InvalidCall", "create_vm", arguments_with(properties));
    }
    let arguments = metal.create_vm_arguments("00000000-0000-4000-8000-000000000000", &node);
    metal.expect_error("Bosh::Clouds::StemcellNotFound", "create_vm", arguments);
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
}

#[test]
fn foreign_volume_target_is_kept() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let foreign = json!({
        "node_uuid": node.uuid, "volume_type": "iscsi", "volume_id": "foreign", "boot_index": 1,
        "properties": {},
    });
    metal.ironic.call("POST", "/v1/volume/targets", Some(foreign));
    assert_fails(&metal, &node, CLOUD, "boot index '1'");
    let targets = metal.targets(&node);
    assert_eq!((targets.len(), &targets[0]["volume_id"]), (1, &json!("foreign")));
}

#[test]
fn failed_deployment_is_an_error() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    // Another file is in the place of this node's boot script.
    metal.ironic.obstruct(&format!("httpboot/{}", node.uuid));
    assert_fails(&metal, &node, CREATION_ERROR, "deploy failed");
}

#[test]
fn unreachable_storage_is_an_error() {
    let metal = Metal::new();
    let node = metal.ironic.create_node();
    let stemcell = metal.create_stemcell();
    let working_config = std::fs::read_to_string(metal.world.path("ironic.json")).unwrap();
    let mut config: Value = serde_json::from_str(&working_config).unwrap();
    config["storage"]["ipc_socket"] = json!(metal.world.path("no-such-socket"));
    metal.world.write("ironic.json", config.to_string());
    let message = metal.expect_error(CLOUD, "create_vm", metal.create_vm_arguments(&stemcell, &node));
    // The failure cannot be undone either, and the error names the next step.
    assert!(message.contains("is tgtd running?") && message.contains("cleaning up failed too"), "{message}");
    let cid = message.split("delete_vm of '").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    metal.world.write("ironic.json", working_config);
    metal.call("delete_vm", json!([cid]));
    metal.assert_clean(&node, &[&format!("stemcell-{stemcell}")]);
}
