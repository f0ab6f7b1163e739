//! Plans as Gantt charts: a lane for each machine, a row for each of its cores, a bar for each task.

use super::Chart;
use super::axis;
use super::svg::{Anchor, Svg, fitted, text_width};

/// What to draw.
pub(crate) struct Gantt {
    pub title: String,
    /// Facts under the title.
    pub subtitle: String,
    pub lanes: Vec<Lane>,
    pub bars: Vec<Bar>,
    /// Colours and their meanings.
    pub legend: Vec<(String, String)>,
    /// Points in time with a meaning, such as a deadline.
    pub marks: Vec<Mark>,
}

/// A machine.
pub(crate) struct Lane {
    pub name: String,
    /// The part of its time in which it computes, up to the end of the plan.
    pub used: f64,
}

/// A task.
pub(crate) struct Bar {
    pub lane: usize,
    pub start: f64,
    pub finish: f64,
    /// Cores that it occupies.
    pub cores: usize,
    pub colour: String,
    pub label: String,
    /// What appears under the pointer.
    pub details: String,
}

/// A point in time.
pub(crate) struct Mark {
    pub at: f64,
    pub label: String,
    pub colour: &'static str,
}

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 20.0;
/// Room for all rows, if they can be that low.
const PLOT_HEIGHT: f64 = 760.0;
const HIGHEST_ROW: f64 = 26.0;
const LOWEST_ROW: f64 = 2.5;
/// More rows are not drawn: nobody could see them, and the document would be huge.
const MAX_ROWS: usize = 4000;
/// Bars and gaps below this many pixels are drawn as one bar.
const INVISIBLE: f64 = 0.4;
const INK: &str = "#222222";
const FAINT: &str = "#777777";

/// A bar on its row.
struct PlacedBar<'a> {
    row: usize,
    rows: usize,
    bar: &'a Bar,
}

/// Draws the chart.
pub(crate) fn draw(gantt: &Gantt) -> Chart {
    let (placed, rows_of_lane, hidden) = rows(gantt);
    let rows: usize = rows_of_lane.iter().sum();
    let gap_count = rows_of_lane.len().max(1);
    let row = (PLOT_HEIGHT / (rows as f64 + 0.25 * gap_count as f64)).clamp(LOWEST_ROW, HIGHEST_ROW);
    let gap = (row * 0.25).clamp(0.5, 6.0);
    let mut tops = Vec::with_capacity(rows_of_lane.len());
    let mut height = 0.0;
    for rows in &rows_of_lane {
        tops.push(height);
        height += *rows as f64 * row + gap;
    }
    let end = gantt.bars.iter().map(|bar| bar.finish).chain(gantt.marks.iter().map(|mark| mark.at)).fold(0.0, f64::max);
    let end = if end > 0.0 { end } else { 1.0 };

    let name_size = (row * 0.8).clamp(7.0, 12.0);
    let names = gantt.lanes.iter().map(|lane| text_width(&lane.name, name_size)).fold(0.0, f64::max);
    let left = MARGIN + names.clamp(30.0, 170.0) + 8.0;
    let right = WIDTH - MARGIN - 38.0;
    let x = |time: f64| left + time / end * (right - left);

    let legend = legend_lines(&gantt.legend, WIDTH - 2.0 * MARGIN);
    let top = 66.0 + legend.len() as f64 * 20.0 + if gantt.marks.is_empty() { 8.0 } else { 24.0 };
    let bottom = top + height;
    let mut svg = Svg::new(WIDTH, bottom + 52.0);
    svg.bold(MARGIN, 30.0, 17.0, INK, &fitted(&gantt.title, 17.0, WIDTH - 2.0 * MARGIN));
    svg.text(MARGIN, 50.0, 12.0, Anchor::Start, FAINT, &fitted(&gantt.subtitle, 12.0, WIDTH - 2.0 * MARGIN));
    draw_legend(&mut svg, &legend);

    for (lane, top_of_lane) in tops.iter().enumerate().filter(|(lane, _)| lane % 2 == 0) {
        let high = rows_of_lane[lane] as f64 * row + gap;
        svg.area(left, top + top_of_lane - gap / 2.0, right - left, high, "#f6f6f6");
    }
    let ticks = axis::time(0.0, end, 10.0);
    for (at, label) in &ticks.ticks {
        svg.line((x(*at), top - 2.0), (x(*at), bottom + 4.0), "#dddddd", 0.8, "");
        svg.text(x(*at), bottom + 18.0, 11.0, Anchor::Middle, INK, label);
    }
    svg.line((left, bottom), (right, bottom), INK, 1.0, "");
    svg.text((left + right) / 2.0, bottom + 38.0, 12.0, Anchor::Middle, INK, &format!("time ({})", ticks.unit));

    svg.text(right + 6.0, top - 8.0, 10.0, Anchor::Start, FAINT, "used");
    lane_names(&mut svg, gantt, &Lanes { tops: &tops, rows: &rows_of_lane, row, top, left, right, name_size });
    for PlacedBar { row: place, rows, bar } in joined(&placed, end / (right - left)) {
        let (from, to) = (x(bar.start), x(bar.finish));
        let y = top + tops[bar.lane] + place as f64 * row;
        let inset = if row > 6.0 { 0.6 } else { 0.1 };
        // A hair of white keeps bars apart that follow each other.
        let width = (to - from - if to - from > 3.0 { 0.6 } else { 0.0 }).max(0.3);
        let high = rows as f64 * row - 2.0 * inset;
        svg.bar(from, y + inset, width, high, &bar.colour, &bar.details);
        let size = (row * 0.62).min(11.0);
        if row >= 11.0 && text_width(&bar.label, size) + 6.0 <= width {
            let middle = y + inset + high / 2.0 + size * 0.36;
            svg.text(from + width / 2.0, middle, size, Anchor::Middle, ink_on(&bar.colour), &bar.label);
        }
    }
    draw_marks(&mut svg, gantt, &x, top, bottom);
    if hidden > 0 {
        let note = format!("{hidden} more rows are not drawn");
        svg.text(left, bottom + 38.0, 11.0, Anchor::Start, FAINT, &note);
    }
    Chart { title: gantt.title.clone(), svg: svg.finish() }
}

