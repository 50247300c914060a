//! Finds items of long lists by an entry (`name=web`) without looking at every item.
//!
//! A list is identified by the address of its items, which no other list has while it exists. So every change
//! of a document must be reported here: additions to a list, removals, and values that are dropped.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use yaml::{Data, Node};

/// Shorter lists are searched item by item.
const MIN_ITEMS: usize = 32;
/// Stands in place of an item's index for a hash that several items have.
const SEVERAL_ITEMS: usize = usize::MAX;

/// Hash tables for the long lists of one document.
#[derive(Default)]
pub(crate) struct ItemLookup {
    /// By the address of the items.
    lists: HashMap<usize, ListLookup, RandomState>,
    hasher: RandomState,
}

/// Hash tables for one list, by key.
#[derive(Default)]
struct ListLookup {
    /// The number of items when the list was last seen.
    length: usize,
    keys: HashMap<String, KeyLookup, RandomState>,
}

/// The indices of items by the hash of the string that they have under one key. The table is absent until the
/// second search, because a single search is faster without it.
#[derive(Default)]
struct KeyLookup {
    by_hash: Option<HashMap<u64, usize, RandomState>>,
}

/// The result of a search in the tables.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LookupResult {
    /// Exactly this item has the entry.
    One(usize),
    /// No item has the entry.
    None,
    /// The items must be searched.
    Unknown,
}

/// An item of a list, by the address of the items and its index.
#[derive(Clone, Copy)]
pub(super) struct ItemAddress {
    /// The address of the items.
    list: usize,
    index: usize,
}

fn address(items: &[Node]) -> usize {
    items.as_ptr().addr()
}

fn text<'n>(item: &'n Node, key: &str) -> Option<&'n str> {
    item.get(key).and_then(Node::as_str)
}

impl ItemAddress {
    pub(super) fn new(items: &[Node], index: usize) -> Self {
        ItemAddress { list: address(items), index }
    }
}

impl ItemLookup {
    /// Searches for the item with this entry.
    pub(super) fn find(&mut self, items: &[Node], key: &str, value: &str) -> LookupResult {
        if items.len() < MIN_ITEMS {
            return LookupResult::Unknown;
        }
        let list = self.lists.entry(address(items)).or_default();
        if list.length != items.len() {
            *list = ListLookup { length: items.len(), ..ListLookup::default() };
        }
        let Some(key_lookup) = list.keys.get_mut(key) else {
            list.keys.insert(key.to_owned(), KeyLookup::default());
            return LookupResult::Unknown;
        };
        let by_hash = key_lookup.by_hash.get_or_insert_with(|| {
            let mut by_hash = HashMap::with_capacity_and_hasher(items.len(), RandomState::default());
            for (index, item) in items.iter().enumerate() {
                if let Some(text) = text(item, key) {
                    add_index(&mut by_hash, self.hasher.hash_one(text), index);
                }
            }
            by_hash
        });
        match by_hash.get(&self.hasher.hash_one(value)) {
            None => LookupResult::None,
            // Another text can have the same hash.
            Some(index) if items.get(*index).and_then(|item| text(item, key)) == Some(value) => {
                LookupResult::One(*index)
            }
            Some(_) => LookupResult::Unknown,
        }
    }

    /// Reports that the item at this address is new, and that the items after it have moved. `item_address`
    /// contains the address that the list had before the insertion.
    pub(super) fn note_insertion(&mut self, item_address: ItemAddress, items: &[Node]) {
        let Some(mut list) = self.lists.remove(&item_address.list) else { return };
        let index = item_address.index;
        let is_last = index == list.length;
        list.length += 1;
        for (key, by_hash) in list.existing_tables() {
            if !is_last {
                shift(by_hash, |other| other + usize::from(other >= index));
            }
            if let Some(text) = items.get(index).and_then(|item| text(item, key)) {
                add_index(by_hash, self.hasher.hash_one(text), index);
            }
        }
        self.lists.insert(address(items), list);
    }

