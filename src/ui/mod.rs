//! Renders events as text: `plain`, `progress` (on a terminal) and `json`. indicatif and dialoguer appear
//! nowhere else.

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
