//! The native renderer: evaluates the Ruby in a template, with access only to the template and its context.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use super::context::Context;
use super::error::{RenderError, TemplateError};
use super::evaluator::eval;
pub use super::evaluator::meter::{Limits, SignalCheck};
use super::parse::{self, ParseError, Template};
use super::{Renderer, has_code};

/// The maximum number of parsed templates that a renderer keeps.
const MAX_CACHED_TEMPLATES: usize = 1024;

/// The result of parsing a template, which the cache and all its renderings share.
type ParseOutcome = Arc<Result<Arc<Template>, ParseError>>;

/// Renders templates without Ruby. It keeps up to [`MAX_CACHED_TEMPLATES`] parsed templates, so that the same
/// source is seldom parsed twice.
///
/// Each rendering runs on a thread of its own, with [`Limits::stack`] bytes of stack. Several threads may
/// render with one renderer at the same time.
#[derive(Default)]
pub struct NativeRenderer {
    limits: Limits,
    signal_check: Option<SignalCheck>,
    /// The parsed templates, by the hash and the length of their source.
    templates: Mutex<HashMap<(u64, usize), ParseOutcome>>,
}

impl NativeRenderer {
    /// Creates a renderer with the default [`Limits`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a renderer with these [`Limits`].
    pub fn with_limits(limits: Limits) -> Self {
        NativeRenderer { limits, ..Self::default() }
    }

    /// Returns this renderer with a check for signals, which each rendering calls about once per millisecond.
    /// When it returns a signal, the rendering fails with [`RenderError::Interrupted`].
    #[must_use]
    pub fn with_signal_check(self, signal_check: SignalCheck) -> Self {
        NativeRenderer { signal_check: Some(signal_check), ..self }
    }

    /// Parses a template, or returns it from the cache.
    fn parse_or_reuse(&self, source: &str) -> ParseOutcome {
        let mut hasher = DefaultHasher::new();
        source.hash(&mut hasher);
        let key = (hasher.finish(), source.len());
        if let Some(outcome) = self.templates.lock().get(&key) {
            return Arc::clone(outcome);
        }
        let outcome = Arc::new(parse::parse(source).map(Arc::new));
        let mut cache = self.templates.lock();
        if cache.len() < MAX_CACHED_TEMPLATES {
            cache.insert(key, Arc::clone(&outcome));
        }
        outcome
    }

    /// Parses and evaluates a template on the current thread.
    fn render_on_this_thread(
        &self,
        template_name: &str,
        source: &str,
        context: &Context,
    ) -> Result<Vec<u8>, RenderError> {
        let template = template_name.to_owned();
        match &*self.parse_or_reuse(source) {
            Ok(parsed_template) => {
                eval::run(template_name, parsed_template, context, self.limits, self.signal_check.clone())
            }
            Err(ParseError::Syntax { line, message }) => {
                Err(RenderError::Template(Box::new(TemplateError {
                    template,
                    line: Some(*line),
                    expression: None,
                    class: "SyntaxError".into(),
                    message: message.clone(),
                    unknown_properties: Vec::new(),
                })))
            }
            Err(ParseError::Unsupported { line, construct }) => {
                Err(RenderError::Unsupported { template, line: *line, construct: construct.clone() })
            }
            Err(ParseError::TooLarge(message)) => {
                Err(RenderError::Limit { template, line: 1, message: message.clone() })
            }
        }
    }
}

