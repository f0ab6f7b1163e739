//! `xavantes cancel`, `pause`, `resume`, `retry` and `set`: commands to any element of a process that runs. `retry` also lets
//! an ended process go on.

use clap::Args;
use xavantes_proto::v1;
use xavantes_proto::v1::steer_request::Action;

use crate::args::{GridArgs, key_value};
use crate::exit::Exit;
use crate::given_path::resolve;
use crate::grid_connection::{ask, coordinator};
use crate::output::printer::Output;
use crate::report::silent_action::Steered;

/// Upper bound on the name of a user with the host.
const MAX_USER_CHARS: usize = 60;

#[derive(Args)]
pub(crate) struct PathArgs {
    /// Path of an element, e.g. FindPrimes-7f3a/search/3
    pub path: String,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct RetryArgs {
    /// Path of an element, e.g. FindPrimes-7f3a/search/3; of a process that has ended: its id, or the path of an element
    /// that failed or was cancelled
    pub path: String,
    /// Give up the present attempt without waiting for its answer; for an attempt whose node is lost
    #[arg(long)]
    pub elsewhere: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct SetArgs {
    /// Path of an element
    pub path: String,
    /// TO, MAX_PARALLEL, JOIN, EXIT_CONDITION or a parameter
    #[arg(value_name = "KEY=VALUE", value_parser = key_value)]
    pub setting: (String, String),
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn cancel(arguments: PathArgs, output: Output) -> Result<Exit, Exit> {
    steer(&arguments.grid, arguments.path, "cancel", Action::Cancel(v1::Nothing {}), output).await
}

pub(crate) async fn pause(arguments: PathArgs, output: Output) -> Result<Exit, Exit> {
    steer(&arguments.grid, arguments.path, "pause", Action::Pause(v1::Nothing {}), output).await
}

pub(crate) async fn resume(arguments: PathArgs, output: Output) -> Result<Exit, Exit> {
    steer(&arguments.grid, arguments.path, "resume", Action::Resume(v1::Nothing {}), output).await
}

pub(crate) async fn retry(arguments: RetryArgs, output: Output) -> Result<Exit, Exit> {
    let retry = v1::Retry { elsewhere: arguments.elsewhere };
    steer(&arguments.grid, arguments.path, "retry", Action::Retry(retry), output).await
}

pub(crate) async fn set(arguments: SetArgs, output: Output) -> Result<Exit, Exit> {
    let (key, value) = arguments.setting;
    steer(&arguments.grid, arguments.path, "set", Action::Set(v1::Setting { key, value }), output).await
}

/// The user and the host, as the environment and the system name them: for the record, not as a proof.
fn user_name() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.map_or_else(String::new, |host| format!("@{}", host.trim()));
    let name = user.unwrap_or_else(|| "somebody".to_owned()) + &host;
    let plain = name.chars().filter(|c| !c.is_control());
    plain.take(MAX_USER_CHARS).collect()
}

async fn steer(
    grid: &GridArgs,
    path: String,
    word: &'static str,
    action: Action,
    output: Output,
) -> Result<Exit, Exit> {
    let mut client = coordinator(&grid.coordinator).await?;
    let path = resolve(&mut client, &path).await?;
    let action = Some(action);
    let request = v1::SteerRequest { path: path.clone(), action, user: user_name(), ..v1::SteerRequest::default() };
    let effect = match ask(client.steer(request)).await?.effect() {
        v1::SteerEffect::Unspecified => None,
        v1::SteerEffect::Begins => Some("begins"),
        v1::SteerEffect::Restarts => Some("restarts"),
        v1::SteerEffect::GoesOn => Some("goes_on"),
    };
    if output.is_text() && output.is_quiet() {
        return Ok(Exit::Success);
    }
    Ok(output.report(&Steered { path, action: word, effect }))
}
