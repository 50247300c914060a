//! Flags with a fixed set of values.

use clap::ValueEnum;

/// `--templates`: see [`erb::Mode`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Templates {
    /// Native renderer, with installed Ruby for unsupported templates
    #[default]
    Auto,
    /// Native renderer only
    Native,
    /// Ruby only; it must be installed
    Ruby,
}

impl From<Templates> for erb::Mode {
    fn from(templates: Templates) -> Self {
        match templates {
            Templates::Auto => erb::Mode::Auto,
            Templates::Native => erb::Mode::Native,
            Templates::Ruby => erb::Mode::Ruby,
        }
    }
}

/// `--update-strategy`: see [`engine::plan::Strategy`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum UpdateStrategy {
    /// Keep the VM if possible, but not if an update failed and left no jobs running
    #[default]
    Auto,
    /// Keep the VM if possible, even if the last update failed
    InPlace,
    /// Always replace the VM
    Recreate,
}

impl From<UpdateStrategy> for engine::plan::Strategy {
    fn from(strategy: UpdateStrategy) -> Self {
        match strategy {
            UpdateStrategy::Auto => engine::plan::Strategy::Auto,
            UpdateStrategy::InPlace => engine::plan::Strategy::InPlace,
            UpdateStrategy::Recreate => engine::plan::Strategy::Recreate,
        }
    }
}
