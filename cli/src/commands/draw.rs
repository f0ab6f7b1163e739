//! `xavantes draw`: a picture of a definition.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use xavantes_picture::{Options, dot, svg};

use crate::documents::{load_sources, read_files};
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::import::DrawReport;

#[derive(Args)]
pub(crate) struct DrawArgs {
    /// Definitions; they may use each other's types. "-" is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Process type to draw; needed if there are several that no other calls
    #[arg(long, value_name = "NAME")]
    pub process: Option<String>,
    /// Format of the picture
    #[arg(long, value_enum, default_value_t = PictureFormat::Svg)]
    pub format: PictureFormat,
    /// File for the picture; "-" is standard output
    #[arg(short = 'o', long = "to", value_name = "OUT", default_value = "-")]
    pub to: PathBuf,
    /// Draw every element, also those that look alike
    #[arg(long)]
    pub all: bool,
}

/// Format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PictureFormat {
    /// A picture for browsers and papers
    Svg,
    /// Input of Graphviz
    Dot,
}

pub(crate) fn draw(arguments: &DrawArgs, output: Output) -> Result<Exit, Exit> {
    let sources = read_files(&arguments.files)?;
    let program = load_sources(&sources, output)?;
    let process = program.entry(arguments.process.as_deref()).map_err(|message| terminal::error(&message))?;
    let options = Options { all: arguments.all };
    let picture = match arguments.format {
        PictureFormat::Svg => svg(&program, process, options),
        PictureFormat::Dot => dot(&program, process, options),
    };
    if arguments.to == Path::new("-") && output.is_text() {
        return Ok(terminal::print(&picture.text));
    }
    let to = arguments.to.display().to_string();
    if arguments.to != Path::new("-") {
        std::fs::write(&arguments.to, &picture.text)
            .map_err(|error| terminal::error(&format!("cannot write {to}: {error}")))?;
    }
    Ok(output.report(&DrawReport::new(picture, &program.processes[process].name, arguments.to != Path::new("-"), to)))
}
