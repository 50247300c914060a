//! Mistakes that the bosh CLI ignores and monopile reports: misspelt properties, keys and variables.

use crate::support::Run;
use crate::support::hello::Hello;

#[track_caller]
fn assert_warns(run: Run, expected: &[&str]) {
    let run = run.success();
    for text in expected {
        assert!(run.stderr.contains(text), "`{text}` is not in:\n{}", run.stderr);
    }
    let warnings = run.stderr.lines().filter(|line| line.contains("warning: "));
    assert_eq!(warnings.count(), expected.len(), "{}", run.stderr);
}

#[test]
fn warns_about_undeclared_properties() {
    let mut hello = Hello::new();
    let properties = "/instance_groups/name=hello/jobs/name=hello/properties";
    hello.add_ops("slip.yml", &format!("- {{type: replace, path: {properties}/prot?, value: 8580}}\n"));
    let warning = "slip.yml:1:94: `instance_groups[0].jobs[0]` sets the property 'prot', which no job \
                   declares: it is ignored; did you mean 'port'?";
    assert_warns(hello.world.finish(hello.command("plan", &[])), &[warning]);
    assert_warns(hello.create(&[]), &[warning]);
    hello.delete(&[]).success();
    let group = "/instance_groups/name=hello/properties?";
    hello.add_ops(
        "group.yml",
        &format!("- {{type: replace, path: {group}, value: {{sedrvice: {{a: 1}}}}}}\n"),
    );
    let in_group = "instance group 'hello' sets the property 'sedrvice', which no job declares";
    assert_warns(hello.world.finish(hello.command("plan", &[])), &[warning, in_group]);
}

#[test]
fn warns_about_variables_on_the_command_line_that_nothing_uses() {
    let hello = Hello::new();
    let not_used =
        |name: &str, option: &str| format!("variable '{name}' ({option}) is not used: the manifest has");
    hello.world.write("text", "secret");
    hello.world.write("others.yml", "shared_by_all_environments: 1\n");
    let slips = ["-v", "prot=8580", "-v", "zzz.part=1", "--var-file", "xyzzy=text", "-l", "others.yml"];
    let run = hello.world.finish(hello.command("plan", &slips)).success();
    let suggestion = format!("{} no ((prot)); did you mean 'port'?", not_used("prot", "--var"));
    for text in [suggestion, not_used("zzz", "--var"), not_used("xyzzy", "--var-file")] {
        assert!(run.stderr.contains(&text), "{text}: {}", run.stderr);
    }
    assert_eq!(run.stderr.matches("is not used").count(), 3, "{}", run.stderr);
    // Variables that only a part of the cloud config for other environments uses are not misspelt.
    hello.world.write("cloud.yml", "vm_types: [{name: unused, cloud_properties: {size: ((size))}}]\n");
    let run = hello.world.finish(hello.command("plan", &["--cloud-config", "cloud.yml", "-v", "size=1"]));
    assert!(!run.success().stderr.contains("is not used"));
}

#[test]
fn warns_about_a_misspelt_type_of_a_variable_with_a_value() {
    let mut hello = Hello::new();
    hello.add_ops(
        "type.yml",
        "- {type: replace, path: /variables/name=mbus_bootstrap_password/type, value: pasword}\n",
    );
    let warning =
        "there is no variable type 'pasword' for 'mbus_bootstrap_password'; did you mean 'password'?";
    assert_warns(hello.world.finish(hello.command("plan", &[])), &[warning]);
    hello.add_ops("given.yml", "- {type: replace, path: /variables/name=default_ca/type, value: user}\n");
    assert_warns(hello.world.finish(hello.command("plan", &[])), &[warning]);
}

#[test]
fn error_about_a_missing_section_names_the_misspelt_key() {
    let hello = Hello::new();
    let manifest = hello.world.read("hello/manifest.yml").replace("\nreleases:", "\nrelaeses:");
    hello.world.write("hello/manifest.yml", manifest);
    let run = hello.world.finish(hello.command("plan", &[])).exits_with(3);
    let hint = "hint: write `releases` in place of the key 'relaeses' (hello/manifest.yml:";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
}

#[test]
fn warns_about_unknown_keys_of_cloud_provider_and_cpis() {
    let mut hello = Hello::new();
    hello.add_ops(
        "slips.yml",
        "- {type: replace, path: /cloud_provider/propertis?, value: {}}\n\
         - {type: replace, path: /cloud_provider/cpi/argumets?, value: []}\n\
         - {type: replace, path: /cloud_provider/cpi/xyzzy?, value: []}\n\
         - {type: replace, path: /instance_groups/0/vm_extensoins?, value: []}\n\
         - {type: replace, path: /vm_types?, value: [{name: a, cloud_propertys: {}}]}\n\
         - {type: replace, path: /networks/0/subnets/0/cloud_properties_by_cpis?, value: {}}\n\
         - {type: replace, path: /networks/0/subnets/0/static, value: [127.0.79.999]}\n\
         - {type: replace, path: /networks/0/subnets/0/reserved?, value: [10.9.9.9 - 10.9.9.20]}\n\
         - {type: replace, path: /relases?, value: []}\n\
         - {type: replace, path: /meta?, value: []}\n\
         - {type: replace, path: /instance_groups/0/resource_pol?, value: vms}\n",
    );
    hello.world.write("cpis.yml", "cpis:\n- {name: a, type: local, exec_pathh: b}\n");
    assert_warns(
        hello.world.finish(hello.command("plan", &["--cpi-config", "cpis.yml"])),
        &[
            "the manifest has the unknown key 'relases', which is ignored; did you mean 'releases'?",
            "`instance_groups[0]` has the unknown key 'resource_pol', which is ignored; did you mean \
                'resource_pool'?",
            "`cloud_provider` has the unknown key 'propertis', which is ignored; did you mean 'properties'?",
            "`cloud_provider.cpi` has the unknown key 'argumets', which is ignored; did you mean \
                'arguments'?",
            "`cloud_provider.cpi` has the unknown key 'xyzzy', which is ignored\n",
            "`instance_groups[0]` has the unknown key 'vm_extensoins', which is ignored; did you mean \
                'vm_extensions'?",
            "`vm_types[0]` has the unknown key 'cloud_propertys', which is ignored; did you mean \
                'cloud_properties'?",
            "`networks[0].subnets[0]` has the unknown key 'cloud_properties_by_cpis', which is \
                ignored; did you mean 'cloud_properties_by_cpi'?",
            "`networks[0].subnets[0].static` has '127.0.79.999', which is not an IP address: only \
                a director uses `static`\n",
            "`networks[0].subnets[0].reserved` has '10.9.9.9 - 10.9.9.20', which is not in the \
                `range` 127.",
            "cpis.yml:2:26: `cpis[0]` has the unknown key 'exec_pathh', which is ignored; did you mean \
                'exec_path'?",
        ],
    );
}
