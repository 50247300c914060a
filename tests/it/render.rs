//! Rendering of job templates, and the commands `render` and `render-template`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::support::hello::Hello;
use super::support::{Run, World};

const TEMPLATE_FILE: &str = "hello/release/jobs/hello/templates/hello.conf.erb";
/// A Ruby template that the native renderer does not support.
const BEYOND: &str = "port=<%= p('port') %>\nobjects=<%= ObjectSpace.count_objects.class %>\n";

/// Puts a `ruby` on the `PATH` that only records its start.
fn with_traced_ruby(world: &World, command: &mut Command) {
    let ruby =
        world.write("bin/ruby", format!("#!/bin/sh\necho ruby >> {}\n", world.path("trace").display()));
    std::fs::set_permissions(&ruby, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", world.path("bin").display()));
}

fn hide_ruby(command: &mut Command) {
    command.env("PATH", "/nowhere");
}

fn render(hello: &Hello, extra_args: &[&str]) -> Run {
    let mut options = vec!["--job", "hello"];
    options.extend(extra_args);
    hello.world.finish(hello.render_command(&options))
}

/// Checks that no CPI was called and no state was written.
#[track_caller]
fn assert_no_effect(hello: &Hello) {
    assert_eq!(hello.take_requests(), Vec::<serde_json::Value>::new());
    assert!(!hello.world.exists("state.json"));
    assert_eq!(hello.world.leftovers(), Vec::<String>::new());
}

#[test]
fn render_prints_job_files_without_side_effects() {
    let mut hello = Hello::without_vars_store();
    let greeting = "- {type: replace, path: /instance_groups/0/jobs/0/properties/greeting?, \
                    value: 'literal, and ((mbus_bootstrap_password))'}\n";
    hello.add_ops("greeting.yml", greeting);
    let run = render(&hello, &[]).success();
    assert!(run.stdout.contains("==> config/hello.conf <==\n"), "{}", run.stdout);
    assert!(run.stdout.contains(&format!("address={}\n", hello.ip())), "{}", run.stdout);
    // A value from a variable is secret. Plain text of the manifest is not.
    assert!(run.stdout.contains("greeting=literal, and <redacted>\n"), "{}", run.stdout);

    // Generated values are shown but not kept, so the next run generates other ones.
    let generated_value = || {
        let output = render(&hello, &["--show-secrets"]).success().stdout;
        let line = output.lines().find_map(|line| line.strip_prefix("greeting=literal, and ")).unwrap();
        line.to_owned()
    };
    let (first, second) = (generated_value(), generated_value());
    assert!(!first.is_empty() && first != second, "{first}");
    assert!(!hello.world.path("creds.yml").exists());
    assert_no_effect(&hello);
}

#[test]
fn render_writes_private_files() {
    let hello = Hello::new();
    let run = render(&hello, &["--out", "files"]).success();
    assert_eq!(run.stdout, "");
    let mode = |path: &str| hello.world.path(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("files/config/hello.conf"), 0o600);
    assert_eq!(mode("files/bin/ctl"), 0o700);
    assert!(hello.world.read("files/config/hello.conf").starts_with("address="));
    // A second run replaces the files of the first one.
    render(&hello, &["--out", "files"]).success();
    assert_no_effect(&hello);
}

#[test]
fn unknown_job_suggests_the_nearest_name() {
    let hello = Hello::new();
    let run = hello.world.finish(hello.render_command(&["--job", "helo"])).exits_with(3);
    assert!(run.stderr.contains("helo") && run.stderr.contains("hello"), "{}", run.stderr);
}

#[test]
fn missing_property_fails_before_any_effect() {
    let hello = Hello::new();
    hello.world.write(TEMPLATE_FILE, "address=<%= p('address', spec.ip) %>\nstore=<%= p('stroe') %>\n");
    // `--templates` is an earlier name of the option.
    for run in [hello.create(&[]), render(&hello, &[]), hello.create(&["--templates", "ruby"])] {
        let error = run.exits_with(3).stderr;
        assert!(
            error.contains("jobs/hello/templates/hello.conf.erb:2: Can't find property 'stroe'"),
            "{error}"
        );
        assert!(error.contains("did you mean the property 'store'?"), "{error}");
    }
    let error = hello.create(&[]).exits_with(3).stderr;
    assert!(error.contains("in `p('stroe')`"), "{error}");
    assert_no_effect(&hello);
}

#[test]
fn native_and_auto_do_not_start_ruby_needlessly() {
    let hello = Hello::new();
    for mode in ["native", "auto"] {
        let mut create = hello.command("create-env", &["--renderer", mode]);
        with_traced_ruby(&hello.world, &mut create);
        hello.world.finish(create).success();
        let mut delete = hello.command("delete-env", &["-n", "--renderer", mode]);
        with_traced_ruby(&hello.world, &mut delete);
        hello.world.finish(delete).success();
    }
    assert!(!hello.world.exists("trace"), "Ruby was started");
    // The stub leaves a trace when Ruby is used.
    let mut render = hello.render_command(&["--job", "hello", "--renderer", "ruby"]);
    with_traced_ruby(&hello.world, &mut render);
    hello.world.finish(render).exits_with(1);
    assert!(hello.world.exists("trace"));
}

#[test]
fn unsupported_ruby_fails_before_any_effect_without_ruby() {
    let hello = Hello::new();
    hello.world.write(TEMPLATE_FILE, BEYOND);
    let mut runs = Vec::new();
    let mut native = hello.command("create-env", &["--renderer", "native"]);
    with_traced_ruby(&hello.world, &mut native);
    runs.push(hello.world.finish(native));
    assert!(!hello.world.exists("trace"), "Ruby was started");
    let mut auto = hello.command("create-env", &[]);
    hide_ruby(&mut auto);
    runs.push(hello.world.finish(auto));
    for run in runs {
        let error = run.exits_with(3).stderr;
        assert!(
            error.contains(
                "jobs/hello/templates/hello.conf.erb:2: ObjectSpace.count_objects is not supported"
            ),
            "{error}"
        );
    }
    let mut ruby = hello.command("create-env", &["--renderer", "ruby"]);
    hide_ruby(&mut ruby);
    let error = hello.world.finish(ruby).exits_with(1).stderr;
    assert!(error.contains("'ruby' cannot be run to render templates"), "{error}");
    assert_no_effect(&hello);

    let output = render(&hello, &[]).success().stdout;
    assert!(output.contains("port=8580\nobjects=Hash\n"), "{output}");
    let mut native = hello.render_command(&["--job", "hello", "--renderer", "native"]);
    with_traced_ruby(&hello.world, &mut native);
    hello.world.finish(native).exits_with(3);
    assert!(!hello.world.exists("trace"), "Ruby was started");
}

#[test]
fn rendered_files_may_be_binary() {
    let hello = Hello::new();
    let spec = "hello/release/jobs/hello/spec";
    let extra_properties =
        hello.world.read(spec).replace("templates:\n", "templates:\n  keystore.erb: config/keystore\n");
    hello.world.write(spec, extra_properties);
    let source = "<% require 'base64' -%>\nport=<%= p('port') %>\n<%= Base64.decode64('/v8A') -%>\n";
    hello.world.write("hello/release/jobs/hello/templates/keystore.erb", source);
    let expected = b"port=8580\n\xfe\xff\0";
    render(&hello, &["--out", "files", "--show-secrets"]).success();
    assert_eq!(std::fs::read(hello.world.path("files/config/keystore")).unwrap(), expected);
    // Secrets in binary data cannot be recognised.
    let run = render(&hello, &[]).success();
    assert!(run.stdout.contains("==> config/keystore <==\n<13 bytes that are not UTF-8: "), "{}", run.stdout);

    hello.create(&[]).success();
    let on_vm = hello.find("work/cloud", "keystore");
    assert!(on_vm.iter().any(|path| std::fs::read(path).unwrap() == expected), "{on_vm:?}");
    hello.delete(&[]).success();
}

/// Returns a world with the context of the differential test.
fn world() -> World {
    let world = World::new();
    world.write("context.json", include_str!("../templates/context.json"));
    world
}

fn render_template(world: &World, extra_args: &[&str]) -> Run {
    let mut arguments = vec!["render-template", "--context", "context.json", "a.erb"];
    arguments.extend(extra_args);
    world.run(arguments)
}

#[test]
fn render_template_prints_only_the_file() {
    let world = world();
    world.write(
        "a.erb",
        "port: <%= p('web.port') %>\nname: <%= name %>/<%= index %>\n<%= p('web.map').to_json %>",
    );
    for mode in ["auto", "native", "ruby"] {
        let run = render_template(&world, &["--renderer", mode]).success();
        assert_eq!(run.stdout, "port: 8080\nname: web/2\n{\"k\":\"v\",\"n\":{\"deep\":[1,2,3]}}", "{mode}");
        assert_eq!(run.stderr, "", "{mode}");
    }
}

#[test]
fn render_template_errors_name_the_line() {
    let world = world();
    world.write("a.erb", "\n<%= p('web.prot') %>");
    let error = render_template(&world, &[]).exits_with(3).stderr;
    assert!(error.contains("a.erb:2: Can't find property 'web.prot'"), "{error}");
    assert!(error.contains("in `p('web.prot')`"), "{error}");
    assert!(error.contains("did you mean the property 'web.port'?"), "{error}");

    world.write("a.erb", "<% x = nil %>\n\n<%= x.fetch('a') %>");
    let error = render_template(&world, &[]).exits_with(3).stderr;
    assert!(error.contains("a.erb:3: undefined method `fetch' for nil:NilClass"), "{error}");
    assert!(error.contains(" (in `x.fetch('a')`)"), "{error}");

    world.write("a.erb", "ok\n<% if true %>\n");
    let error = render_template(&world, &[]).exits_with(3).stderr;
    assert!(error.contains("a.erb:3: unexpected end of the template\n"), "{error}");
    assert!(error.contains("  hint: correct the Ruby code in that line or before it"), "{error}");

    world.write("a.erb", "<% x = 'a'; loop { x += x } %>");
    let error = render_template(&world, &[]).exits_with(3).stderr;
    assert!(error.contains("a.erb:1: the values of the template need more"), "{error}");
}

#[test]
fn rejects_an_invalid_context() {
    let world = world();
    world.write("a.erb", "x");
    let problem = "cannot be used: ";
    for (bad_context, problem) in [
        ("", "is not valid JSON: "),
        ("[]", problem),
        ("{\"default_properties\": []}", problem),
        ("{\"job\": 1}", problem),
    ] {
        world.write("context.json", bad_context);
        let error = render_template(&world, &[]).exits_with(3).stderr;
        assert!(error.contains(&format!("'context.json' (--context) {problem}")), "{bad_context}: {error}");
    }
    std::fs::remove_file(world.path("context.json")).unwrap();
    assert!(
        render_template(&world, &[]).exits_with(3).stderr.contains("the file 'context.json' does not exist")
    );
}
