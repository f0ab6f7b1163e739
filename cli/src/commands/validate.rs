//! `xavantes validate`: all problems of definitions at once.

use std::path::PathBuf;

use clap::Args;
use xavantes_model::load::load;

use crate::args::address;
use crate::documents::{fetch_imports, read_files};
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::report::validation::Validation;

#[derive(Args)]
pub(crate) struct ValidateArgs {
    /// Definitions; they may use each other's types. "-" is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Address of the node that has the documents that these import, HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub coordinator: Option<String>,
}

pub(crate) async fn validate(arguments: &ValidateArgs, output: Output) -> Result<Exit, Exit> {
    let mut sources = read_files(&arguments.files)?;
    if let Some(coordinator) = &arguments.coordinator {
        fetch_imports(&mut sources, coordinator).await?;
    }
    let (found, exit) = match load(&sources) {
        Ok(program) => (program.warnings, Exit::Success),
        Err(found) => (found, Exit::Usage),
    };
    Ok(output.report(&Validation::new(&sources, &found)).or(exit))
}
