//! Renders events: `plain` text, `progress` on a terminal, `json`, and `bosh` as upstream's JSON. Only this
//! module uses indicatif and dialoguer.

pub mod bosh;
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
pub use styled::{fitted, longest_word, width, wrapped};
pub use text::for_terminal;