/// Gives each bar a row of its lane. A lane has as many rows as bars overlap. Returns the rows of each lane, and how many
/// rows are left out.
fn rows(gantt: &Gantt) -> (Vec<PlacedBar<'_>>, Vec<usize>, usize) {
    let mut by_lane: Vec<Vec<&Bar>> = vec![Vec::new(); gantt.lanes.len()];
    for bar in &gantt.bars {
        if let Some(lane) = by_lane.get_mut(bar.lane) {
            lane.push(bar);
        }
    }
    let (mut placed, mut rows_of_lane, mut total, mut hidden) = (Vec::new(), Vec::new(), 0, 0);
    for bars in &mut by_lane {
        bars.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.finish.total_cmp(&b.finish)));
        let mut free: Vec<f64> = Vec::new();
        let mut own = Vec::new();
        for bar in bars.iter() {
            // Neighbouring rows that are free, from the top.
            let fits = |row: usize| {
                (row..row + bar.cores).all(|row| free.get(row).is_none_or(|free| *free <= bar.start + 1e-9))
            };
            let row = (0..=free.len()).find(|row| fits(*row)).unwrap_or(free.len());
            if free.len() < row + bar.cores {
                free.resize(row + bar.cores, 0.0);
            }
            free[row..row + bar.cores].iter_mut().for_each(|free| *free = bar.finish);
            own.push(PlacedBar { row, rows: bar.cores, bar });
        }
        let rows = free.len().max(1);
        let room = MAX_ROWS.saturating_sub(total).max(1);
        hidden += rows.saturating_sub(room);
        own.retain(|placed| placed.row + placed.rows <= room);
        rows_of_lane.push(rows.min(room));
        total += rows.min(room);
        placed.extend(own);
    }
    (placed, rows_of_lane, hidden)
}

/// Leaves out bars that would be invisible beside one of the same colour. `pixel` is the time of a pixel.
fn joined<'a>(placed: &'a [PlacedBar<'a>], pixel: f64) -> Vec<PlacedBar<'a>> {
    let mut last: std::collections::HashMap<(usize, usize), (f64, &str)> = std::collections::HashMap::new();
    let mut kept = Vec::with_capacity(placed.len());
    for PlacedBar { row, rows, bar } in placed {
        let key = (bar.lane, *row);
        let seen = last
            .get(&key)
            .is_some_and(|(until, colour)| bar.finish - until < INVISIBLE * pixel && *colour == bar.colour);
        if seen {
            continue;
        }
        last.insert(key, (bar.finish, &bar.colour));
        kept.push(PlacedBar { row: *row, rows: *rows, bar });
    }
    kept
}

/// The places of lanes.
struct Lanes<'a> {
    tops: &'a [f64],
    rows: &'a [usize],
    row: f64,
    top: f64,
    left: f64,
    right: f64,
    name_size: f64,
}

/// Names on the left, shares of used time on the right, where there is room.
fn lane_names(svg: &mut Svg, gantt: &Gantt, lanes: &Lanes<'_>) {
    let mut free_from = f64::NEG_INFINITY;
    for (lane, name) in gantt.lanes.iter().enumerate() {
        let middle = lanes.top + lanes.tops[lane] + lanes.rows[lane] as f64 * lanes.row / 2.0;
        if middle - lanes.name_size / 2.0 < free_from {
            continue;
        }
        free_from = middle + lanes.name_size / 2.0;
        let shown = fitted(&name.name, lanes.name_size, lanes.left - MARGIN - 8.0);
        let base = middle + lanes.name_size * 0.36;
        svg.text(lanes.left - 8.0, base, lanes.name_size, Anchor::End, INK, &shown);
        let size = lanes.name_size.min(10.0);
        let used = format!("{:.0} %", name.used * 100.0);
        svg.text(lanes.right + 6.0, middle + size * 0.36, size, Anchor::Start, FAINT, &used);
    }
}

