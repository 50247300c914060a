//! The size of this machine, which limits the VMs on it.

use serde_json::{Value, json};

use super::args::Arguments;
use super::failure::{CpiFailure, CpiResult};
use base::JsonObject;

/// `calculate_vm_cloud_properties`: checks that the machine is as large as the wanted VM. Memory and disk are
/// in MiB.
pub(crate) fn calculate_cloud_properties(requirements: JsonObject) -> CpiResult<Value> {
    let names = ["cpu", "ram", "ephemeral_disk_size"];
    let values = names.iter().map(|name| requirements.get(*name).cloned().unwrap_or(Value::Null)).collect();
    let mut arguments = Arguments::new("calculate_vm_cloud_properties", values, 3, 3)?;
    let (cpu, ram, disk) = (
        arguments.take_size("cpu")?,
        arguments.take_size("ram")?,
        arguments.take_size("ephemeral_disk_size")?,
    );
    let cpus = std::thread::available_parallelism().map_or(u64::MAX, |count| count.get() as u64);
    if cpu > cpus {
        return Err(CpiFailure::cloud(format!("cpu: the VM needs {cpu} CPUs, and this machine has {cpus}")));
    }
    let memory = memory_mib();
    if ram > memory {
        return Err(CpiFailure::cloud(format!(
            "ram: the VM needs {ram} MiB of memory, and this machine has {memory} MiB"
        )));
    }
    Ok(json!({"cpu": cpu, "ram": ram, "ephemeral_disk": {"size": disk}}))
}

/// Returns the memory of this machine in MiB.
pub(crate) fn memory_mib() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) >> 20
}

#[cfg(test)]
mod tests {
    use super::super::failure::FailureKind;
    use super::*;

    fn hash(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn rejects_sizes_beyond_the_machine() {
        let small = json!({"cpu": 1, "ram": 16, "ephemeral_disk_size": 10});
        assert_eq!(
            calculate_cloud_properties(hash(small)).unwrap(),
            json!({"cpu": 1, "ram": 16, "ephemeral_disk": {"size": 10}})
        );
        assert!(
            calculate_cloud_properties(hash(json!({"cpu": 100_000, "ram": 16, "ephemeral_disk_size": 10})))
                .is_err()
        );
        assert!(
            calculate_cloud_properties(hash(
                json!({"cpu": 1, "ram": 1_000_000_000, "ephemeral_disk_size": 10})
            ))
            .is_err()
        );
        assert_eq!(
            calculate_cloud_properties(hash(json!({"cpu": 1}))).unwrap_err().kind,
            FailureKind::InvalidCall
        );
    }
}
