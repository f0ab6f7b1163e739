//! `xavantes logs --failed`: what the failed activities of a process wrote.

use std::collections::{BTreeSet, VecDeque};

use tonic::Status;
use xavantes_proto::{call_with_timeout, v1};

use super::show::{fetch_status, fetch_tree};
use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, is_broken, refused};
use crate::output::printer::Output;
use crate::report::log_lines::{FailedLog, FailedLogs};
use crate::report::reason::FailureReport;

/// Upper bound on the failed activities that are shown.
const MAX_ACTIVITIES: usize = 32;
/// Lines of each stream that are shown of an activity, unless the user asked for another number, and bytes of them.
const DEFAULT_TAIL_LINES: u32 = 50;
const MAX_STREAM_BYTES: usize = 64 << 10;

/// Prints what the failed activities in an element wrote. `request` says which of their streams, and how many lines.
pub(crate) async fn failed_logs(
    client: &mut CoordinatorClient,
    request: v1::LogsRequest,
    output: Output,
) -> Result<Exit, Exit> {
    let path = request.path.clone();
    let process = path.split('/').next().unwrap_or_default().to_owned();
    let mut root = fetch_tree(client, &process, u32::MAX).await.map_err(|status| refused(&status))?;
    if root.remarks.is_empty() {
        // A process that runs tells them only if it is shown alone.
        root.remarks = fetch_tree(client, &process, 0).await.map_err(|status| refused(&status))?.remarks;
    }
    let failures = failures_in(&root, &path);
    let mut logs = Vec::new();
    for (path, failure) in failures.iter().take(MAX_ACTIVITIES) {
        let tail = if request.tail == 0 { DEFAULT_TAIL_LINES } else { request.tail };
        let wanted = v1::LogsRequest { path: (*path).to_owned(), tail, follow: false, ..request.clone() };
        let mut log = FailedLog::new(path, FailureReport::from(*failure));
        match read(client, wanted, &mut log).await {
            Ok(()) => {}
            Err(status) if is_broken(&status) => return Err(refused(&status)),
            // An element whose own code failed wrote nothing, and workers remove old output.
            Err(status) => log.missing = Some(status.message().to_owned()),
        }
        logs.push(log);
    }
    let failed = match path == process {
        true => fetch_status(client, &process).await.and_then(|status| status.counts).unwrap_or_default().failed,
        false => 0,
    };
    let left_out = failed.max(failures.len() as u64) - logs.len() as u64;
    Ok(output.report(&FailedLogs { path, logs, left_out }))
}

/// The failures in an element of a process, each path once: those that the process recorded, and those of elements that wait.
fn failures_in<'a>(root: &'a v1::Element, path: &str) -> Vec<(&'a str, &'a v1::Failure)> {
    let recorded = root.remarks.iter().filter_map(|remark| match &remark.what {
        Some(v1::remark::What::Failed(failure)) => Some((&*remark.path, failure)),
        _ => None,
    });
    let (mut waiting, mut open) = (Vec::new(), vec![root]);
    while let Some(element) = open.pop() {
        // The failure of a process is that of an element in it.
        if let Some(failure) = element.failure.as_ref().filter(|_| element.tag == "ACTIVITY") {
            waiting.push((&*element.path, failure));
        }
        open.extend(element.children.iter().rev());
    }
    let is_inside = |other: &str| other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut seen = BTreeSet::new();
    recorded.chain(waiting).filter(|(path, _)| is_inside(path) && seen.insert(*path)).collect()
}

/// Reads the last lines of both streams of the last attempt.
async fn read(client: &mut CoordinatorClient, request: v1::LogsRequest, log: &mut FailedLog) -> Result<(), Status> {
    let (mut stdout, mut stderr) = (LastBytes::default(), LastBytes::default());
    let (wants_stdout, wants_stderr) = (request.stdout, request.stderr);
    let mut pieces = call_with_timeout(client.logs(request)).await?;
    while let Some(piece) = pieces.message().await? {
        log.attempt.get_or_insert(piece.attempt);
        // Only the first piece says who sends.
        log.node.get_or_insert(piece.node);
        let stream = if piece.stderr { &mut stderr } else { &mut stdout };
        stream.add(piece.left_out, &piece.data);
    }
    log.left_out_bytes = Some(stdout.left_out + stderr.left_out).filter(|bytes| *bytes > 0);
    log.stdout = wants_stdout.then(|| stdout.text());
    log.stderr = wants_stderr.then(|| stderr.text());
    Ok(())
}

/// The end of a stream, in bounded memory.
#[derive(Default)]
struct LastBytes {
    bytes: VecDeque<u8>,
    left_out: u64,
}

impl LastBytes {
    fn add(&mut self, left_out: u64, data: &[u8]) {
        self.bytes.extend(data);
        let surplus = self.bytes.len().saturating_sub(MAX_STREAM_BYTES);
        self.bytes.drain(..surplus);
        self.left_out = self.left_out.saturating_add(left_out).saturating_add(surplus as u64);
    }

    fn text(mut self) -> String {
        String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_element_is_found_once() {
        let failure = |message: &str| v1::Failure { message: message.into(), ..v1::Failure::default() };
        let remark = |path: &str, message: &str| v1::Remark {
            path: path.into(),
            what: Some(v1::remark::What::Failed(failure(message))),
            ..v1::Remark::default()
        };
        let element = |path: &str, tag: &str, failure, children| v1::Element {
            path: path.into(),
            tag: tag.into(),
            failure,
            children,
            ..v1::Element::default()
        };
        let waiting = |path: &str| element(path, "ACTIVITY", Some(failure("again")), vec![]);
        let inside = vec![waiting("P-1/all/[1]/a"), waiting("P-1/all/[2]/a")];
        let mut root =
            element("P-1", "PROCESS", Some(failure("all")), vec![element("P-1/all", "PARFOR", None, inside)]);
        root.remarks = vec![remark("P-1/b", "first"), remark("P-1/all/[1]/a", "second"), remark("P-1/b", "once more")];
        let found = |path: &str| failures_in(&root, path).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        assert_eq!(found("P-1"), ["P-1/b", "P-1/all/[1]/a", "P-1/all/[2]/a"]);
        assert_eq!(found("P-1/all"), ["P-1/all/[1]/a", "P-1/all/[2]/a"]);
        assert_eq!(found("P-1/al"), Vec::<&str>::new());
    }

    #[test]
    fn only_the_end_of_a_long_stream_is_kept() {
        let mut last = LastBytes::default();
        last.add(3, &[b'a'; MAX_STREAM_BYTES]);
        last.add(0, b"end");
        assert_eq!(last.left_out, 6);
        let text = last.text();
        assert!(text.ends_with("aend") && text.len() == MAX_STREAM_BYTES);
    }
}
