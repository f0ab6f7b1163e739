//! `xavantes list`: the processes that run and ran.

use clap::Args;
use xavantes_proto::{call_with_timeout, v1};

use super::watch::{LiveSnapshot, print_or_watch};
use crate::args::GridArgs;
use crate::connection::coordinator;
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::report::process::ProcessList;

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print the list again whenever it changed, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn list(arguments: &ListArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&arguments.grid.coordinator).await?;
    print_or_watch(arguments.watch, output, async || {
        let processes = call_with_timeout(client.list(v1::ListRequest {})).await?.processes;
        Ok(LiveSnapshot { report: ProcessList::new(&processes), is_final: false })
    })
    .await
}
