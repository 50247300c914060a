//! The CPIs that ship inside the program.

use base::stemcell_formats;

/// A CPI that ships inside the program: `cloud_provider.cpi: {builtin: NAME}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinCpi {
    /// Runs VMs as processes of this machine.
    Local,
    /// Manages bare metal through a standalone Ironic.
    Ironic,
    /// Runs VMs of this machine under QEMU.
    Qemu,
}

impl BuiltinCpi {
    /// All built-in CPIs.
    pub const ALL: [BuiltinCpi; 3] = [BuiltinCpi::Local, BuiltinCpi::Ironic, BuiltinCpi::Qemu];

    /// Returns the name of the CPI in manifests.
    pub fn name(self) -> &'static str {
        match self {
            BuiltinCpi::Local => "local",
            BuiltinCpi::Ironic => "ironic",
            BuiltinCpi::Qemu => "qemu",
        }
    }

    /// Returns the CPI with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cpi| cpi.name() == name)
    }

    /// Returns true if its VMs are on this machine.
    pub fn keeps_vms_here(self) -> bool {
        match self {
            BuiltinCpi::Local | BuiltinCpi::Qemu => true,
            BuiltinCpi::Ironic => false,
        }
    }

    /// Returns the stemcell formats that the CPI accepts, unless its property `stemcell_formats` names
    /// others.
    pub fn stemcell_formats(self) -> &'static [&'static str] {
        match self {
            BuiltinCpi::Local => stemcell_formats::LOCAL,
            BuiltinCpi::Ironic => stemcell_formats::IRONIC,
            BuiltinCpi::Qemu => stemcell_formats::QEMU,
        }
    }

    /// Joins all names with a separator, for messages.
    pub fn names(separator: &str) -> String {
        Self::ALL.map(Self::name).join(separator)
    }
}
