//! `xavantes import`: workflows of other systems as processes.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use xavantes_import::{Options, SourceFormat, StandIn};
use xavantes_model::diagnostic::Source;

use crate::documents::load_sources;
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::import::ImportReport;

/// Larger files are refused: a process has at most 16 MiB of XML, and JSON takes a few times as much for the same tasks.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// Import a Pegasus DAX
    Dax(StandInArgs),
    /// Import a trace or benchmark of WfCommons: WfFormat 1.4 to 1.6
    Wfformat(StandInArgs),
    /// Import a workflow of Sweeper; its commands run as they are
    Sweeper(ImportArgs),
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// The workflow; "-" is standard input
    pub file: PathBuf,
    /// File for the process; "-" is standard output
    #[arg(short = 'o', long = "to", value_name = "OUT.xml")]
    pub to: PathBuf,
    /// Write nested BLOCKs and PARs where the order of tasks allows it
    #[arg(long)]
    pub structured: bool,
    /// Name of the process type; default: that of the file
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

#[derive(Args)]
pub(crate) struct StandInArgs {
    #[command(flatten)]
    pub common: ImportArgs,
    /// What activities do instead of the programs of the workflow
    #[arg(long, value_enum, default_value_t = StandInArg::None)]
    pub stand_in: StandInArg,
    /// Factor for the times and sizes of stand-ins; the parameter "scale" of the process overrides it
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub scale: f64,
    /// Activities make files of the sizes of the workflow and hand them on
    #[arg(long)]
    pub files: bool,
}

/// What activities do instead of the programs of the workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StandInArg {
    /// Nothing
    None,
    /// Sleep for the estimated time
    Sleep,
    /// Compute for the estimated time
    Burn,
}

pub(crate) fn import(command: &ImportCommand, output: Output) -> Result<Exit, Exit> {
    let (format, common, options) = match command {
        ImportCommand::Dax(arguments) => (SourceFormat::Dax, &arguments.common, arguments.options()),
        ImportCommand::Wfformat(arguments) => (SourceFormat::Wfformat, &arguments.common, arguments.options()),
        ImportCommand::Sweeper(arguments) => {
            (SourceFormat::Sweeper, arguments, Options { structured: arguments.structured, ..Options::default() })
        }
    };
    let to_stdout = common.to == Path::new("-");
    if to_stdout && !output.is_text() {
        return Err(terminal::error("-o - prints the process itself; with --output json, write it to a file"));
    }
    let shown = common.file.display().to_string();
    let text = read(&common.file).map_err(|problem| terminal::error(&format!("cannot read {shown}: {problem}")))?;
    let stem = common.file.file_stem().map_or_else(|| "Workflow".into(), |stem| stem.to_string_lossy());
    let name = common.name.as_deref().unwrap_or(if stem == "-" { "Workflow" } else { &stem });
    let imported = xavantes_import::import(format, &text, name, options)
        .map_err(|error| terminal::error(&format!("{shown}: {error}")))?;
    // A process that the loader refuses, for example because it is too large, is not written.
    let to = common.to.display().to_string();
    let source = Source::new(to.as_str(), imported.xml.as_str());
    load_sources(std::slice::from_ref(&source), output)?;
    if to_stdout {
        return Ok(terminal::print(&imported.xml));
    }
    std::fs::write(&common.to, &imported.xml)
        .map_err(|error| terminal::error(&format!("cannot write {to}: {error}")))?;
    Ok(output.report(&ImportReport::new(imported, to)))
}

impl StandInArgs {
    fn options(&self) -> Options {
        let stand_in = match self.stand_in {
            StandInArg::None => StandIn::None,
            StandInArg::Sleep => StandIn::Sleep,
            StandInArg::Burn => StandIn::Burn,
        };
        Options { structured: self.common.structured, stand_in, scale: self.scale, files: self.files }
    }
}

fn read(file: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|open| open.take(MAX_BYTES + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_BYTES >> 20));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
}
