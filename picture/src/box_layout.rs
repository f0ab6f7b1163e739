//! Sizes and places of all boxes. Each box is placed relative to the one around it.

use crate::layers;
use crate::scene::{Look, Shape, ShapeContent};

/// Widths of capital and of other letters, in parts of the font size.
const CAPITAL: f64 = 0.72;
const LETTER: f64 = 0.59;
pub(crate) const HEADER: f64 = 20.0;
const PADDING: f64 = 12.0;
/// Distance of neighbours.
const GAP: f64 = 14.0;
/// Distance of boxes with an arrow between them.
const ARROW: f64 = 22.0;
/// Distance of the layers of a graph: edges need room to turn.
const LAYER: f64 = 44.0;
/// How far the second box of a stack stands behind the first one.
pub(crate) const STACK: f64 = 4.0;
/// Rows of boxes become about this much wider than high.
const ASPECT: f64 = 2.2;

/// A box with its place in the one around it.
pub(crate) struct PlacedShape<'s> {
    pub shape: &'s Shape,
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
    pub children: Vec<PlacedShape<'s>>,
    /// Points of each edge, from its beginning to its arrow.
    pub edges: Vec<Vec<(f64, f64)>>,
}

impl PlacedShape<'_> {
    /// The point in the middle of its upper side. That of a stack is that of the box in front.
    fn top(&self) -> (f64, f64) {
        (self.x + (self.width - self.stack()) / 2.0, self.y)
    }

    fn bottom(&self) -> (f64, f64) {
        (self.x + (self.width - self.stack()) / 2.0, self.y + self.height)
    }

    /// How far a stack stands out behind the box in front.
    pub fn stack(&self) -> f64 {
        if self.shape.count > 1 { 2.0 * STACK } else { 0.0 }
    }
}

/// Places a shape and everything in it.
// The depth of a scene is bounded.
pub(crate) fn place(shape: &Shape) -> PlacedShape<'_> {
    let mut placed =
        PlacedShape { shape, x: 0.0, y: 0.0, width: 0.0, height: 0.0, children: Vec::new(), edges: Vec::new() };
    let framed = matches!(shape.look, Look::Controller | Look::Loop);
    match &shape.content {
        ShapeContent::Nothing => {}
        ShapeContent::Column(shapes) => column(&mut placed, shapes),
        ShapeContent::Row(shapes) => row(&mut placed, shapes),
        ShapeContent::Graph(shapes, edges) => graph(&mut placed, shapes, edges),
    }
    let stack = placed.stack();
    let times = if shape.count > 1 { text_width(&format!(" × {}", shape.count), 12.0) } else { 0.0 };
    let (label, detail) = (text_width(&shape.label, 12.0) + times, text_width(&shape.detail, 10.0));
    match shape.look {
        Look::Activity | Look::Closed => {
            placed.width = label.max(detail).max(40.0) + 18.0 + stack;
            placed.height = if shape.detail.is_empty() { 26.0 } else { 38.0 } + stack;
        }
        Look::Controller | Look::Loop => {
            let content = placed.width;
            placed.width = content.max(label + detail + 12.0) + 2.0 * PADDING;
            let shift = (placed.width - content) / 2.0;
            shift_all(&mut placed, shift, HEADER + PADDING / 2.0);
            placed.width += stack;
            placed.height += HEADER + 1.5 * PADDING + stack;
        }
        Look::Plain => {}
    }
    if framed && placed.children.is_empty() {
        placed.height = HEADER + PADDING + stack;
    }
    placed
}

/// The width of a text. It is a guess: the font is that of the reader.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| if c.is_uppercase() || c == '_' { CAPITAL } else { LETTER }).sum::<f64>() * size
}

fn shift_all(placed: &mut PlacedShape<'_>, x: f64, y: f64) {
    for child in &mut placed.children {
        child.x += x;
        child.y += y;
    }
    placed.edges.iter_mut().flatten().for_each(|point| *point = (point.0 + x, point.1 + y));
}

fn column<'s>(placed: &mut PlacedShape<'s>, shapes: &'s [Shape]) {
    placed.children = shapes.iter().map(place).collect();
    placed.width = placed.children.iter().map(|child| child.width).fold(0.0, f64::max);
    let mut y = 0.0;
    for child in &mut placed.children {
        child.x = (placed.width - child.width) / 2.0;
        child.y = y;
        y += child.height + ARROW;
    }
    placed.height = (y - ARROW).max(0.0);
    placed.edges = placed.children.windows(2).map(|pair| vec![pair[0].bottom(), pair[1].top()]).collect();
}

/// Puts boxes side by side, in several lines if they are many.
fn row<'s>(placed: &mut PlacedShape<'s>, shapes: &'s [Shape]) {
    placed.children = shapes.iter().map(place).collect();
    let area: f64 = placed.children.iter().map(|child| (child.width + GAP) * (child.height + GAP)).sum();
    let widest = placed.children.iter().map(|child| child.width).fold(0.0, f64::max);
    let whole: f64 = placed.children.iter().map(|child| child.width + GAP).sum();
    let limit = if whole <= 900.0 { whole } else { widest.max((area * ASPECT).sqrt()) };
    let (mut x, mut y, mut height) = (0.0, 0.0, 0.0f64);
    for child in &mut placed.children {
        if x > 0.0 && x + child.width > limit {
            y += height + GAP;
            (x, height) = (0.0, 0.0);
        }
        (child.x, child.y) = (x, y);
        x += child.width + GAP;
        height = height.max(child.height);
        placed.width = placed.width.max(x - GAP);
    }
    placed.height = y + height;
}

fn graph<'s>(placed: &mut PlacedShape<'s>, shapes: &'s [Shape], edges: &[(usize, usize)]) {
    placed.children = shapes.iter().map(place).collect();
    let widths: Vec<f64> = placed.children.iter().map(|child| child.width).collect();
    let layers = layers::place(&widths, edges, GAP);
    let mut heights = vec![0.0f64; layers.layers];
    for (child, (layer, _)) in placed.children.iter().zip(&layers.places) {
        heights[*layer] = heights[*layer].max(child.height);
    }
    let mut tops = Vec::new();
    let mut y = 0.0;
    for height in &heights {
        tops.push(y);
        y += height + LAYER;
    }
    placed.width = layers.width;
    placed.height = (y - LAYER).max(0.0);
    for (child, (layer, x)) in placed.children.iter_mut().zip(&layers.places) {
        child.x = x - child.width / 2.0;
        child.y = tops[*layer] + (heights[*layer] - child.height) / 2.0;
    }
    for ((from, to), passages) in edges.iter().zip(&layers.passages) {
        let mut points = vec![placed.children[*from].bottom()];
        for (step, x) in passages.iter().enumerate() {
            let layer = layers.places[*from].0 + 1 + step;
            points.extend([(*x, tops[layer]), (*x, tops[layer] + heights[layer])]);
        }
        points.push(placed.children[*to].top());
        placed.edges.push(points);
    }
}
