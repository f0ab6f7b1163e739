//! `xavantes list`: the processes that run and ran.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use clap::builder::PossibleValuesParser;
use tonic::Status;
use xavantes_proto::{PROCESS_STATES, call_with_timeout, v1};

use super::watch::{LiveSnapshot, print_or_watch, window_rows};
use crate::args::{GridArgs, key_value, labels};
use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, coordinator, refused};
use crate::output::printer::Output;
use crate::output::terminal;
use crate::output::text::units::timestamp;
use crate::report::process::{Process, ProcessList};

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Only processes in one of these states
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(PROCESS_STATES.map(v1::State::word)))]
    pub states: Vec<String>,
    /// Only processes that failed, and why
    #[arg(long, conflicts_with = "states")]
    pub failed: bool,
    /// Only processes of one of these types
    #[arg(long = "type", value_name = "NAME", value_delimiter = ',')]
    pub types: Vec<String>,
    /// Only processes with this name
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Only processes with this label; may be repeated: with all of them
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = key_value)]
    pub labels: Vec<(String, String)>,
    /// Only processes that were submitted since then: e.g. 90m, 2days, 2026-11-18 or 2026-11-18T10:30:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<SystemTime>,
    /// Only the N processes that were submitted last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Print the list again whenever it changed, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

impl ListArgs {
    fn filter(&self) -> Option<v1::ListFilter> {
        let states = self.states.iter().map(|word| v1::State::from_word(word));
        let filter = v1::ListFilter {
            states: states.chain(self.failed.then_some(v1::State::Failed)).map(i32::from).collect(),
            process_types: self.types.clone(),
            name: self.name.clone().unwrap_or_default(),
            labels: labels(&self.labels),
            since_ms: self.since.map_or(0, unix_ms),
        };
        (filter != v1::ListFilter::default()).then_some(filter)
    }

    fn report(&self, processes: &[v1::ProcessStatus]) -> ProcessList {
        let processes = processes.iter().map(Process::from).collect();
        ProcessList { processes, now_ms: unix_ms(SystemTime::now()), shows_errors: self.failed }
    }
}

pub(crate) async fn list(arguments: &ListArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&arguments.grid.coordinator).await?;
    if !arguments.watch && output.is_text() {
        return print_pages(&mut client, arguments, output).await;
    }
    print_or_watch(arguments.watch, output, async || {
        // More processes than the window has lines are not worth their search.
        let limit = window_rows(arguments.watch && output.is_text()).into_iter().chain(arguments.limit).min();
        let mut pages = ProcessPages::new(arguments.filter(), limit);
        let mut processes = Vec::new();
        while let Some(page) = pages.next(&mut client).await? {
            processes.extend(page);
        }
        Ok(LiveSnapshot { report: arguments.report(&processes), is_final: false })
    })
    .await
}

/// Prints each page as it arrives.
async fn print_pages(client: &mut CoordinatorClient, arguments: &ListArgs, output: Output) -> Result<Exit, Exit> {
    let mut pages = ProcessPages::new(arguments.filter(), arguments.limit);
    let (mut looked_at, mut is_first) = (0, true);
    while let Some(page) = pages.next(client).await.map_err(|status| refused(&status))? {
        terminal::clear_footer();
        looked_at += pages.looked_at;
        if !page.is_empty() || (is_first && pages.is_last()) {
            is_first = false;
            let exit = output.report(&arguments.report(&page));
            if exit != Exit::Success {
                return Ok(exit);
            }
        }
        if !pages.is_last() && output.shows_progress() {
            let back_to = timestamp(pages.looked_back_to_ms);
            terminal::set_footer(&format!("looked at {looked_at} processes, back to {back_to}"));
        }
    }
    terminal::clear_footer();
    Ok(Exit::Success)
}

/// The processes of a grid page by page, the latest submission first.
pub(crate) struct ProcessPages {
    filter: Option<v1::ListFilter>,
    /// Number of processes that are still wanted.
    left: Option<u32>,
    /// Where the next page begins; none behind the last one.
    next: Option<String>,
    looked_at: u64,
    looked_back_to_ms: u64,
}

impl ProcessPages {
    pub(crate) fn new(filter: Option<v1::ListFilter>, limit: Option<u32>) -> Self {
        Self { filter, left: limit, next: Some(String::new()), looked_at: 0, looked_back_to_ms: 0 }
    }

    fn is_last(&self) -> bool {
        self.next.is_none()
    }

    /// The next page, which may be empty: a search answers after a while with what it has found.
    pub(crate) async fn next(
        &mut self,
        client: &mut CoordinatorClient,
    ) -> Result<Option<Vec<v1::ProcessStatus>>, Status> {
        let Some(page) = self.next.take() else { return Ok(None) };
        let (limit, filter) = (self.left.unwrap_or(0), self.filter.clone());
        let answer =
            call_with_timeout(client.list(v1::ListRequest { limit, page, newest_first: true, filter })).await?;
        (self.looked_at, self.looked_back_to_ms) = (answer.looked_at, answer.looked_back_to_ms);
        self.left = self.left.map(|left| left.saturating_sub(answer.processes.len() as u32));
        self.next = Some(answer.next_page).filter(|next| !next.is_empty() && self.left != Some(0));
        Ok(Some(answer.processes))
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A point in time: an age, a date or a time.
fn since(text: &str) -> Result<SystemTime, String> {
    let age = || {
        let time = SystemTime::now().checked_sub(humantime::parse_duration(text).ok()?);
        Some(time.map_or(UNIX_EPOCH, |time| time.max(UNIX_EPOCH)))
    };
    let time = |text: &str| humantime::parse_rfc3339_weak(text).ok();
    let expected = || "expected an age such as 90m or 2days, or a time (UTC) such as 2026-11-18T10:30:00Z".to_owned();
    age().or_else(|| time(text)).or_else(|| time(&format!("{text}T00:00:00Z"))).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_an_age_a_date_or_a_time() {
        let at = |seconds| Ok(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(since("2026-11-18"), at(1_794_960_000));
        assert_eq!(since("2026-11-18T01:00:00Z"), at(1_794_963_600));
        assert_eq!(since("2026-11-18 01:00:00"), at(1_794_963_600));
        let age = SystemTime::now().duration_since(since("2h 30m").expect("an age")).expect("it is over");
        assert!((8999..9100).contains(&age.as_secs()), "{age:?}");
        assert!(since("yesterday").expect_err("no time").contains("90m"));
        assert_eq!(since("9000000000000s"), Ok(UNIX_EPOCH));
    }
}
