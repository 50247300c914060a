use std::path::Path;

use proptest::prelude::*;

use super::*;

fn position() -> Position {
    Position { source: Some(std::sync::Arc::new("m.yml".into())), line: 7, column: 3 }
}

/// Interpolates `text` with these values.
fn interpolate(text: &str, values: &[(&str, Node)]) -> Result<(Node, Vec<String>)> {
    let mut given_values = GivenValues::default();
    for (name, value) in values {
        given_values.set(name, value.clone())?;
    }
    let mut node = yaml::load(text, Path::new("m.yml"))?;
    let definitions = Definitions::of(&node)?;
    let mut resolver = Resolver::new(&given_values, &definitions, None, OffsetDateTime::UNIX_EPOCH);
    resolver.interpolate(&mut node)?;
    let missing = resolver.missing_names().into_iter().map(str::to_owned).collect();
    Ok((node, missing))
}

#[test]
fn values_take_the_position_of_their_reference() {
    let inner = yaml::load("a:\n  b: 1\n", Path::new("vars.yml")).unwrap();
    let (node, _) = interpolate("x:\n  z: ((v))\n", &[("v", inner)]).unwrap();
    let value = node.get("x").unwrap().get("z").unwrap();
    assert_eq!(value.position.describe(), "m.yml:2:6");
    assert_eq!(value.get("a").unwrap().get("b").unwrap().position.describe(), "vars.yml:2:6");

    let (node, _) =
        interpolate("x: ((v.a))", &[("v", Node::from_json(&serde_json::json!({"a": [1]})))]).unwrap();
    assert_eq!(node.get("x").unwrap().as_seq().unwrap()[0].position.describe(), "m.yml:1:4");
}

#[test]
fn references_with_spaces_inside_text_get_a_note() {
    let (given_values, definitions) = (
        {
            let mut given_values = GivenValues::default();
            given_values.set("a", Node::string("1")).unwrap();
            given_values
        },
        Definitions::default(),
    );
    let mut resolver = Resolver::new(&given_values, &definitions, None, OffsetDateTime::UNIX_EPOCH);
    let mut node = Node { data: Data::String("x (( a ))".into()), position: position() };
    resolver.interpolate(&mut node).unwrap();
    assert_eq!(node.as_str(), Some("x (( a ))"));
    assert_eq!(resolver.take_notes().len(), 1);
}

/// Generates trees of texts with possible references and of other scalars.
fn tree() -> impl Strategy<Value = Node> {
    let scalar = prop_oneof![
        "(\\(\\( ?!?[ab](\\.[ab0])? ?\\)\\)|[(ab)x ]){0,4}".prop_map(Node::string),
        any::<i64>().prop_map(|number| Data::Int(number).into()),
        any::<bool>().prop_map(|flag| Data::Bool(flag).into()),
        Just(Data::Null.into()),
    ];
    scalar.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| Data::Seq(items).into()),
            prop::collection::vec(("(\\(\\([ab]\\)\\)|[cd]){1,2}", inner), 0..5).prop_map(|entries| {
                let mut map = Mapping::new();
                for (key, value) in entries {
                    map.insert(Node::string(key), value);
                }
                Data::Map(map).into()
            }),
        ]
    })
}

fn has_references(node: &Node) -> bool {
    let mut names = BTreeSet::new();
    mark_used(node, &mut names);
    !names.is_empty()
}

proptest! {
    /// Interpolation never panics, for any tree and values.
    #[test]
    fn interpolation_never_panics(mut node in tree(), a in tree(), b in tree()) {
        let mut given_values = GivenValues::default();
        given_values.set("a", a).unwrap();
        given_values.set("b", b).unwrap();
        let definitions = Definitions::default();
        let mut resolver = Resolver::new(&given_values, &definitions, None, OffsetDateTime::UNIX_EPOCH);
        let _ = resolver.interpolate(&mut node);
        let _ = resolver.missing_error(true);
    }

    /// Without values, the tree stays as it is and every reference is missing.
    #[test]
    fn tree_without_values_is_unchanged(node in tree()) {
        let (given_values, definitions) = (GivenValues::default(), Definitions::default());
        let mut resolver = Resolver::new(&given_values, &definitions, None, OffsetDateTime::UNIX_EPOCH);
        let mut result = node.clone();
        resolver.interpolate(&mut result).unwrap();
        prop_assert_eq!(resolver.missing_error(true).is_some(), has_references(&node));
        prop_assert_eq!(result, node);
    }

    /// With texts for all variables, every reference without spaces is replaced.
    #[test]
    fn all_references_with_values_are_replaced(texts in prop::collection::vec("(\\(\\(!?[ab]\\)\\)|[xy \
        ]){0,4}", 0..5)) {
        let mut given_values = GivenValues::default();
        given_values.set("a", Node::string("1")).unwrap();
        given_values.set("b", Node::string("2")).unwrap();
        let definitions = Definitions::default();
        let mut resolver = Resolver::new(&given_values, &definitions, None, OffsetDateTime::UNIX_EPOCH);
        let mut node: Node = Data::Seq(texts.iter().map(Node::string).collect()).into();
        resolver.interpolate(&mut node).unwrap();
        prop_assert!(!has_references(&node));
        let expected: Vec<Node> = texts
            .iter()
            .map(|text| ["((a))", "((!a))"].iter().fold(text.clone(), |text, one| text.replace(one, "1")))
            .map(|text| ["((b))", "((!b))"].iter().fold(text, |text, two| text.replace(two, "2")))
            .map(Node::string)
            .collect();
        prop_assert_eq!(node, Data::Seq(expected).into());
    }
}
