//! The status of processes, from their tasks and from the repository.

use xavantes_proto::v1;
use xavantes_repository::Entry;

use crate::coordinator::Coordinator;
use crate::process::ended_summary::Summary;
use crate::process::handle::ProcessHandle;
use crate::process::journal::Head;
use crate::process::shortened_views::cut_status;
use crate::record_codec;
use crate::subtrees::hosted_subtrees;

impl Coordinator {
    /// The status of a process: from its task if it runs here, otherwise from the repository. Long texts are cut.
    pub fn status_of(&self, entry: &Entry) -> v1::ProcessStatus {
        if let Some(handle) = self.processes.find(&entry.process) {
            return running_status(&handle);
        }
        let held = self.processes.find_held(&entry.process).map(|(_, held)| held.status);
        let mut status = held.unwrap_or_else(|| self.stored_status(entry));
        cut_status(&mut status);
        status
    }

    fn stored_status(&self, entry: &Entry) -> v1::ProcessStatus {
        let status = match &entry.summary {
            Some(summary) => record_codec::decode("summary", summary).and_then(|summary: Summary| summary.status()),
            None => record_codec::decode("head", &entry.head)
                .map(|head| self.status_from_head(&entry.process, &head, &entry.owner)),
        };
        status.unwrap_or_else(|error| v1::ProcessStatus {
            process: entry.process.clone(),
            stalled: Some(v1::stall_reason::Kind::Unreadable(error.to_string()).into()),
            ..v1::ProcessStatus::default()
        })
    }

    /// The status of a process that has not ended, as far as its head determines it: not what it is doing.
    pub(super) fn status_from_head(&self, id: &str, head: &Head, node: &str) -> v1::ProcessStatus {
        v1::ProcessStatus {
            process: id.to_owned(),
            path: hosted_subtrees::path_of(id, head.parent.is_some()).to_owned(),
            process_type: head.process_type.clone(),
            state: v1::State::Unspecified.into(),
            submitted_ms: head.submitted_ms,
            node: node.to_owned(),
            group: self.options.group.clone(),
            ..v1::ProcessStatus::default()
        }
    }
}

/// The status of a process that runs here. Long texts are cut.
pub(crate) fn running_status(handle: &ProcessHandle) -> v1::ProcessStatus {
    let mut status = handle.status.borrow().clone();
    cut_status(&mut status);
    status
}
