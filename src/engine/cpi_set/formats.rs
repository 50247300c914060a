//! The stemcell formats that CPIs accept.

use crate::run_context::RunContext;
use base::text::or_list;
use base::{Error, Result};
use manifest::deployment::ArtifactOrigin;

/// Checks that the CPI accepts one of the formats of a stemcell, if both declare theirs.
pub(crate) fn check_formats(
    run: &RunContext,
    cpi_name: Option<&str>,
    accepted_formats: Option<&[String]>,
    stemcell_origin: &ArtifactOrigin,
    stemcell_formats: &[String],
) -> Result<()> {
    let accepted_formats = accepted_formats.filter(|formats| !formats.is_empty());
    match (accepted_formats, cpi_name) {
        (Some(formats), _)
            if stemcell_formats.is_empty()
                || stemcell_formats.iter().any(|format| formats.contains(format)) =>
        {
            Ok(())
        }
        (Some(formats), name) => {
            let cpi_label = name.map_or_else(|| "the CPI".to_owned(), |name| format!("CPI '{name}'"));
            Err(Error::invalid(format!(
                "{}{cpi_label} accepts the stemcell format{} {}, but this stemcell has {}",
                stemcell_origin.prefix(),
                if formats.len() == 1 { "" } else { "s" },
                formats.join(", "),
                stemcell_formats.join(", ")
            ))
            .with_hint(match stemcell_origin {
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
