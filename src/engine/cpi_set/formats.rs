//! The stemcell formats that CPIs accept.

use crate::run_context::RunContext;
use base::text::or_list;
use base::{Error, Result};
use manifest::deployment::ArtifactOrigin;

/// Checks that the CPI accepts the stemcell, which is named in `origin`, if both declare their formats.
pub(crate) fn check_formats(
    run: &RunContext,
    name: Option<&str>,
    cpi: Option<&[String]>,
    origin: &ArtifactOrigin,
    stemcell: &[String],
) -> Result<()> {
    let formats = cpi.filter(|formats| !formats.is_empty());
    match (formats, name) {
        (Some(formats), _)
            if stemcell.is_empty() || stemcell.iter().any(|format| formats.contains(format)) =>
        {
            Ok(())
        }
        (Some(formats), name) => {
            let cpi_label = name.map_or_else(|| "the CPI".to_owned(), |name| format!("CPI '{name}'"));
            Err(Error::invalid(format!(
                "{}{cpi_label} accepts the stemcell format{} {}, but this stemcell has {}",
                origin.prefix(),
                if formats.len() == 1 { "" } else { "s" },
                formats.join(", "),
                stemcell.join(", ")
            ))
            .with_hint(match origin {
                ArtifactOrigin::Manifest { .. } => {
                    format!("name a stemcell of the format {} in its `url`", or_list(formats))
                }
                ArtifactOrigin::CommandLine => {
                    format!("pass a stemcell of the format {}", or_list(formats))
                }
            }))
        }
        (None, Some(name)) => {
            run.reporter.note(format!(
                "CPI '{name}' does not say which stemcell formats it accepts; uploading this one"
            ));
            Ok(())
        }
        (None, None) => Ok(()),
    }
}
