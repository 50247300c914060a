//! The stemcell formats that the built-in CPIs accept.

/// The formats of `local`.
pub const LOCAL: &[&str] = &["local-directory", "local"];
/// The formats of `qemu`.
pub const QEMU: &[&str] = &["openstack-qcow2", "openstack-raw", "qemu-qcow2", "qemu-raw", "warden-tar"];
/// The formats of `ironic`.
pub const IRONIC: &[&str] = &["openstack-raw", "raw"];
