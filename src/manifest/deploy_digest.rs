//! The manifest content that decides whether a deploy is needed.
//!
//! A CPI config is not part of it, because changed credentials and renamed CPIs need no deploy. The
//! availability zone's CPI is compared with the state instead.

use super::{Deployment, LoadedManifest};
use base::Result;
use yaml::{self, Data, Node};

/// Returns the text whose digest the state records.
pub fn deploy_digest(loaded: &LoadedManifest) -> Result<String> {
    let mut root = loaded.root.clone();
    if loaded.has_cpi_config()
        && let Data::Map(map) = &mut root.data
    {
        map.remove("cpis");
        if let Some(Node { data: Data::Seq(zones), .. }) = map.get_mut("azs") {
            zones.iter_mut().for_each(without_cpi);
        }
    }
    let mut text = yaml::emit(&root);
    if let Some(config) = &loaded.cloud_config
        && let Some((_, zone)) = Deployment::parse_az(&loaded.root, Some(config))?
    {
        let mut zone = zone.clone();
        without_cpi(&mut zone);
        text += "--- # the availability zone\n";
        text += &yaml::emit(&zone);
    }
    Ok(text)
}

fn without_cpi(zone: &mut Node) {
    if let Data::Map(zone) = &mut zone.data {
        zone.remove("cpi");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn text(manifest: &str, cpi_config: Option<&str>, cloud_config: Option<&str>) -> String {
        let node = |text: &str| yaml::load(text, Path::new("x.yml")).unwrap();
        let loaded = LoadedManifest {
            root: node(manifest),
            cpi_config: cpi_config.map(node),
            cloud_config: cloud_config.map(node),
            redactor: base::redact::Redactor::default(),
            notes: Vec::new(),
            warnings: Vec::new(),
            vars_store: None,
            encryption: Default::default(),
            stored_certificates: Vec::new(),
            values: Vec::new(),
            previous_mbus: Vec::new(),
        };
        deploy_digest(&loaded).unwrap()
    }

    const GROUP: &str = "instance_groups: [{name: g, azs: [z1]}]\n";

    #[test]
    fn digest_ignores_cpi_names_and_credentials() {
        let manifest = |cpis: &str, cpi: &str, key: &str| {
            format!("{GROUP}azs: [{{name: z1, cpi: {cpi}, cloud_properties: {{zone: {key}}}}}]\n{cpis}")
        };
        let one = text(&manifest("cpis: [{name: a, type: x, properties: {key: 1}}]", "a", "k"), None, None);
        assert_eq!(one, text(&manifest("cpis: [{name: b, type: x}]", "b", "k"), None, None));
        assert_eq!(one, text(&manifest("", "b", "k"), Some("cpis: []"), None));
        assert_ne!(one, text(&manifest("", "b", "other"), Some("cpis: []"), None));
        // Without a CPI config, the text is the whole manifest.
        let plain = manifest("", "a", "k");
        assert_eq!(text(&plain, None, None), yaml::emit(&yaml::load(&plain, Path::new("x.yml")).unwrap()));
    }

    #[test]
    fn digest_covers_only_the_zone_in_use() {
        let config = |zone: &str, other: &str| {
            let zones = format!(
                "azs: [{{name: z1, cpi: a, cloud_properties: {{zone: {zone}}}}}, {{name: z2{other}}}]\n"
            );
            text(GROUP, Some("cpis: []"), Some(&zones))
        };
        assert_eq!(config("k", ""), config("k", ", cpi: b"));
        assert_ne!(config("k", ""), config("other", ""));
        let unused = text("instance_groups: [{name: g}]\n", None, Some("azs: [{name: z1}]"));
        assert_eq!(unused, text("instance_groups: [{name: g}]\n", None, None));
    }
}
