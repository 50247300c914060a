//! The pictures in `docs/pictures`: SVGs of real runs on a terminal of 80 columns.
//!
//! `MONOPILE_UPDATE=1 cargo test --test it pictures` draws them again; that of a VM is drawn by
//! `qemu_cpi::life`. Times, sizes, ids and the order of steps differ from run to run. A picture is stale if
//! anything else differs, or if it shows another VM than the other pictures: they tell the story of one
//! environment, and are drawn together.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use regex::Regex;

use crate::support::network::Network;
use crate::support::process::{RunToEnd as _, WAIT_TIMEOUT};
use crate::support::pty::Pty;
use crate::support::{MONOPILE, World, is_updating};

/// The width and height of a character, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 16.0;
const COLUMNS: u16 = 80;

/// The terminal colours 1 to 6 and 8, on a light and a dark background. Black and white become the text
/// colour.
const PALETTE: [(u8, &str, &str); 7] = [
    (1, "#cf222e", "#ff7b72"),
    (2, "#116329", "#7ee787"),
    (3, "#7d4e00", "#f2cc60"),
    (4, "#0550ae", "#79c0ff"),
    (5, "#8250df", "#d2a8ff"),
    (6, "#1b7c83", "#76e3ea"),
    (8, "#6e7781", "#8b949e"),
];

pub(crate) struct PictureRecorder {
    pub(crate) world: World,
    pub(crate) network: Network,
}

impl PictureRecorder {
    pub(crate) fn new() -> PictureRecorder {
        PictureRecorder { world: World::new(), network: Network::new() }
    }

