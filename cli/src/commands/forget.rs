//! `xavantes forget`: removes ended and held processes, or the results in the cache.

use clap::Args;
use xavantes_proto::v1;

use crate::args::GridArgs;
use crate::exit::Exit;
use crate::given_path::resolve;
use crate::grid_connection::{ask, coordinator};
use crate::output::printer::Output;
use crate::report::silent_action::Forgotten;

#[derive(Args)]
pub(crate) struct ForgetArgs {
    /// Ids of processes, or their beginnings
    #[arg(required_unless_present = "reusable")]
    pub processes: Vec<String>,
    /// All results in the cache (CACHE="true")
    #[arg(long)]
    pub reusable: bool,
    /// Also processes that are held, without loading them
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn forget(arguments: ForgetArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&arguments.grid.coordinator).await?;
    let ForgetArgs { processes: typed, reusable, force, .. } = arguments;
    let mut processes = Vec::new();
    for process in typed {
        processes.push(resolve(&mut client, &process).await?);
    }
    ask(client.forget(v1::ForgetRequest { processes: processes.clone(), reusable, force, forwards: 0 })).await?;
    Ok(output.report(&Forgotten { forgotten: processes, reusable }))
}
