//! The VM's vitals for `get_state full`: load, processor, memory and disks.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::directories::Directories;
use super::disks::is_mount_point;

/// Returns the vitals in the form of the bosh-agent, where percentages and sizes are strings.
pub(super) fn read_vitals(directories: &Directories) -> Value {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<_> = load.split_whitespace().take(3).collect();
    let memory = Memory::read();
    let mut disk = Map::new();
    for (name, path, is_always_mounted) in [
        ("system", Path::new("/").to_path_buf(), true),
        ("ephemeral", directories.base().join("data"), false),
        ("persistent", directories.store(), false),
    ] {
        if is_always_mounted || is_mount_point(&path).unwrap_or(false) {
            disk.extend(disk_usage(&path).map(|usage| (name.to_owned(), usage)));
        }
    }
    json!({
        "cpu": processor(),
        "disk": disk,
        "load": load,
        "mem": memory.usage("MemTotal", "MemAvailable"),
        "swap": memory.usage("SwapTotal", "SwapFree"),
        "uptime": {"secs": uptime()},
    })
}

/// Returns the share of the VM's memory that `kb` KiB take, in percent.
pub(super) fn percent_of_memory(kb: u64) -> f64 {
    percent(kb, Memory::read().get("MemTotal"))
}

/// The content of `/proc/meminfo`.
struct Memory(String);

impl Memory {
    fn read() -> Self {
        Memory(fs::read_to_string("/proc/meminfo").unwrap_or_default())
    }

    fn get(&self, name: &str) -> u64 {
        let value =
            |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok();
        self.0.lines().find_map(value).unwrap_or_default()
    }

    fn usage(&self, total_key: &str, free_key: &str) -> Value {
        let total = self.get(total_key);
        let used_kb = total.saturating_sub(self.get(free_key));
        json!({"percent": format!("{:.0}", percent(used_kb, total)), "kb": used_kb.to_string()})
    }
}

/// Returns the shares of user, system and waiting time since the machine started, in percent.
fn processor() -> Value {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|number| number.parse().ok())
        .collect();
    let total = numbers.iter().take(8).sum();
    let share = |indices: &[usize]| {
        let part = indices.iter().filter_map(|index| numbers.get(*index)).sum();
        format!("{:.1}", percent(part, total))
    };
    json!({"user": share(&[0, 1]), "sys": share(&[2, 5, 6]), "wait": share(&[4])})
}

fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default()
}

fn disk_usage(path: &Path) -> Option<Value> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let share = |total: u64, free: u64| format!("{:.0}", percent(total.saturating_sub(free), total));
    Some(json!({
        "percent": share(stat.f_blocks, stat.f_bfree),
        "inode_percent": share(stat.f_files, stat.f_ffree),
    }))
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 * 100.0 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vitals_match_the_format_of_bosh_agent() {
        let vitals = read_vitals(&Directories::new(Path::new("/nowhere")));
        assert_eq!(vitals["load"].as_array().unwrap().len(), 3);
        assert!(vitals["mem"]["kb"].as_str().unwrap().parse::<u64>().unwrap() > 0);
        assert!(vitals["uptime"]["secs"].as_u64().unwrap() > 0);
        let system: f64 = vitals["disk"]["system"]["percent"].as_str().unwrap().parse().unwrap();
        assert!((0.0..=100.0).contains(&system));
    }
}
