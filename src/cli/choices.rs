//! Flags with a fixed set of values.

use clap::{Args, ValueEnum};

/// The renderer of templates.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct RendererArgs {
    /// Render job templates with this renderer
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    templates: Templates,
}

impl From<RendererArgs> for erb::Mode {
    fn from(args: RendererArgs) -> Self {
        args.templates.into()
    }
}

/// `--templates`: see [`erb::Mode`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Templates {
    /// Built-in renderer; installed Ruby for templates that it does not support
    #[default]
    Auto,
    /// Built-in renderer only
    Native,
    /// Installed Ruby only
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
    /// Keep the VM if possible, unless the last update failed and the jobs do not run
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
