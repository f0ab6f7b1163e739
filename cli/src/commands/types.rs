//! `xavantes types`: the process and activity types of a coordinator.

use xavantes_proto::v1;

use crate::args::GridArgs;
use crate::connection::{ask, coordinator};
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::report::grid::{RegisteredType, TypeList};

pub(crate) async fn types(grid: &GridArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&grid.coordinator).await?;
    let types = ask(client.list_types(v1::ListTypesRequest {})).await?.types;
    Ok(output.report(&TypeList { types: types.iter().map(RegisteredType::from).collect() }))
}
