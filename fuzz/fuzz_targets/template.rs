//! Renders any template: it succeeds, is rejected or runs into a limit, without a panic or an endless loop.

#![no_main]

use std::sync::OnceLock;

use erb::native::{Limits, NativeRenderer};
use erb::{Context, RenderError, Renderer};
use libfuzzer_sys::fuzz_target;

/// The context of the differential test, whose corpus is the seed.
const CONTEXT: &str = include_str!("../../tests/templates/context.json");

/// Turns off leak detection. Values of a template that refer to each other are never freed, because there is
/// no garbage collector; the memory limit bounds them.
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
    // Stack frames under a sanitizer are several times as large.
    let limits = Limits { steps: 100_000, memory: 16 << 20, stack: 256 << 20, ..Limits::default() };
    match NativeRenderer::with_limits(limits).render("fuzz.erb", source, context) {
        Ok(_) => {}
        // A panic arrives as this error.
        Err(RenderError::RendererFailed { message }) => panic!("{message}"),
        Err(error) => drop(error.to_string()),
    }
});
