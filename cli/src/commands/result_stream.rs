//! `--stream`: what the elements of a process return, printed when they complete.

use xavantes_proto::{Assembler, MAX_RESULTS_BYTES, v1};

use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, ask, refused};
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::process::ElementOutput;
use crate::transfer::{self, DownloadDir};

/// Prints one line for each element that returns something, until the process has ended. A file that cannot be
/// downloaded is an error message, and does not end the stream.
pub(crate) async fn stream(
    client: &mut CoordinatorClient,
    process: &str,
    download: Option<DownloadDir<'_>>,
    output: Output,
) -> Result<Exit, Exit> {
    let request = v1::OutputsRequest { process: process.to_owned(), ..v1::OutputsRequest::default() };
    let mut parts = ask(client.outputs(request)).await?;
    let mut whole = Assembler::<v1::Output>::new(MAX_RESULTS_BYTES);
    let mut exit = Exit::Success;
    while let Some(part) = parts.message().await.map_err(|status| refused(&status))? {
        let Some(mut returned) = whole.add(part).map_err(|unfit| refused(&unfit))? else { continue };
        if returned.missed > 0 {
            terminal::note(&format!("{} outputs before {} were missed\n", returned.missed, returned.path));
        }
        if let Some(download) = download {
            let below = download.of_element(&returned.path)?;
            let relays: Vec<&str> =
                [download.coordinator].into_iter().chain(returned.relays.iter().map(String::as_str)).collect();
            let fetched = transfer::download(&mut returned.results, &below, &relays, download.quiet).await;
            exit = fetched.err().unwrap_or(exit);
        }
        output.line(&ElementOutput::from(&returned))?;
    }
    Ok(exit)
}