    /// Reports that `item` was removed from the list, and that the items after it have moved.
    pub(super) fn note_removal(&mut self, item_address: ItemAddress, item: &Node) {
        self.drop_lists(item);
        let Some(list) = self.lists.get_mut(&item_address.list) else { return };
        list.length -= 1;
        let is_last = item_address.index == list.length;
        for (key, by_hash) in list.existing_tables() {
            if let Some(text) = text(item, key) {
                remove_index(by_hash, self.hasher.hash_one(text), item_address.index);
            }
            if !is_last {
                shift(by_hash, |index| index - usize::from(index > item_address.index));
            }
        }
    }

    /// Reports that `old` was replaced by `new`.
    pub(super) fn note_replacement(&mut self, item_address: ItemAddress, old: &Node, new: &Node) {
        self.drop_lists(old);
        let Some(list) = self.lists.get_mut(&item_address.list) else { return };
        for (key, by_hash) in list.existing_tables() {
            if let Some(text) = text(old, key) {
                remove_index(by_hash, self.hasher.hash_one(text), item_address.index);
            }
            if let Some(text) = text(new, key) {
                add_index(by_hash, self.hasher.hash_one(text), item_address.index);
            }
        }
    }

    /// Reports that the value of a key of a mapping was replaced or removed. `item_address` is that of the
    /// mapping, if it is an item of a list.
    pub(super) fn note_entry(
        &mut self,
        item_address: Option<ItemAddress>,
        key: &str,
        old: Option<&Node>,
        new: Option<&Node>,
    ) {
        old.into_iter().for_each(|old| self.drop_lists(old));
        let Some(item_address) = item_address else { return };
        let Some(list) = self.lists.get_mut(&item_address.list) else { return };
        let Some(by_hash) = list.keys.get_mut(key).and_then(|key_lookup| key_lookup.by_hash.as_mut()) else {
            return;
        };
        if let Some(text) = old.and_then(Node::as_str) {
            remove_index(by_hash, self.hasher.hash_one(text), item_address.index);
        }
        if let Some(text) = new.and_then(Node::as_str) {
            add_index(by_hash, self.hasher.hash_one(text), item_address.index);
        }
    }

    /// Drops the entries of all lists in a value that will be dropped. Another list can get their addresses.
    pub(super) fn drop_lists(&mut self, value: &Node) {
        if self.lists.is_empty() {
            return;
        }
        match &value.data {
            Data::Seq(items) => {
                self.lists.remove(&address(items));
                items.iter().for_each(|item| self.drop_lists(item));
            }
            Data::Map(map) => map.iter().for_each(|(_, value)| self.drop_lists(value)),
            _ => {}
        }
    }
}

impl ListLookup {
    /// Returns the keys that have a table.
    fn existing_tables(&mut self) -> impl Iterator<Item = (&str, &mut HashMap<u64, usize, RandomState>)> {
        self.keys
            .iter_mut()
            .filter_map(|(key, key_lookup)| Some((key.as_str(), key_lookup.by_hash.as_mut()?)))
    }
}

/// Adds the index of an item under the hash of its text.
fn add_index(by_hash: &mut HashMap<u64, usize, RandomState>, hash: u64, index: usize) {
    by_hash.entry(hash).and_modify(|entry| *entry = SEVERAL_ITEMS).or_insert(index);
}

/// Removes an index. If several items had the hash, it stays unknown which ones are left.
fn remove_index(by_hash: &mut HashMap<u64, usize, RandomState>, hash: u64, index: usize) {
    if by_hash.get(&hash) == Some(&index) {
        by_hash.remove(&hash);
    }
}

