//! Reads the ranges of a user in `/etc/subuid` and `/etc/subgid`. Their lines are `NAME:START:COUNT`, where
//! NAME can also be the number of the user.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{IdRange, IdRanges, MAX_ID};

/// The files of ranges: for users, and for groups.
const RANGE_FILES: [&str; 2] = ["/etc/subuid", "/etc/subgid"];
/// The list of users.
const USERS_FILE: &str = "/etc/passwd";
/// The maximum size of each of these files, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The first id that is suggested for a new range, as `useradd` chooses it.
const FIRST_ID: u32 = 100_000;
/// The number of ids of a suggested range.
const NEW_IDS: u32 = 65_536;

/// Returns the ranges of the user. Fails with the reason why there are none.
pub(super) fn read(uid: u32, gid: u32) -> Result<IdRanges, String> {
    let user = user_name(&read_file(USERS_FILE).unwrap_or_default(), uid);
    let [users, groups] = RANGE_FILES.map(read_file);
    // A missing file has no ranges.
    let (users, groups) = (users?, groups?);
    let uids = find(&users, &user, uid, uid).map_err(|problem| format!("'{}' {problem}", RANGE_FILES[0]))?;
    let gids = find(&groups, &user, uid, gid).map_err(|problem| format!("'{}' {problem}", RANGE_FILES[1]))?;
    if let (Some(uids), Some(gids)) = (uids, gids) {
        return Ok(IdRanges { uids, gids });
    }
    let first_id = [&users, &groups].iter().map(|text| next_free_id(text)).max().unwrap_or(FIRST_ID);
    let new_range = format!("{first_id}-{}", first_id.saturating_add(NEW_IDS - 1));
    let (mut files, mut options) = (Vec::new(), Vec::new());
    for (range, file, option) in
        [(uids, RANGE_FILES[0], "--add-subuids"), (gids, RANGE_FILES[1], "--add-subgids")]
    {
        if range.is_none() {
            files.push(file);
            options.push(format!("{option} {new_range}"));
        }
    }
    Err(format!(
        "no range of ids in {} is for the user '{user}' (add one: `sudo usermod {} {user}`)",
        files.join(" and "),
        options.join(" ")
    ))
}

/// Returns the largest range of the user, whose own id is `id`. Lines of other users are not checked.
fn find(text: &str, user: &str, uid: u32, id: u32) -> Result<Option<IdRange>, String> {
    let uid = uid.to_string();
    let mut largest: Option<IdRange> = None;
    for (index, line) in text.lines().enumerate() {
        let (name, range) = line.trim().split_once(':').unwrap_or_default();
        if name != user && name != uid {
            continue;
        }
        let number = index + 1;
        let range = parse(range).ok_or_else(|| format!("is wrong in line {number}: not NAME:START:COUNT"))?;
        if range.start == 0 || range.contains(id) {
            return Err(format!("is wrong in line {number}: the range has an id of root or of this user"));
        }
        if largest.is_none_or(|largest| largest.count < range.count) {
            largest = Some(range);
        }
    }
    // The user has one of the ids.
    Ok(largest.map(|range| IdRange { count: range.count.min(MAX_ID), ..range }))
}

/// Parses `START:COUNT`. Returns `None` for an empty range, and for one that goes beyond the last id.
fn parse(text: &str) -> Option<IdRange> {
    let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse::<u32>().ok(),
        false => None,
    };
    let (start, count) = text.split_once(':')?;
    let range = IdRange { start: number(start)?, count: number(count)? };
    // The last number is no id: it means "unchanged" to chown(2).
    let end = range.start.checked_add(range.count)?;
    (range.count > 0 && end < u32::MAX).then_some(range)
}

/// Returns an id above all ranges of a file.
fn next_free_id(text: &str) -> u32 {
    let ranges = text.lines().filter_map(|line| parse(line.trim().split_once(':')?.1));
    let ends = ranges.map(|range| range.start.saturating_add(range.count));
    let is_usable = |end: &u32| end.checked_add(NEW_IDS).is_some();
    ends.filter(is_usable).max().unwrap_or(FIRST_ID).max(FIRST_ID)
}

/// Returns the name of a user in the list `text`, or the id.
fn user_name(text: &str, uid: u32) -> String {
    let uid = uid.to_string();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.unwrap_or(uid)
}

/// Reads a file of the system. A missing one is empty.
fn read_file(path: &str) -> Result<String, String> {
    let is_missing = !Path::new(path).exists();
    if is_missing {
        return Ok(String::new());
    }
    let read_error = |reason: &str| format!("'{path}' cannot be read: {reason}");
    let file = File::open(path).map_err(|error| read_error(&error.to_string()))?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_FILE_BYTES) {
        return Err(read_error("it is no file, or too large"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|error| read_error(&error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, count: u32) -> IdRange {
        IdRange { start, count }
    }

    #[test]
    fn largest_range_of_the_user_counts() {
        let text = "# comment\nother:wrong\nme:100000:10\nme:200000:70000\n 1001:300000:20\nother:1:1\n";
        assert_eq!(find(text, "me", 1001, 1001), Ok(Some(range(200_000, MAX_ID))));
        assert_eq!(find(text, "you", 1001, 1001), Ok(Some(range(300_000, 20))));
        assert_eq!(find(text, "you", 1002, 1002), Ok(None));
        assert_eq!(next_free_id(text), 300_020);
        assert_eq!(next_free_id("a:4294960000:10\nb:5:5"), FIRST_ID);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for line in [
            "me:0:5",
            "me:1000:5",
            "me:100000:0",
            "me:100000:4294967295",
            "me:4294967295:1",
            "me:-1:5",
            "me:+1:5",
            "me::5",
            "me:100000",
            "me:100000:5:6",
            "me:100000:5 6",
            "me:100000:99999999999999999999",
        ] {
            let problem = find(&format!("\n{line}\n"), "me", 1001, 1001).unwrap_err();
            assert!(problem.contains("line 2"), "{line}: {problem}");
        }
    }

    #[test]
    fn user_has_a_name_or_a_number() {
        assert_eq!(user_name("root:x:0:0::/:/bin/sh\nme:x:1001:1001::/:/bin/sh\n:x:5:5", 1001), "me");
        assert_eq!(user_name(":x:5:5", 5), "5");
    }
}