impl fmt::Debug for NativeRenderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeRenderer").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Renderer for NativeRenderer {
    fn render(&self, template_name: &str, source: &str, context: &Context) -> Result<Vec<u8>, RenderError> {
        if !has_code(source) {
            return Ok(source.as_bytes().to_vec());
        }
        // Parsing and evaluating recurse as deep as the template nests, so they need a large stack.
        std::thread::scope(|scope| {
            let work = || self.render_on_this_thread(template_name, source, context);
            let thread = std::thread::Builder::new()
                .name("template".into())
                .stack_size(self.limits.stack)
                .spawn_scoped(scope, work);
            let renderer_error = |reason: String| RenderError::RendererFailed {
                message: format!("template '{template_name}' was not rendered: {reason}"),
            };
            match thread {
                Ok(handle) => {
                    handle.join().unwrap_or_else(|_| Err(renderer_error("its thread panicked".to_owned())))
                }
                Err(error) => Err(renderer_error(format!("a thread for it cannot be started: {error}"))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{Limits, NativeRenderer};
    use crate::{Context, RenderError, Renderer};

    fn context() -> Context {
        Context::from_json(&serde_json::json!({
            "index": 0, "job": {"name": "web"}, "address": "10.0.0.1",
            "networks": {"default": {"ip": "10.0.0.1"}},
            "job_properties": {"nats": {"port": 4222}},
            "default_properties": {"nats.port": 1, "nats.user": "nats", "nats.password": null}
        }))
        .unwrap()
    }

    fn render(source: &str) -> Result<String, RenderError> {
        let output = NativeRenderer::new().render("a.erb", source, &context())?;
        Ok(String::from_utf8(output).expect("these tests make text"))
    }

    #[test]
    fn job_properties_override_defaults() {
        assert_eq!(render("<%= p('nats.user') %>@<%= p('nats.port') %>").unwrap(), "nats@4222");
        assert_eq!(render("<%= spec.networks.default.ip %> <%= name %>").unwrap(), "10.0.0.1 web");
    }

    #[test]
    fn missing_property_is_named() {
        let RenderError::Template(error) = render("a\n<%= p('nats.usr') %>").unwrap_err() else { panic!() };
        assert_eq!(error.line, Some(2));
        assert_eq!(error.expression.as_deref(), Some("p('nats.usr')"));
        assert_eq!(error.message, "Can't find property 'nats.usr'");
        assert_eq!(error.unknown_properties, ["nats.usr"]);
    }

    #[test]
    fn files_processes_and_environment_are_unsupported() {
        for source in
            ["<%= File.read('/etc/passwd') %>", "<%= `id` %>", "<%= ENV['HOME'] %>", "<% system('id') %>"]
        {
            assert!(matches!(render(source), Err(RenderError::Unsupported { line: 1, .. })), "{source}");
        }
    }

    #[test]
    fn limits_stop_endless_loops_and_huge_values() {
        let limits = Limits { steps: 100_000, memory: 1 << 20, stack: 64 << 20, ..Limits::default() };
        let renderer = NativeRenderer::with_limits(limits);
        for source in [
            "<% loop { } %>",
            "<% while true do end %>",
            "<% a = 'x'; loop { a += a } %>",
            "<% x = 'a' * 10_000_000 %>",
            "<% begin; loop { }; rescue Exception; end %>",
        ] {
            let result = renderer.render("a.erb", source, &context());
            assert!(matches!(result, Err(RenderError::Limit { .. })), "{source}: {result:?}");
        }
    }

    #[test]
    fn work_and_memory_of_methods_are_limited() {
        // The limits are as small as possible: with the default ones, a debug build takes many seconds.
        let limits = Limits { steps: 200_000, memory: 2 << 20, ..Limits::default() };
        let renderer = NativeRenderer::with_limits(limits);
        for source in [
            "<% ('a' * 1_000_000).each_char {} %>",
            "<% ('a' * 1_000_000).split('') %>",
            "<% ('a'..'zzzzzzzzzzzz').to_a %>",
            "<% (1..10**9).to_a %>",
            "<% IPAddr.new('::/0').to_range.to_a %>",
            "<% s = 'a' * 1_000_000; 10_000_000.times { s.count('a') } %>",
            "<% def method_missing(name, *list) = foo(name, *list)\nbar %>",
            "<% a = [1]; 40.times { a = [a, a] }; a.inspect %>",
            "<% a = [1]; 40.times { a = [a, a] }; a.to_json %>",
            "<% a = [1]; 40.times { a = [a, a] }; a.hash %>",
            "<% a = [1]; b = [1]; 40.times { a = [a, a]; b = [b, b] }; { a => 1 }[b] %>",
            "<% c = Object; 10_000.times { c = Class.new(c) } %>",
            "<% ('9' * 1_000_000).to_i %>",
            "<% 3.pow(2**100_000, 2**100_000 + 1) %>",
            "<% 100_000.times.map { |i| 2**100_000 + i } %>",
            "<% 10_000.times.map { |i| ('x' * 100_000 + i.to_s).to_sym } %>",
            "<% d = Digest::SHA256.new; 10_000.times { d << 'a' * 100_000 } %>",
            "<% a = []; a[2**40] = 1 %>",
            "<% [1].fill(2, 1, 2**40) %>",
            "<% 'a'.center(2**40) %>",
            "<% ('a' * 100_000).gsub('a', 'b' * 100) %>",
        ] {
            let result = renderer.render("a.erb", source, &context());
            let Err(RenderError::Limit { message, .. }) = &result else { panic!("{source}: {result:?}") };
            // The time limit must not end it, because the time depends on the machine.
            assert!(!message.contains("seconds"), "{source}: {message}");
        }
    }

    #[test]
    fn text_with_many_matches_is_read_once() {
        assert_eq!(render("<%= (\"a\\n\" * 50_000).split(/\\n/).size %>").unwrap(), "50000");
        assert_eq!(render("<%= ('éA' * 20_000).gsub(/a/i, 'b').count('b') %>").unwrap(), "20000");
    }

    #[test]
    fn freed_memory_does_not_count() {
        let limits = Limits { memory: 512 << 10, ..Limits::default() };
        let source = "<% 100.times { 'a' * 100_000 } %><% 10_000.times { [1, 'b', { c: 1 }] } %>ok";
        assert_eq!(NativeRenderer::with_limits(limits).render("a.erb", source, &context()).unwrap(), b"ok");
    }

    #[test]
    fn values_nested_in_each_other_are_dropped_without_recursion() {
        // Dropping them by recursion would need more than this stack, which has less than 56 bytes for each
        // level.
        let limits = Limits { memory: u64::MAX, stack: 1 << 20, ..Limits::default() };
        let renderer = NativeRenderer::with_limits(limits);
        for nest in [
            "a = [a]",
            "a = { a: a }",
            "b = a; a = lambda { b }",
            "o = Object.new; o.instance_variable_set(:@a, a); a = o",
            "a = a.method(:class)",
            "a = Set.new([a])",
        ] {
            let source = format!("<% a = nil; 20_000.times {{ |i; b, o| {nest} }} %>ok");
            assert_eq!(renderer.render("a.erb", &source, &context()).unwrap(), b"ok", "{nest}");
        }
    }

    #[test]
    fn signal_ends_a_rendering() {
        let start = Instant::now();
        let signal_check = move || (start.elapsed() > Duration::from_millis(50)).then_some(2);
        let renderer = NativeRenderer::new().with_signal_check(Arc::new(signal_check));
        for source in ["<% loop { } %>", "<% begin; loop { }; rescue Exception; loop { }; end %>"] {
            let error = renderer.render("a.erb", source, &context()).unwrap_err();
            assert_eq!(error, RenderError::Interrupted { template: "a.erb".into(), signal: 2 });
        }
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    }

    #[test]
    fn regexps_that_match_differently_than_ruby_are_unsupported() {
        for source in [
            "<%= 'a' =~ /a{1,2}+/ %>",
            "<%= 'a' =~ /(?<x>a)|(?<x>b)/ %>",
            "<%= 'stra\u{df}e' =~ /ss/i %>",
            "<%= 'ss' =~ /\u{df}/i %>",
            "<%= 'a'.lines('') %>",
            "<%= JSON.parse('{}', object_class: OpenStruct) %>",
        ] {
            assert!(matches!(render(source), Err(RenderError::Unsupported { line: 1, .. })), "{source}");
        }
    }

    #[test]
    fn endless_recursion_raises_system_stack_error() {
        let result = render("<% def f(x) = f(x + 1)\nf(1) %>");
        let Err(RenderError::Template(error)) = result else { panic!("{result:?}") };
        assert_eq!(error.class, "SystemStackError");
    }

    #[test]
    fn deep_nesting_neither_crashes_nor_hangs() {
        for (open, close) in [("[", "]"), ("(", ")"), ("!", ""), ("-", ""), ("->{", "}")] {
            let source = format!("<%= {}1{} %>", open.repeat(20_000), close.repeat(20_000));
            drop(render(&source));
        }
        assert!(render(&format!("<% {} %>", "def f(a=".repeat(20_000))).is_err());
    }

    #[test]
    fn template_without_code_is_its_own_output() {
        assert_eq!(render("a %> b").unwrap(), "a %> b");
    }
}
