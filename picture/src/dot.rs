//! A scene as input of Graphviz: controllers are clusters.

use std::fmt::Write as _;

use crate::scene::{Look, Shape, ShapeContent};

/// Writes a document.
pub(crate) fn write(scene: &Shape, title: &str) -> String {
    let mut writer = DotWriter { out: String::new(), nodes: 0, clusters: 0 };
    let _ = writeln!(writer.out, "digraph {} {{", quoted(title));
    writer.out.push_str("  compound=true;\n  node [shape=box, style=rounded, fontname=Helvetica];\n");
    writer.out.push_str("  graph [fontname=Helvetica];\n");
    writer.shape(scene, 1);
    writer.out.push_str("}\n");
    writer.out
}

struct DotWriter {
    out: String,
    nodes: usize,
    clusters: usize,
}

/// Where edges of a shape begin and end: a node, and the cluster that it stands for.
#[derive(Clone, Copy)]
struct Ends {
    first: usize,
    last: usize,
    cluster: Option<usize>,
}

impl DotWriter {
    // The depth of a scene is bounded.
    fn shape(&mut self, shape: &Shape, level: usize) -> Ends {
        let indent = "  ".repeat(level.min(20));
        let times = if shape.count > 1 { format!(" × {}", shape.count) } else { String::new() };
        let label = match shape.detail.is_empty() {
            true => format!("{}{times}", shape.label),
            false => format!("{}{times}\n{}", shape.label, shape.detail),
        };
        let children = match &shape.content {
            ShapeContent::Nothing => &[][..],
            ShapeContent::Column(shapes) | ShapeContent::Row(shapes) | ShapeContent::Graph(shapes, _) => shapes,
        };
        if children.is_empty() {
            let node = self.nodes;
            self.nodes += 1;
            let style = if shape.look == Look::Activity { "" } else { ", style=dashed" };
            let _ = writeln!(self.out, "{indent}n{node} [label={}{style}];", quoted(&label));
            return Ends { first: node, last: node, cluster: None };
        }
        let cluster = (shape.look != Look::Plain).then_some(self.clusters);
        if let Some(number) = cluster {
            self.clusters += 1;
            let style = if shape.look == Look::Loop { " peripheries=2;" } else { "" };
            let _ = writeln!(self.out, "{indent}subgraph cluster_{number} {{ label={};{style}", quoted(&label));
        }
        let ends: Vec<Ends> = children.iter().map(|child| self.shape(child, level + 1)).collect();
        match &shape.content {
            ShapeContent::Column(_) => ends.windows(2).for_each(|pair| self.edge(&indent, pair[0], pair[1])),
            ShapeContent::Graph(_, edges) => {
                edges.iter().for_each(|(from, to)| self.edge(&indent, ends[*from], ends[*to]))
            }
            _ => {}
        }
        if cluster.is_some() {
            let _ = writeln!(self.out, "{indent}}}");
        }
        let (first, last) = (ends.first().map_or(0, |ends| ends.first), ends.last().map_or(0, |ends| ends.last));
        Ends { first, last, cluster }
    }

    fn edge(&mut self, indent: &str, from: Ends, to: Ends) {
        let tail = from.cluster.map(|cluster| format!("ltail=cluster_{cluster} ")).unwrap_or_default();
        let head = to.cluster.map(|cluster| format!("lhead=cluster_{cluster}")).unwrap_or_default();
        let _ = writeln!(self.out, "{indent}n{} -> n{} [{tail}{head}];", from.last, to.first);
    }
}

/// A text in quotes, as Graphviz reads it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out + "\""
}
