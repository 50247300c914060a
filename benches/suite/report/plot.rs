//! Plots cost by size as SVG, with logarithmic axes. Linear growth is parallel to the dashed line.

use std::fmt::Write as _;

use crate::findings::{Figure, Findings};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 290.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 8] =
    ["#0b6e4f", "#c1440e", "#2a5caa", "#8e44ad", "#b8860b", "#16858b", "#7f3b3b", "#555555"];

/// Plots all figures measured at several sizes with the same unit. Returns `None` if there are none.
pub(super) fn growth(title: &str, findings: &Findings) -> Option<String> {
    let mut names: Vec<&str> = findings.figures.iter().map(|figure| figure.name.as_str()).collect();
    let mut distinct = std::collections::HashSet::new();
    names.retain(|name| distinct.insert(*name));
    let figures_of = |name: &str| -> Vec<&Figure> {
        let is_shown = |figure: &&Figure| figure.name == name && figure.min > 0.0;
        findings.figures.iter().filter(is_shown).collect()
    };
    let mut series: Vec<Vec<&Figure>> =
        names.into_iter().map(figures_of).filter(|figures| figures.len() > 1).collect();
    let unit = series.first()?.first()?.unit;
    series.retain(|figures| figures.iter().all(|figure| figure.unit == unit));
    let all = || series.iter().flatten();
    let low = all().map(|figure| figure.min).fold(f64::INFINITY, f64::min) / 1.3;
    let high = all().map(|figure| figure.max).fold(0.0, f64::max) * 1.3;
    let x = |scale: f64| LEFT + (WIDTH - LEFT - RIGHT) * (scale.ln() / 16f64.ln() * 0.9 + 0.05);
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / low).ln() / (high / low).ln();

    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' \
         height='{HEIGHT}' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' \
         fill='white'/>\n\
         <text x='{LEFT}' y='28' font-size='14'>{}</text>\n",
        escape_xml(title)
    );
    for scale in [1.0, 4.0, 16.0] {
        let column = x(scale);
        draw_line(&mut svg, (column, TOP), (column, HEIGHT - BOTTOM), "stroke='#ddd'");
        writeln!(svg, "<text x='{column:.1}' y='{:.1}' text-anchor='middle'>×{scale}</text>", HEIGHT - 30.0)
            .unwrap();
    }
    for value in ticks(low, high) {
        let height = y(value);
        draw_line(&mut svg, (LEFT, height), (WIDTH - RIGHT, height), "stroke='#ddd'");
        let label = unit.show(value).replace(".0 ", " ");
        writeln!(svg, "<text x='{:.1}' y='{:.1}' text-anchor='end'>{label}</text>", LEFT - 6.0, height + 4.0)
            .unwrap();
    }
    if let Some(first) = series.first().and_then(|figures| figures.first()) {
        // The line ends at the edge of the plot or at 16 times the size.
        let end = (high / first.median * f64::from(first.scale)).min(16.0);
        let value = first.median * end / f64::from(first.scale);
        let start = (x(f64::from(first.scale)), y(first.median));
        draw_line(&mut svg, start, (x(end), y(value)), "stroke='#999' stroke-dasharray='5 4'");
    }
    for (number, figures) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<(f64, f64)> =
            figures.iter().map(|figure| (x(f64::from(figure.scale)), y(figure.median))).collect();
        for pair in points.windows(2) {
            draw_line(&mut svg, pair[0], pair[1], &format!("stroke='{colour}' stroke-width='2'"));
        }
        for (figure, point) in figures.iter().zip(&points) {
            draw_line(
                &mut svg,
                (point.0, y(figure.min)),
                (point.0, y(figure.max)),
                &format!("stroke='{colour}'"),
            );
            writeln!(svg, "<circle cx='{:.1}' cy='{:.1}' r='3.5' fill='{colour}'/>", point.0, point.1)
                .unwrap();
        }
        let (x, y) = (WIDTH - RIGHT + 16.0, TOP + 18.0 * number as f64 + 8.0);
        draw_line(&mut svg, (x, y), (x + 20.0, y), &format!("stroke='{colour}' stroke-width='2'"));
        let name = escape_xml(&figures[0].name);
        writeln!(svg, "<text x='{:.1}' y='{:.1}'>{name}</text>", x + 26.0, y + 4.0).unwrap();
    }
    let (middle, bottom) = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 10.0);
    writeln!(svg, "<text x='{middle}' y='{bottom}' text-anchor='middle'>size (dashed: linear)</text>")
        .unwrap();
    writeln!(svg, "<text x='8' y='{:.1}'>{}</text>\n</svg>", TOP - 8.0, unit.axis()).unwrap();
    Some(svg)
}

/// Returns round values between two others: 1, 2, 5, 10, 20, …, or only powers of ten if there would be too
/// many.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high / low > 200.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let values = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    values.filter(|value| (low..=high).contains(value)).collect()
}

fn draw_line(svg: &mut String, start: (f64, f64), end: (f64, f64), style: &str) {
    writeln!(
        svg,
        "<line x1='{:.1}' y1='{:.1}' x2='{:.1}' y2='{:.1}' {style}/>",
        start.0, start.1, end.0, end.1
    )
    .unwrap();
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