    /// Prepares the program for the directory, with logs whose path fits into a line.
    pub(crate) fn monopile<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.network.command(MONOPILE);
        self.world.enter(&mut command).env("XDG_STATE_HOME", self.world.path("var")).args(arguments);
        command
    }

    /// Runs a command on a terminal. `$PWD` in it is the directory.
    fn run(&self, line: &str, timeout: Duration) -> Vec<Vec<(String, avt::Pen)>> {
        let directory = self.world.path("").display().to_string();
        let directory = directory.trim_end_matches('/');
        let mut command = self.monopile(line.split(' ').map(|word| word.replace("$PWD", directory)));
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        let mut pty = Pty::start(command, (COLUMNS, 100));
        pty.end_within(timeout);
        let mut rows = pty.styled_rows();
        let empty = |row: &Vec<(String, avt::Pen)>| row.iter().all(|(text, _)| text.trim().is_empty());
        while rows.last().is_some_and(empty) {
            rows.pop();
        }
        rows
    }

    /// Draws the output of a command, without an option that is added to it.
    pub(crate) fn draw(&self, line: &str, hidden_option: &str, timeout: Duration) -> String {
        let mut rows = vec![vec![(format!("$ monopile {line}"), avt::Pen::default())]];
        rows.extend(self.run(&format!("{line}{hidden_option}"), timeout));
        // A path of the same length keeps the line breaks.
        let root = self.world.root().display().to_string();
        let home = "/home/operator";
        assert_eq!(root.len(), home.len());
        let mut svg = head(rows.len(), line);
        for (number, row) in rows.iter().enumerate() {
            let y = MARGIN + CELL.1 * (number as f64 + 0.75);
            write!(svg, "<text y=\"{y:.1}\">").unwrap();
            let mut column = 0;
            for (text, pen) in row {
                let x = MARGIN + CELL.0 * f64::from(column);
                column += u32::try_from(text.chars().count()).unwrap();
                let visible_text = with_quiet_load(&text.replace(&root, home));
                if !visible_text.trim().is_empty() {
                    let class = class(pen);
                    let visible_text = visible_text.trim_end();
                    // This keeps the columns when another font is substituted.
                    let length = CELL.0 * visible_text.chars().count() as f64;
                    write!(
                        svg,
                        "<tspan x=\"{x:.1}\" textLength=\"{length:.1}\"{class}>{}</tspan>",
                        escape_xml(visible_text)
                    )
                    .unwrap();
                }
            }
            svg.push_str("</text>\n");
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Replaces the load and CPU use of the machine that runs the tests.
fn with_quiet_load(text: &str) -> String {
    let load = Regex::new(r"[\d.]+ [\d.]+ [\d.]+, CPU user [\d.]+% sys [\d.]+% wait [\d.]+%").unwrap();
    load.replace(text, "0.12 0.08 0.03, CPU user 1.9% sys 0.7% wait 0.1%").into_owned()
}

fn head(rows: usize, line: &str) -> String {
    let (width, height) = (2.0 * MARGIN + CELL.0 * f64::from(COLUMNS), 2.0 * MARGIN + CELL.1 * rows as f64);
    let palette = |is_dark: bool| {
        let colour = |(number, light, night): (u8, &str, &str)| {
            format!(".c{number}{{fill:{}}}", if is_dark { night } else { light })
        };
        PALETTE.map(colour).concat()
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" \
         role=\"img\">\n<title>monopile {}</title>\n<style>\n\
         text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans \
         Mono',monospace;fill:#1f2328;white-space:pre}}\n\
         rect{{fill:#f6f8fa;stroke:#d1d9e0}}\n.b{{font-weight:bold}}.f{{opacity:.65}}{}\n\
         @media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}\
         rect{{fill:#0d1117;stroke:#3d444d}}{}}}\n</style>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\"/>\n",
        escape_xml(line),
        palette(false),
        palette(true),
        width - 1.0,
        height - 1.0,
    )
}

fn class(pen: &avt::Pen) -> String {
    let mut classes = Vec::new();
    if pen.is_bold() {
        classes.push("b".to_owned());
    }
    if pen.is_faint() {
        classes.push("f".to_owned());
    }
    if let Some(avt::Color::Indexed(colour)) = pen.foreground() {
        classes.push(format!("c{colour}"));
    }
    if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the text of a picture without the parts that differ from run to run: times, sizes, ids, line
/// breaks and the order of steps.
fn mask_variable_parts(svg: &str) -> String {
    let body = svg.split_once("</style>").map_or("", |(_, body)| body);
    let text = Regex::new("<[^>]*>").unwrap().replace_all(body, "");
    let mut text: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    for (pattern, replacement) in [
        // Only a run of a minute or more lists its steps and the durations of its stages.
        (r"Steps1\..*Succeededin", "Succeededin"),
        // A table cuts off a long ID.
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+", "ID"),
        (r"(\d+(\.\d+)?(h|min|ms|s|d|KiB|MiB|GiB|B|%)?)+", "N"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, replacement).into_owned();
    }
    // One package may be uploaded while another one is compiled, so their order also differs.
    let mut steps: Vec<&str> = text.split('✓').collect();
    steps.sort_unstable();
    steps.join("✓")
}

/// Returns the CIDs of the VMs in a picture.
fn vms(svg: &str) -> Vec<String> {
    let cid = Regex::new("vm-[0-9a-f]{8}-[0-9a-f-]{27}").unwrap();
    cid.find_iter(svg).map(|cid_match| cid_match.as_str().to_owned()).collect()
}

#[test]
fn pictures_are_up_to_date() {
    let recorder = PictureRecorder::new();
    let world = &recorder.world;
    world.run(["example", "hello"]).success();
    world.write(
        "port.yml",
        "- {type: replace, path: /instance_groups/name=hello/jobs/name=hello/properties/port, value: 8590}\n",
    );
    world.write("typo.yml", "- type: replace\n  path: /instance_groups/name=helo/instances\n  value: 1\n");
    let pictures = [
        // The option keeps the order of the steps, and is not shown.
        ("create", "create-env hello/manifest.yml", " --parallel 1"),
        ("plan", "plan hello/manifest.yml -o port.yml", ""),
        ("status", "status hello/manifest.yml", ""),
        ("error", "create-env hello/manifest.yml -o typo.yml", ""),
    ];
    let new_pictures = pictures.map(|(name, line, option)| (name, recorder.draw(line, option, WAIT_TIMEOUT)));
    assert!(recorder.monopile(["delete-env", "hello/manifest.yml"]).run_to_end().status.success());
    assert_eq!(world.leftovers(), Vec::<String>::new());
    check(&new_pictures);
}

/// Compares pictures of one environment with those in the documentation, or replaces these.
pub(crate) fn check(new_pictures: &[(&str, String)]) {
    let path = |name: &str| directory().join(format!("{name}.svg"));
    let mut stale = Vec::new();
    for (name, svg) in new_pictures {
        assert!(svg.len() > 1000, "{svg}");
        let stored_svg = std::fs::read_to_string(path(name)).unwrap_or_default();
        if mask_variable_parts(&stored_svg) != mask_variable_parts(svg) {
            stale.push(format!(
                "{name}:\n{}\n{}",
                mask_variable_parts(&stored_svg),
                mask_variable_parts(svg)
            ));
        }
    }
    let stored_svgs = new_pictures.iter().filter_map(|(name, _)| std::fs::read_to_string(path(name)).ok());
    let vms: BTreeSet<String> = stored_svgs.flat_map(|svg| vms(&svg)).collect();
    if vms.len() != 1 {
        stale.push(format!("the pictures show several VMs: {vms:?}"));
    }
    if is_updating() && !stale.is_empty() {
        std::fs::create_dir_all(directory()).unwrap();
        new_pictures.iter().for_each(|(name, svg)| std::fs::write(path(name), svg).unwrap());
        return;
    }
    assert!(stale.is_empty(), "stale: run the test with MONOPILE_UPDATE=1\n{}", stale.join("\n"));
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures")
}
