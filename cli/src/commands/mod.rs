//! The commands. Each one ends with one report, which `output` prints as text or JSON.
//!
//! | module | commands |
//! |---|---|
//! | `run` | `run`: a process on a grid inside this program |
//! | `submit`, `wait`, `results` | start a process, wait for its end, print its results |
//! | `list`, `show`, `logs`, `explain` | `list`, `show` and `tree`, `logs`, `explain` |
//! | `steer`, `forget` | `cancel`, `pause`, `resume`, `retry`, `set`; `forget` |
//! | `grid`, `types`, `sources` | `nodes`, `groups`, `drain`, `health`; `types`; `sources` |
//! | `node`, `repository` | `node`; `repository migrate` |
//! | `validate`, `schema` | `validate`; `schema` and `completions` |
//! | `ending`, `stream`, `watch` | parts of several commands: the end of a process, `--stream`, `--watch` |

mod ending;
pub(crate) mod explain;
pub(crate) mod forget;
pub(crate) mod grid;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod repository;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod sources;
pub(crate) mod steer;
mod stream;
pub(crate) mod submit;
mod types;
pub(crate) mod validate;
pub(crate) mod wait;
mod watch;

use crate::args::Command;
use crate::exit::Exit;
use crate::output::{Output, terminal};

/// Executes a command. An `Err` is an exit code, too: that of a command whose error message is already printed.
pub(crate) fn execute(command: Command, output: Output) -> Exit {
    let done = match command {
        Command::Run(arguments) => block_on(run::run(arguments, output)),
        Command::Validate(arguments) => validate::validate(&arguments, output),
        Command::Node(arguments) => block_on(node::node(arguments, output)),
        Command::Guard(arguments) => Ok(node::guard(&arguments)),
        Command::Submit(arguments) => block_on(submit::submit(arguments, output)),
        Command::List(arguments) => block_on(list::list(&arguments, output)),
        Command::Tree(arguments) => block_on(show::tree(&arguments, output)),
        Command::Show(arguments) => block_on(show::show(&arguments, output)),
        Command::Logs(arguments) => block_on(logs::logs(&arguments, output)),
        Command::Results(arguments) => block_on(results::results(&arguments, output)),
        Command::Wait(arguments) => block_on(wait::wait(arguments, output)),
        Command::Forget(arguments) => block_on(forget::forget(arguments, output)),
        Command::Explain(arguments) => block_on(explain::explain(&arguments, output)),
        Command::Cancel(arguments) => block_on(steer::cancel(arguments, output)),
        Command::Pause(arguments) => block_on(steer::pause(arguments, output)),
        Command::Resume(arguments) => block_on(steer::resume(arguments, output)),
        Command::Retry(arguments) => block_on(steer::retry(arguments, output)),
        Command::Set(arguments) => block_on(steer::set(arguments, output)),
        Command::Nodes(grid) => block_on(grid::nodes(&grid, output)),
        Command::Groups(grid) => block_on(grid::groups(&grid, output)),
        Command::Types(grid) => block_on(types::types(&grid, output)),
        Command::Sources(arguments) => block_on(sources::sources(arguments, output)),
        Command::Drain(arguments) => block_on(grid::drain(arguments, output)),
        Command::Health(grid) => block_on(grid::health(&grid, output)),
        Command::Repository(command) => block_on(repository::execute(command, output)),
        Command::Schema => Ok(schema::schema()),
        Command::Completions(arguments) => Ok(schema::completions(&arguments)),
    };
    done.unwrap_or_else(|exit| exit)
}

fn block_on(command: impl Future<Output = Result<Exit, Exit>>) -> Result<Exit, Exit> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| {
        terminal::error(&format!("cannot start threads: {error}"));
        Exit::Failed
    })?;
    let done = runtime.block_on(command);
    // Activities that still run, in threads of their own, do not delay the end.
    runtime.shutdown_background();
    done
}
