//! `xavantes rerun`: starts a process again, and takes over what did not change.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::value::Value;
use xavantes_proto::{MAX_RESULTS_BYTES, receive, v1, value_from};

use super::submit::{FollowArgs, start};
use crate::args::{GridArgs, key_value, labels};
use crate::definition::{GivenParameters, submission};
use crate::documents::{load_sources, read_files};
use crate::exit::Exit;
use crate::given_path::resolve;
use crate::grid_connection::{CoordinatorClient, ask, coordinator, refused};
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::rerun::RerunPlan;
use crate::transfer;

#[derive(Args)]
pub(crate) struct RerunArgs {
    /// Id of the former process, which has ended
    pub id: String,
    /// The corrected definition; without it that of the former process
    pub files: Vec<PathBuf>,
    /// Process type to run; without it that of the former process
    #[arg(long, value_name = "NAME")]
    pub process: Option<String>,
    /// Parameter to change, as for `submit`; the others are those of the former process
    #[arg(short = 'p', long = "parameter", value_name = "KEY=VALUE", value_parser = key_value)]
    pub parameters: Vec<(String, String)>,
    /// JSON file with parameters to change: one object, a member for each
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// Print what would be taken over and what would run, and start nothing
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,
    /// Name of the new process for people: lists show it
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Label of the new process, by which `list --label` finds it; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = key_value)]
    pub labels: Vec<(String, String)>,
    #[command(flatten)]
    pub follow: FollowArgs,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn rerun(arguments: RerunArgs, output: Output) -> Result<Exit, Exit> {
    let address = arguments.grid.coordinator.as_str();
    let mut client = coordinator(address).await?;
    let id = resolve(&mut client, &arguments.id).await?;
    let former = fetch_definition(&mut client, &id).await?;
    let sources = match &arguments.files[..] {
        [] => former.documents.iter().map(|it| Source::new(it.name.as_str(), it.text.as_str())).collect(),
        files => read_files(files)?,
    };
    let program = load_sources(&sources, output)?;
    let process = process_type(&program, arguments.process.as_deref(), &former.process_type)?;
    // The coordinator does not tell secret values: the user gives them again.
    let told = former.parameters.into_iter().filter(|parameter| !former.hidden.contains(&parameter.name));
    let values = told.map(|it| Ok((it.name, value_from(it.value.unwrap_or_default())?)));
    let values = values.collect::<Result<BTreeMap<String, Value>, tonic::Status>>();
    let given = GivenParameters {
        former: values.map_err(|status| refused(&status))?,
        file: arguments.params.as_deref(),
        arguments: &arguments.parameters,
    };
    let mut request = submission(&sources, &program.processes[process], &given)?;
    request.rerun_of = id;
    request.name = arguments.name.clone().unwrap_or_default();
    request.labels = labels(&arguments.labels);
    transfer::upload(&mut request, address, output.is_quiet()).await?;
    let parts = ask(client.plan_rerun(request.clone())).await?;
    let plan: v1::RerunPlan = receive(parts, MAX_RESULTS_BYTES).await.map_err(|status| refused(&status))?;
    let plan = RerunPlan::from(plan);
    if arguments.dry_run {
        return Ok(output.report(&plan));
    }
    if !output.is_quiet() {
        terminal::note(&format!("{}\n", plan.summary()));
    }
    start(client, request, &arguments.follow, address, output).await
}

async fn fetch_definition(client: &mut CoordinatorClient, id: &str) -> Result<v1::DefinitionResponse, Exit> {
    let parts = ask(client.definition(v1::DefinitionRequest { process: id.to_owned() })).await?;
    receive(parts, MAX_RESULTS_BYTES).await.map_err(|status| refused(&status))
}

/// The process type to run: the one that the user names, that of the former process, or the only one.
fn process_type(program: &Program, named: Option<&str>, former: &str) -> Result<usize, Exit> {
    let has_former = program.processes.iter().any(|process| *process.name == *former);
    let wanted = named.or(Some(former).filter(|_| has_former));
    program.entry(wanted).map_err(|message| terminal::error(&message))
}
