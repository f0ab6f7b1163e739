//! `xavantes validate`: all problems of definitions at once.

use std::path::PathBuf;

use clap::Args;
use xavantes_model::load::load;

use crate::documents::read_files;
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::report::validation::Validation;

#[derive(Args)]
pub(crate) struct ValidateArgs {
    /// Definitions; they may use each other's types. "-" is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

pub(crate) fn validate(arguments: &ValidateArgs, output: Output) -> Result<Exit, Exit> {
    let sources = read_files(&arguments.files)?;
    let (found, exit) = match load(&sources) {
        Ok(program) => (program.warnings, Exit::Success),
        Err(found) => (found, Exit::Usage),
    };
    Ok(output.report(&Validation::new(&sources, &found)).or(exit))
}
