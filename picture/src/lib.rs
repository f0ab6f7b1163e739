//! Pictures of process definitions: nested controllers as boxes, activities, links. Pure: a definition goes in, text comes
//! out. Elements that look alike are drawn once with their number, and the number of boxes is bounded.
//!
//! | module | content |
//! |---|---|
//! | `scene` | what is drawn: boxes, groups of like elements, edges |
//! | `layers` | places of the elements of a graph |
//! | `box_layout` | sizes and places of all boxes |
//! | `scene_svg`, `dot` | the scene as a document |

mod box_layout;
mod dot;
mod layers;
mod scene;
mod scene_svg;

use xavantes_model::definition::Program;

pub use scene::Options;

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The document.
    pub text: String,
    /// Boxes in it.
    pub boxes: usize,
    /// Activities of the process type.
    pub activities: usize,
    /// True if some boxes stand for several elements.
    pub collapsed: bool,
}

/// Draws a process type as SVG.
pub fn svg(program: &Program, process: usize, options: Options) -> Picture {
    draw(program, process, options, |scene| scene_svg::write(scene, &program.processes[process].name))
}

/// Draws a process type as input of Graphviz.
pub fn dot(program: &Program, process: usize, options: Options) -> Picture {
    draw(program, process, options, |scene| dot::write(scene, &program.processes[process].name))
}

fn draw(program: &Program, process: usize, options: Options, write: impl Fn(&scene::Shape) -> String) -> Picture {
    let built = scene::build(program, process, options);
    let text = write(&built.root);
    let activities = program.processes[process].nodes.iter().filter(|node| node.kind.is_activity()).count();
    Picture { text, boxes: built.boxes, activities, collapsed: built.collapsed }
}
