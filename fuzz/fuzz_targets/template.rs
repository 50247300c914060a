//! Any template renders, is refused or runs into a limit: nothing breaks off, nothing runs on.

#![no_main]

use std::sync::OnceLock;

use erb::native::{Limits, NativeRenderer};
use erb::{Context, RenderError, Renderer};
use libfuzzer_sys::fuzz_target;

/// The context of the differential test: its corpus is the seed.
const CONTEXT: &str = include_str!("../../tests/templates/context.json");

/// Values of a template that hold each other are not freed: there is no garbage collector, and the limit of
/// memory bounds them. The sanitizer's search for leaks would report nothing else.
#[unsafe(no_mangle)]
pub extern "C" fn __lsan_is_turned_off() -> i32 {
    1
}

fuzz_target!(|source: &str| {
    static CONTEXT_READ: OnceLock<Context> = OnceLock::new();
    let context = CONTEXT_READ.get_or_init(|| {
        let json = serde_json::from_str(CONTEXT).expect("the context is JSON");
        Context::from_json(&json).expect("the context is one")
    });
    // A sanitizer's frames are several times as large as others.
    let limits = Limits { steps: 100_000, memory: 16 << 20, stack: 256 << 20 };
    match NativeRenderer::with_limits(limits).render("fuzz.erb", source, context) {
        Ok(_) => {}
        // What a panic becomes.
        Err(RenderError::Ruby { message }) => panic!("{message}"),
        Err(error) => drop(error.to_string()),
    }
});
