//! Renders events: `plain` text, `progress` on a terminal, and `json`. Only this module uses indicatif and
//! dialoguer.

mod canvas;
mod frame;
mod json;
mod plain;
mod progress;
pub mod prompt;
mod renderer;
mod screenful;
mod stage_tree;
mod styled;
mod summary;
mod text;

pub use canvas::{can_redraw, columns};
pub use renderer::{Format, Options, Renderer, renderer};
pub use screenful::Screenful;
pub use styled::wrapped;
