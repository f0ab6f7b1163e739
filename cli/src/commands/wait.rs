//! `xavantes wait`: waits until processes end.

use clap::Args;

use super::ending::{await_end, unless_interrupted};
use crate::args::GridArgs;
use crate::exit::Exit;
use crate::given_path::resolve;
use crate::grid_connection::coordinator;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::process::{EndedReport, Process, ProcessList, exit_of};

#[derive(Args)]
pub(crate) struct WaitArgs {
    /// Ids of processes, or their beginnings
    #[arg(required = true)]
    pub processes: Vec<String>,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn wait(arguments: WaitArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&arguments.grid.coordinator).await?;
    let mut ids = Vec::new();
    for typed in &arguments.processes {
        ids.push(resolve(&mut client, typed).await?);
    }
    let (exit, processes) = unless_interrupted(&ids, async {
        let (mut exit, mut processes) = (Exit::Success, Vec::new());
        for process in &ids {
            let status = await_end(&mut client, process, output).await?;
            exit = exit.or(exit_of(&status));
            let process = Process::from(&status);
            if let Some(error) = &process.error {
                terminal::error(error);
            }
            processes.push(process);
        }
        Ok((exit, processes))
    })
    .await?;
    Ok(exit.or(output.report(&EndedReport(ProcessList { processes, now_ms: 0, shows_errors: false }))))
}
