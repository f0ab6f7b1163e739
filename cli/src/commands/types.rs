//! `xavantes types`: the process and activity types of a coordinator.

use xavantes_proto::v1;

use crate::args::GridArgs;
use crate::exit::Exit;
use crate::grid_connection::{ask, coordinator};
use crate::output::printer::Output;
use crate::report::grid::{RegisteredType, TypeList};

pub(crate) async fn types(grid: &GridArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&grid.coordinator).await?;
    let (mut types, mut page) = (Vec::new(), String::new());
    loop {
        let answer = ask(client.list_types(v1::ListTypesRequest { page })).await?;
        types.extend(answer.types.iter().map(RegisteredType::from));
        page = answer.next_page;
        if page.is_empty() {
            return Ok(output.report(&TypeList { types }));
        }
    }
}
