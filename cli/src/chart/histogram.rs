//! How often something took how long: a panel for each quantity, with marks for what was planned and asked for.

use super::Chart;
use super::axis;
use super::gantt::Mark;
use super::svg::{Anchor, Svg, fitted, text_width};

/// A quantity of many runs.
pub(crate) struct Panel {
    pub name: String,
    pub values: Vec<f64>,
    pub marks: Vec<Mark>,
    /// Whether the values are seconds.
    pub is_time: bool,
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 24.0;
const PANEL: f64 = 250.0;
const PLOT: f64 = 160.0;
const INK: &str = "#222222";
const FAINT: &str = "#777777";
const BAR: &str = "#4477aa";

/// Draws the panels one below the other.
pub(crate) fn draw(title: &str, subtitle: &str, panels: &[Panel]) -> Chart {
    let mut svg = Svg::new(WIDTH, 66.0 + PANEL * panels.len() as f64);
    svg.bold(20.0, 30.0, 17.0, INK, &fitted(title, 17.0, WIDTH - 40.0));
    svg.text(20.0, 50.0, 12.0, Anchor::Start, FAINT, &fitted(subtitle, 12.0, WIDTH - 40.0));
    for (index, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, panel, 66.0 + PANEL * index as f64);
    }
    Chart { title: title.to_owned(), svg: svg.finish() }
}

fn draw_panel(svg: &mut Svg, panel: &Panel, top: f64) {
    let all = panel.values.iter().copied().chain(panel.marks.iter().map(|mark| mark.at));
    let (low, high) =
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if !low.is_finite() {
        return;
    }
    let margin = ((high - low) * 0.04).max(high.abs() * 1e-3).max(1e-9);
    let (low, high) = ((low - margin).max(0.0), high + margin);
    let counts = bins(&panel.values, low, high);
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let (plot_top, plot_bottom) = (top + 40.0, top + 40.0 + PLOT);
    let x = |value: f64| LEFT + (value - low) / (high - low) * (RIGHT - LEFT);
    let y = |count: f64| plot_bottom - count / most as f64 * PLOT;
    for (at, label) in axis::number(0.0, most as f64, 4.0).ticks.into_iter().filter(|(at, _)| at.fract() == 0.0) {
        svg.line((LEFT, y(at)), (RIGHT, y(at)), "#e4e4e4", 0.8, "");
        svg.text(LEFT - 8.0, y(at) + 4.0, 11.0, Anchor::End, INK, &label);
    }
    let wide = (RIGHT - LEFT) / counts.len() as f64;
    for (bin, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let from = LEFT + bin as f64 * wide;
        svg.bar(
            from + 0.5,
            y(*count as f64),
            wide - 1.0,
            plot_bottom - y(*count as f64),
            BAR,
            &format!("{count} runs"),
        );
    }
    svg.line((LEFT, plot_bottom), (RIGHT, plot_bottom), INK, 1.0, "");
    let ticks = if panel.is_time { axis::time(low, high, 8.0) } else { axis::number(low, high, 8.0) };
    for (at, label) in &ticks.ticks {
        svg.line((x(*at), plot_bottom), (x(*at), plot_bottom + 4.0), INK, 1.0, "");
        svg.text(x(*at), plot_bottom + 18.0, 11.0, Anchor::Middle, INK, label);
    }
    let unit = if panel.is_time { format!(" ({})", ticks.unit) } else { String::new() };
    svg.text((LEFT + RIGHT) / 2.0, plot_bottom + 36.0, 12.0, Anchor::Middle, INK, &format!("{}{unit}", panel.name));
    marks(svg, panel, &x, plot_top, plot_bottom);
}

/// Lines with labels. Labels that would overlap stand above each other.
fn marks(svg: &mut Svg, panel: &Panel, x: &impl Fn(f64) -> f64, top: f64, bottom: f64) {
    let mut taken: [f64; 3] = [f64::NEG_INFINITY; 3];
    let mut marks: Vec<&Mark> = panel.marks.iter().collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    for mark in marks {
        let at = x(mark.at);
        let half = text_width(&mark.label, 11.0) / 2.0;
        let middle = at.clamp(LEFT + half - 30.0, RIGHT - half + 16.0);
        let line = taken.iter().position(|taken| *taken < middle - half).unwrap_or(0);
        taken[line] = middle + half + 6.0;
        let base = top - 6.0 - 12.0 * line as f64;
        svg.line((at, top - 3.0), (at, bottom), mark.colour, 1.3, "5 3");
        svg.text(middle, base, 11.0, Anchor::Middle, mark.colour, &mark.label);
    }
}

fn bins(values: &[f64], low: f64, high: f64) -> Vec<usize> {
    let count = ((values.len() as f64).sqrt() as usize * 2).clamp(10, 60);
    let mut bins = vec![0; count];
    for value in values {
        let bin = (value - low) / (high - low) * count as f64;
        bins[(bin as usize).min(count - 1)] += 1;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_bar() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(bins(&values, 0.0, 999.0).iter().sum::<usize>(), 1000);
    }

    #[test]
    fn histograms_are_well_formed() {
        for values in [Vec::new(), vec![5.0], vec![1.0, 2.0, 3.0]] {
            let marks = vec![Mark { at: 2.0, label: "planned".into(), colour: "#cc0000" }];
            let panel = Panel { name: "makespan".into(), values, marks, is_time: true };
            let drawn = draw("A & B", "", &[panel]);
            assert!(roxmltree::Document::parse(&drawn.svg).is_ok(), "{}", drawn.svg);
        }
    }
}