fn draw_marks(svg: &mut Svg, gantt: &Gantt, x: &impl Fn(f64) -> f64, top: f64, bottom: f64) {
    let mut marks: Vec<&Mark> = gantt.marks.iter().collect();
    marks.sort_by(|a, b| b.at.total_cmp(&a.at));
    // Labels stand left of their lines, from the right; one that has no room is left out.
    let mut free_until = f64::INFINITY;
    for mark in marks {
        let at = x(mark.at);
        svg.line((at, top - 6.0), (at, bottom), mark.colour, 1.2, "5 3");
        let from = at - text_width(&mark.label, 11.0);
        if at + 2.0 < free_until && from > 0.0 {
            svg.text(at, top - 10.0, 11.0, Anchor::End, mark.colour, &mark.label);
            free_until = from - 8.0;
        }
    }
}

/// Entries of the legend line by line, each with its place.
fn legend_lines(legend: &[(String, String)], width: f64) -> Vec<Vec<(f64, &str, String)>> {
    let mut lines: Vec<Vec<(f64, &str, String)>> = Vec::new();
    let mut at = 0.0;
    for (colour, meaning) in legend {
        let meaning = fitted(meaning, 11.0, 220.0);
        let wide = 16.0 + text_width(&meaning, 11.0) + 18.0;
        if lines.is_empty() || at + wide > width {
            lines.push(Vec::new());
            at = 0.0;
        }
        if let Some(line) = lines.last_mut() {
            line.push((at, colour, meaning));
        }
        at += wide;
    }
    lines
}

fn draw_legend(svg: &mut Svg, lines: &[Vec<(f64, &str, String)>]) {
    for (index, line) in lines.iter().enumerate() {
        let y = 70.0 + index as f64 * 20.0;
        for (at, colour, meaning) in line {
            svg.area(MARGIN + at, y - 9.0, 11.0, 11.0, colour);
            svg.text(MARGIN + at + 16.0, y + 0.5, 11.0, Anchor::Start, INK, meaning);
        }
    }
}

/// Black or white, whichever is easier to read on a colour.
fn ink_on(colour: &str) -> &'static str {
    let part = |range: std::ops::Range<usize>| {
        f64::from(colour.get(range).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(255))
    };
    let light = 0.299 * part(1..3) + 0.587 * part(3..5) + 0.114 * part(5..7);
    if light > 140.0 { "#1a1a1a" } else { "#ffffff" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(lane: usize, start: f64, finish: f64, cores: usize) -> Bar {
        let (label, details) = (format!("{start}"), "<&>".to_owned());
        Bar { lane, start, finish, cores, colour: "#4477aa".into(), label, details }
    }

    fn gantt(bars: Vec<Bar>) -> Gantt {
        let lanes = ["a", "b"].map(|name| Lane { name: name.into(), used: 0.5 }).into();
        let (title, subtitle, legend) = ("A <plan>".into(), "facts".into(), vec![("#4477aa".into(), "kind".into())]);
        let marks = vec![Mark { at: 12.0, label: "deadline".into(), colour: "#cc0000" }];
        Gantt { title, subtitle, lanes, bars, legend, marks }
    }

    #[test]
    fn bars_that_overlap_have_rows_of_their_own() {
        let chart = gantt(vec![bar(0, 0.0, 5.0, 1), bar(0, 1.0, 6.0, 2), bar(0, 5.0, 7.0, 1), bar(1, 0.0, 1.0, 1)]);
        let (placed, rows, hidden) = rows(&chart);
        assert_eq!((rows, hidden), (vec![3, 1], 0));
        let places: Vec<_> = placed.iter().map(|placed| placed.row).collect();
        assert_eq!(places, [0, 1, 0, 0]);
    }

    #[test]
    fn charts_are_well_formed() {
        let full = (0..300).map(|number| bar(number % 2, number as f64, number as f64 + 3.0, 1)).collect();
        for bars in [Vec::new(), vec![bar(0, 0.0, 0.0, 1)], full] {
            let drawn = draw(&gantt(bars));
            assert!(roxmltree::Document::parse(&drawn.svg).is_ok(), "{}", drawn.svg);
        }
    }

    #[test]
    fn tiny_bars_are_drawn_once() {
        let bars = (0..100_000).map(|number| bar(0, f64::from(number), f64::from(number) + 1.0, 1)).collect();
        let chart = gantt(bars);
        let drawn = draw(&chart);
        let count = drawn.svg.matches("class=\"bar\"").count();
        assert!((1000..10_000).contains(&count), "{count}");
    }
}
