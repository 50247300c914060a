//! Flags with a fixed set of values, as the crates below know them.

use clap::ValueEnum;

/// `--templates`: see [`erb::Mode`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Templates {
    /// The native renderer, and Ruby, if there is one, for a template it does not support
    #[default]
    Auto,
    /// The native renderer alone: Ruby is never started
    Native,
    /// Ruby, which must be installed
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
    /// In the VM that runs where that is possible; else with a new one
    #[default]
    InPlace,
    /// Always with a new VM
    Recreate,
}

impl From<UpdateStrategy> for engine::plan::Strategy {
    fn from(strategy: UpdateStrategy) -> Self {
        match strategy {
            UpdateStrategy::InPlace => engine::plan::Strategy::InPlace,
            UpdateStrategy::Recreate => engine::plan::Strategy::Recreate,
        }
    }
}
