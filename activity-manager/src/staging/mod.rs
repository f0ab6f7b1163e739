//! The files of attempts: staged into working directories before, staged out of them after, and pinned for processes.
//!
//! | module | is about |
//! |---|---|
//! | `stage_in` | files of parameters go into the working directory |
//! | `stage_out` | files that the program made become results |
//! | `declared_outputs` | which files become which result |

pub(crate) mod declared_outputs;
pub(crate) mod stage_in;
mod stage_out;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tonic::Status;
use tracing::warn;
use xavantes_files::{Error, Fetcher, Sources, StagedOut};
use xavantes_model::definition::FileText;
use xavantes_model::value::Content;
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_proto::{connect, status_text, transport_text, v1};

use crate::attempt_failure::{AttemptFailure, failure};

/// Upper bound on the objects that one request hands over.
const MAX_OBJECTS_PER_HANDOVER: usize = 1000;

/// The files of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Staging {
    fetcher: Fetcher,
    sources: Sources,
    /// Address of this node for other nodes.
    address: Arc<str>,
}

impl Staging {
    pub fn new(fetcher: Fetcher, sources: Sources, address: &str) -> Self {
        Self { fetcher, sources, address: address.into() }
    }

    /// Digests of the newest objects in the store, at most `count`.
    pub fn newest_objects(&self, count: usize) -> Vec<Vec<u8>> {
        self.fetcher.store().latest(count).iter().map(|digest| digest.0.to_vec()).collect()
    }

    /// Processes of a realm for which files are pinned. Their pins are renewed, because a coordinator of the realm is there.
    pub fn pinned_processes(&self, realm: &str) -> Vec<String> {
        let store = self.fetcher.store();
        let mut owners = store.owners();
        owners.retain(|owner| owner.strip_prefix(realm).is_some_and(|rest| rest.starts_with('/')));
        owners.iter().for_each(|owner| store.confirm(owner));
        owners.iter().map(|owner| owner[realm.len() + 1..].to_owned()).collect()
    }

    /// Hands pinned files over to the coordinators, which are given by realm, because this node goes away.
    pub async fn hand_over(&self, coordinators: &HashMap<Arc<str>, String>) {
        let store = self.fetcher.store();
        let mut unreachable: HashSet<&str> = HashSet::new();
        for owner in store.owners() {
            let address = owner.split_once('/').and_then(|(realm, _)| coordinators.get(realm));
            let other = address.filter(|address| ***address != *self.address && !unreachable.contains(&***address));
            let Some(address) = other else { continue };
            let digests = store.pinned(&owner);
            for some in digests.chunks(MAX_OBJECTS_PER_HANDOVER) {
                let digests = some.iter().map(|digest| digest.0.to_vec()).collect();
                let request = v1::KeepRequest { owner: owner.clone(), digests, holder: self.address.to_string() };
                let handed_over = async {
                    let channel =
                        connect(address).await.map_err(|error| Status::unavailable(transport_text(&error)))?;
                    FilesClient::new(channel).keep(request).await
                };
                if let Err(status) = handed_over.await {
                    warn!(owner, error = %status_text(&status), "could not hand over files; they may be lost with this node");
                    unreachable.insert(address);
                    break;
                }
            }
        }
    }

    /// A process needs fewer files than before.
    pub fn release(&self, realm: &str, release: &v1::Release) {
        let owner = pin_owner(realm, &release.process);
        self.fetcher.store().release_except(&owner, &release.files, &release.directories);
    }

    /// The content that was just stored on this node.
    fn local_content(&self, taken: &StagedOut) -> Content {
        Content {
            digest: taken.digest,
            size: taken.size,
            executable: taken.executable,
            holders: vec![self.address.clone()],
        }
    }
}

/// The name under which the store pins files for a process.
fn pin_owner(realm: &str, process: &str) -> String {
    format!("{realm}/{process}")
}

/// The text of a path, pattern or place in a definition.
fn resolve_text<'a>(text: &'a FileText, computed: &'a [String]) -> &'a str {
    match text {
        FileText::Plain(text) => text,
        FileText::Computed(number) => computed.get(*number).map_or("", String::as_str),
    }
}

fn store_failure(error: &Error) -> AttemptFailure {
    failure(v1::FailureKind::Worker, error.to_string())
}

/// A blocking task fails only when the runtime shuts down.
fn shutdown_failure(_: tokio::task::JoinError) -> AttemptFailure {
    failure(v1::FailureKind::Worker, "the node is ending")
}