fn shift(by_hash: &mut HashMap<u64, usize, RandomState>, new_index: impl Fn(usize) -> usize) {
    by_hash
        .values_mut()
        .filter(|index| **index != SEVERAL_ITEMS)
        .for_each(|index| *index = new_index(*index));
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::Ops;
    use super::*;

    fn document() -> Node {
        let parts: Vec<String> = (0..MIN_ITEMS).map(|part| format!("{{name: n{part}}}")).collect();
        let mut text = String::from("items:\n");
        for number in 0..MIN_ITEMS + 2 {
            let role = number % 5;
            writeln!(text, "- {{name: n{number}, role: r{role}, parts: [{}]}}", parts.join(", ")).unwrap();
        }
        yaml::load(&text, Path::new("m.yml")).unwrap()
    }

    /// Operations on a list of named items and on the lists in them.
    fn operation() -> impl Strategy<Value = String> {
        let name = || (0..MIN_ITEMS + 4).prop_map(|number| format!("name=n{number}"));
        let item = || {
            prop_oneof![
                4 => name(),
                1 => (0..5).prop_map(|role| format!("role=r{role}")),
                1 => (-2..40).prop_map(|number: i32| number.to_string()),
            ]
        };
        let place = prop_oneof![
            2 => item().prop_map(|item| format!("/items/{item}")),
            2 => (item(), item()).prop_map(|(item, part)| format!("/items/{item}/parts/{part}")),
        ];
        let action = prop_oneof![
            "n[0-9]".prop_map(|value| ("/name", format!("replace, value: {value}"))),
            Just(("/name", "remove".to_owned())),
            Just(("/name", "replace, value: 1".to_owned())),
            Just(("/more?/list/-", "replace, value: 1".to_owned())),
            Just(("/role", "test, value: r1".to_owned())),
            Just(("?", "remove".to_owned())),
            "n[0-9]".prop_map(|value| ("", format!("replace, value: {{name: {value}, role: r1}}"))),
            "n[0-9]".prop_map(|value| ("?", format!("replace, value: {{name: {value}}}"))),
            "n[0-9]".prop_map(|value| (":before", format!("replace, value: {{name: {value}}}"))),
            "n[0-9]".prop_map(|value| (":after", format!("replace, value: {{name: {value}}}"))),
        ];
        prop_oneof![
            8 => (place, action).prop_map(|(place, (end, action))| {
                format!("- {{path: '{place}{end}', type: {action}}}")
            }),
            1 => Just("- {path: /items/-, type: replace, value: {name: n3}}".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn operations_have_the_same_effect_with_and_without_a_lookup(
            operations in prop::collection::vec(operation(), 1..60)
        ) {
            let (mut indexed_root, mut lookup) = (document(), ItemLookup::default());
            let mut searched_root = indexed_root.clone();
            for text in operations {
                let ops = Ops::load(&text, Path::new("o.yml")).unwrap();
                let outcome = ops.clone().apply_to(&mut indexed_root, &mut lookup);
                // A list gets tables when it is searched again, so a new lookup has none.
                let expected = ops.apply_to(&mut searched_root, &mut ItemLookup::default());
                let [outcome, expected] =
                    [outcome, expected].map(|result| result.map_err(|error| error.to_string()));
                prop_assert_eq!(outcome, expected, "{}", text);
                prop_assert_eq!(&indexed_root, &searched_root, "{}", text);
            }
        }
    }

    #[test]
    fn second_search_of_a_long_list_uses_a_table() {
        let document = document();
        let items = document.get("items").and_then(Node::as_seq).unwrap();
        let mut lookup = ItemLookup::default();
        assert_eq!(lookup.find(items, "name", "n7"), LookupResult::Unknown);
        assert_eq!(lookup.find(items, "name", "n7"), LookupResult::One(7));
        assert_eq!(lookup.find(items, "name", "absent"), LookupResult::None);
        assert_eq!(lookup.find(items, "role", "r1"), LookupResult::Unknown);
        assert_eq!(
            lookup.find(items, "role", "r1"),
            LookupResult::Unknown,
            "one of several equal items was found"
        );
        let short = &items[..MIN_ITEMS - 1];
        assert_eq!(lookup.find(short, "name", "n7"), LookupResult::Unknown);
        assert_eq!(lookup.find(short, "name", "n7"), LookupResult::Unknown);
    }
}
