//! Interpolates any manifest with any variables: it fails, or the result can be written. Any `variables:`
//! block is parsed or rejected.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use manifest::variables::{Definitions, Resolver, GivenValues, syntax};
use manifest::vars_store::GeneratorSpec;

fuzz_target!(|input: (&str, &str)| {
    let (manifest, variables) = input;
    for reference in syntax::references(manifest) {
        assert!(syntax::as_single_reference(&manifest[reference.range.clone()]).is_some());
    }
    let Ok(mut root) = yaml::load(manifest, Path::new("manifest.yml")) else { return };
    let Ok(variables) = yaml::load(variables, Path::new("vars.yml")) else { return };
    let mut given_values = GivenValues::default();
    for (name, value) in variables.as_map().into_iter().flat_map(|map| map.iter()) {
        let _ = name.as_str().map(|name| given_values.set(name, value.clone()));
    }
    let Ok(definitions) = Definitions::of(&root) else { return };
    for definition in definitions.iter() {
        let _ =
            GeneratorSpec::parse(definition.kind.as_deref().unwrap_or_default(), definition.options.as_ref());
    }
    let mut resolver = Resolver::new(&given_values, &definitions, None, time::OffsetDateTime::UNIX_EPOCH);
    if resolver.remove_satisfied_definitions(&mut root).and_then(|()| resolver.interpolate(&mut root)).is_ok()
    {
        let _ = resolver.missing_error(true);
        let _ = yaml::emit(&root);
    }
});
