//! The status of processes, from their tasks and from the repository.

use xavantes_proto::v1;
use xavantes_repository::{Entry, Error};

use crate::codec;
use crate::coordinator::Coordinator;
use crate::process::journal::Head;
use crate::process::summary::Summary;
use crate::subtrees::hosted;

impl Coordinator {
    /// The status of all processes of the repository, in the order of their submission.
    pub async fn list(&self) -> Result<Vec<v1::ProcessStatus>, Error> {
        let entries = self.repository.list().await?;
        let mut all: Vec<v1::ProcessStatus> = entries.iter().map(|entry| self.status_of(entry)).collect();
        all.sort_by(|a, b| (a.submitted_ms, &a.process).cmp(&(b.submitted_ms, &b.process)));
        Ok(all)
    }

    /// The status of a process: from its task if it runs here, otherwise from the repository.
    pub fn status_of(&self, entry: &Entry) -> v1::ProcessStatus {
        if let Some(handle) = self.processes.find(&entry.process) {
            return handle.status.borrow().clone();
        }
        if let Some((_, held)) = self.processes.find_held(&entry.process) {
            return held.status;
        }
        let status = match &entry.summary {
            Some(summary) => codec::decode("summary", summary).and_then(|summary: Summary| summary.status()),
            None => codec::decode("head", &entry.head)
                .map(|head| self.status_from_head(&entry.process, &head, &entry.owner)),
        };
        status.unwrap_or_else(|error| v1::ProcessStatus {
            process: entry.process.clone(),
            stalled: Some(v1::stall_reason::Kind::Unreadable(error.to_string()).into()),
            ..v1::ProcessStatus::default()
        })
    }

    /// The status of a running process, as far as its head determines it.
    pub(super) fn status_from_head(&self, id: &str, head: &Head, node: &str) -> v1::ProcessStatus {
        v1::ProcessStatus {
            process: id.to_owned(),
            path: hosted::path_of(id, head.parent.is_some()).to_owned(),
            process_type: head.process_type.clone(),
            state: v1::ProcessState::Running.into(),
            submitted_ms: head.submitted_ms,
            node: node.to_owned(),
            group: self.options.group.clone(),
            ..v1::ProcessStatus::default()
        }
    }
}
