//! Options with a fixed set of values, and numbers within limits.

use std::fmt::Display;
use std::str::FromStr;

use clap::{Args, ValueEnum};

/// Returns a parser of clap for numbers from `minimum` to `maximum`. Without `maximum`, there is no upper
/// limit. Its error names the example.
pub(super) fn number<T>(
    minimum: T,
    maximum: Option<T>,
    example: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| *number >= minimum);
        let number = number.filter(|number| maximum.is_none_or(|maximum| *number <= maximum));
        number.ok_or_else(|| match maximum {
            Some(maximum) => {
                format!("expected a whole number from {minimum} to {maximum}, such as {example}")
            }
            None => format!("expected a whole number of at least {minimum}, such as {example}"),
        })
    }
}

/// The renderer of templates.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct RendererArgs {
    /// Render job templates with this renderer
    #[arg(
        long,
        alias = "templates",
        hide_short_help = true,
        value_enum,
        value_name = "MODE",
        default_value_t
    )]
    renderer: RendererValue,
}

impl From<RendererArgs> for erb::RendererChoice {
    fn from(args: RendererArgs) -> Self {
        args.renderer.into()
    }
}

/// `--renderer`: see [`erb::RendererChoice`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum RendererValue {
    /// Built-in renderer; installed Ruby for templates that it does not support
    #[default]
    Auto,
    /// Built-in renderer only
    Native,
    /// Installed Ruby only
    Ruby,
}

impl From<RendererValue> for erb::RendererChoice {
    fn from(value: RendererValue) -> Self {
        match value {
            RendererValue::Auto => erb::RendererChoice::Auto,
            RendererValue::Native => erb::RendererChoice::Native,
            RendererValue::Ruby => erb::RendererChoice::Ruby,
        }
    }
}

/// `--update-strategy`: see [`engine::plan::UpdateStrategy`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum UpdateStrategyValue {
    /// Keep the VM if possible, unless the last update failed and the jobs do not run
    #[default]
    Auto,
    /// Keep the VM if possible, even if the last update failed
    InPlace,
    /// Replace the VM for every change. If nothing has changed, use --recreate
    Recreate,
}

impl From<UpdateStrategyValue> for engine::plan::UpdateStrategy {
    fn from(strategy: UpdateStrategyValue) -> Self {
        match strategy {
            UpdateStrategyValue::Auto => engine::plan::UpdateStrategy::Auto,
            UpdateStrategyValue::InPlace => engine::plan::UpdateStrategy::InPlace,
            UpdateStrategyValue::Recreate => engine::plan::UpdateStrategy::NewVm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_the_limits_name_the_limits() {
        assert_eq!(number(1, Some(3), 2)("3"), Ok(3));
        for text in ["0", "4", "x", ""] {
            let problem = "expected a whole number from 1 to 3, such as 2".to_owned();
            assert_eq!(number(1, Some(3), 2)(text), Err(problem));
        }
        let problem = "expected a whole number of at least 1, such as 5".to_owned();
        assert_eq!(number(1_u16, None, 5)("70000"), Err(problem));
    }
}
