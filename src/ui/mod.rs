//! Renders events: `plain` as text, `progress` on a terminal, `json`, and `bosh` as the JSON of the bosh CLI.
//! Only this module uses indicatif and dialoguer.

pub mod bosh;
mod canvas;
mod frame;
mod full_screen;
mod json;
mod plain;
mod progress;
pub mod prompt;
mod renderer;
mod stage_tree;
mod styled;
mod summary;
mod text;

pub use canvas::{can_redraw, stdout_columns};
pub use full_screen::FullScreen;
pub use renderer::{Format, Options, Renderer, create_renderer};
pub use styled::{cut, fit, longest_word, width, wrap};
pub use text::clean_bytes;
