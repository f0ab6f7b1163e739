//! A scene as SVG.

use std::fmt::Write as _;

use crate::box_layout::{HEADER, PlacedShape, STACK, place};
use crate::scene::{Look, Shape};

const MARGIN: f64 = 16.0;
const TITLE: f64 = 24.0;
/// Fill and frame of activities, by type.
const TINTS: [(&str, &str); 8] = [
    ("#dbeafe", "#3b6fb5"),
    ("#dcfce7", "#3f8f5b"),
    ("#fef3c7", "#b08428"),
    ("#fde2e4", "#b5545e"),
    ("#ede9fe", "#7459b8"),
    ("#cffafe", "#2f8a99"),
    ("#ffe8d6", "#b8713a"),
    ("#e7e5e4", "#736b64"),
];

/// Writes a document.
pub(crate) fn write(scene: &Shape, title: &str) -> String {
    let placed = place(scene);
    let title_width = title.chars().count() as f64 * 9.0;
    let (width, height) = (placed.width.max(title_width) + 2.0 * MARGIN, placed.height + 2.0 * MARGIN + TITLE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0.8 L7.4 4 L0 7.2 z\" fill=\"#6b7280\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    text(&mut out, width / 2.0, MARGIN + 12.0, 15.0, "middle", "#111827", true, title);
    let x = (width - placed.width) / 2.0;
    draw(&mut out, &placed, x, MARGIN + TITLE);
    out.push_str("</svg>\n");
    out
}

// The depth of a scene is bounded.
fn draw(out: &mut String, placed: &PlacedShape<'_>, x: f64, y: f64) {
    let (x, y) = (x + placed.x, y + placed.y);
    let shape = placed.shape;
    let (width, height) = (placed.width - placed.stack(), placed.height - placed.stack());
    let times = if shape.count > 1 { format!(" × {}", shape.count) } else { String::new() };
    let label = format!("{}{times}", shape.label);
    let middle = x + width / 2.0;
    let (fill, frame, dash) = match shape.look {
        Look::Activity => {
            let (fill, frame) = TINTS[shape.tint % TINTS.len()];
            (fill, frame, "")
        }
        Look::Closed => ("#f3f4f6", "#6b7280", " stroke-dasharray=\"4 2\""),
        Look::Controller => ("#fcfcfd", "#9ca3af", ""),
        Look::Loop => ("#fffdf5", "#a3895a", ""),
        Look::Plain => ("", "", ""),
    };
    if shape.look != Look::Plain {
        let radius = if shape.look == Look::Activity { 8.0 } else { 3.0 };
        let copies = if shape.count > 1 { 2 } else { 0 };
        for back in (0..=copies).rev() {
            let shift = f64::from(back) * STACK;
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\" fill=\"{fill}\" \
                 stroke=\"{frame}\"{dash}/>",
                x + shift,
                y + shift
            );
        }
        if shape.look == Look::Loop {
            // A second frame, as on a drum that turns.
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" fill=\"none\" stroke=\"{frame}\"/>",
                x + 3.0,
                y + 3.0,
                width - 6.0,
                height - 6.0
            );
        }
    }
    match shape.look {
        Look::Activity | Look::Closed if shape.detail.is_empty() => {
            text(out, middle, y + height / 2.0 + 4.0, 12.0, "middle", "#111827", false, &label);
        }
        Look::Activity | Look::Closed => {
            text(out, middle, y + 16.0, 12.0, "middle", "#111827", false, &label);
            text(out, middle, y + 30.0, 10.0, "middle", "#4b5563", false, &shape.detail);
        }
        Look::Controller | Look::Loop => {
            let turning = if shape.look == Look::Loop { "↻ " } else { "" };
            text(out, x + 9.0, y + HEADER - 5.0, 11.0, "start", "#4b5563", true, &format!("{turning}{label}"));
            text(out, x + width - 9.0, y + HEADER - 5.0, 10.0, "end", "#4b5563", false, &shape.detail);
        }
        Look::Plain => {}
    }
    for points in &placed.edges {
        edge(out, points, x, y);
    }
    placed.children.iter().for_each(|child| draw(out, child, x, y));
}

/// Draws an edge: vertical where it leaves and arrives, a curve between.
fn edge(out: &mut String, points: &[(f64, f64)], x: f64, y: f64) {
    let Some((first, rest)) = points.split_first() else { return };
    let mut path = format!("M{:.1} {:.1}", x + first.0, y + first.1);
    let mut last = *first;
    for (step, point) in rest.iter().enumerate() {
        // Arrows end a little before the box.
        let end = (point.0, if step + 1 == rest.len() { point.1 - 1.5 } else { point.1 });
        let bend = (end.1 - last.1) * 0.45;
        let _ = match (end.0 - last.0).abs() < 0.5 {
            true => write!(path, " L{:.1} {:.1}", x + end.0, y + end.1),
            false => write!(
                path,
                " C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
                x + last.0,
                y + last.1 + bend,
                x + end.0,
                y + end.1 - bend,
                x + end.0,
                y + end.1
            ),
        };
        last = end;
    }
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#6b7280\" stroke-width=\"1.1\" marker-end=\"url(#arrow)\"/>"
    );
}

#[allow(clippy::too_many_arguments)] // All of them are attributes of one element.
fn text(out: &mut String, x: f64, y: f64, size: f64, anchor: &str, fill: &str, bold: bool, content: &str) {
    if content.is_empty() {
        return;
    }
    let weight = if bold { " font-weight=\"600\"" } else { "" };
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{fill}\"{weight}>"
    );
    for c in content.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out.push_str("</text>\n");
}
