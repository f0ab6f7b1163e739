//! `xavantes explain`: the state of an element, and whether the result of an activity came from the cache.

use clap::Args;
use tonic::Code;
use xavantes_proto::{call_with_timeout, v1};

use super::show::fetch_element;
use crate::args::GridArgs;
use crate::exit::Exit;
use crate::given_path::resolve;
use crate::grid_connection::{coordinator, refused};
use crate::output::printer::Output;
use crate::report::element::{Element, Explanation};
use crate::report::reuse::Reuse;
use crate::report::some_text;

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// Path of an element, e.g. FindPrimes-7f3a/search/3
    pub path: String,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn explain(arguments: &ExplainArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&arguments.grid.coordinator).await?;
    let path = &resolve(&mut client, &arguments.path).await?;
    let shown = fetch_element(&mut client, path, 0).await.ok();
    let request = v1::ExplainRequest { path: path.clone(), ..v1::ExplainRequest::default() };
    let decision = match call_with_timeout(client.explain(request)).await {
        Ok(decision) => Some(decision),
        // There is no decision about elements that are no activities.
        Err(status) if shown.is_some() && status.code() == Code::InvalidArgument => None,
        Err(status) => return Err(refused(&status)),
    };
    let is_known = shown.is_some();
    let activity_type = decision.as_ref().map_or("", |decision| &decision.r#type);
    let mut element = shown.unwrap_or_else(|| Element::forgotten(path));
    // An activity that has ended in a process that runs is shown without its type.
    element.r#type = element.r#type.or_else(|| some_text(activity_type));
    element.reuse = decision.as_ref().map(Reuse::from);
    Ok(output.report(&Explanation { element, is_known }))
}
