//! Charts: plans as Gantt charts, simulated runs as histograms. Pure: numbers in, a document out.
//!
//! | module | draws |
//! |---|---|
//! | `gantt` | machines over time |
//! | `colours` | the colours of tasks, and their legend |
//! | `histogram` | how often something took how long |
//! | `axis` | ticks of times and numbers |
//! | `svg` | SVG elements |
//! | `html` | a page around an SVG, which needs nothing else |

mod axis;
pub(crate) mod colours;
pub(crate) mod gantt;
pub(crate) mod histogram;
mod html;
mod svg;

use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::output::terminal;

/// A drawn chart.
pub(crate) struct Chart {
    pub title: String,
    pub svg: String,
}

/// Checks the name of a chart's file.
pub(crate) fn chart_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match is_html(&path) || path.extension().is_some_and(|extension| extension == "svg") {
        true => Ok(path),
        false => Err("the name of a chart ends with .svg or .html".into()),
    }
}

fn is_html(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "html" || extension == "htm")
}

/// Writes a chart, as the name of the file says.
pub(crate) fn write(path: &Path, chart: &Chart) -> Result<(), Exit> {
    let document = match is_html(path) {
        true => html::page(chart),
        false => format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", chart.svg),
    };
    std::fs::write(path, document)
        .map_err(|error| terminal::error(&format!("cannot write {}: {error}", path.display())))
}
