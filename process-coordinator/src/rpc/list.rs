//! `List` and `Statuses`: the processes of the repository, page by page. Those of other coordinators are asked for there.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::task::JoinSet;
use tonic::Status;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, MAX_PAGE_BYTES, MAX_PAGE_ITEMS, Message, Page, connect, v1};
use xavantes_repository::{Entries, Entry, Place};

use crate::coordinator::Coordinator;
use crate::process::process_status::running_status;
use crate::rpc::errors::repository_status;

/// An owner that does not answer within this time is left out: its processes are shown as the repository has them.
const OWNER_TIMEOUT: Duration = Duration::from_secs(1);

/// A page of all processes of the repository, in the order of their submission. Reads no more than the page shows.
pub(super) async fn list(coordinator: &Coordinator, request: v1::ListRequest) -> Result<v1::ListResponse, Status> {
    let begin = match &*request.page {
        "" => None,
        page => Some(Place::parse(page).ok_or_else(|| Status::invalid_argument("no list has such a page"))?),
    };
    let max_items = match request.limit as usize {
        0 => MAX_PAGE_ITEMS,
        limit => limit.min(MAX_PAGE_ITEMS),
    };
    // One more tells whether there is a next page.
    let mut entries = Entries::page(&coordinator.repository, begin, request.newest_first, max_items + 1);
    let mut page = Page::new(max_items);
    while let Some(entry) = entries.next().await.map_err(|error| repository_status(&error))? {
        let place = entry.place().to_string();
        let process = Listed::new(coordinator, entry);
        if !page.add(place, process.status.encoded_len(), process) {
            break;
        }
    }
    let (mut listed, next_page) = page.finish();
    ask_owners(coordinator, &mut listed).await;
    Ok(v1::ListResponse { processes: listed.into_iter().map(|process| process.status).collect(), next_page })
}

/// A process in the list.
struct Listed {
    status: v1::ProcessStatus,
    /// The coordinator that runs it, if it is another one.
    owner: Option<String>,
}

impl Listed {
    fn new(coordinator: &Coordinator, entry: Entry) -> Self {
        let status = coordinator.status_of(&entry);
        let elsewhere = entry.summary.is_none() && entry.owner != coordinator.options.node;
        Self { status, owner: Some(entry.owner).filter(|_| elsewhere) }
    }
}

/// Asks the owners of processes that run elsewhere.
async fn ask_owners(coordinator: &Coordinator, listed: &mut [Listed]) {
    let mut wanted: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Listed { status, owner } in &*listed {
        if let Some(owner) = owner {
            wanted.entry(owner).or_default().push(status.process.clone());
        }
    }
    let mut asked = JoinSet::new();
    for (owner, processes) in wanted {
        if let Ok(Some(address)) = coordinator.address_of(owner).await {
            asked.spawn(tokio::time::timeout(OWNER_TIMEOUT, statuses_at(address, processes)));
        }
    }
    let mut known: HashMap<String, v1::ProcessStatus> = HashMap::new();
    while let Some(answer) = asked.join_next().await {
        let answer = answer.ok().and_then(Result::ok).flatten().unwrap_or_default();
        known.extend(answer.into_iter().map(|status| (status.process.clone(), status)));
    }
    for Listed { status, .. } in listed.iter_mut().filter(|process| process.owner.is_some()) {
        match known.remove(&status.process) {
            Some(now) => *status = now,
            None => status.owner_silent = true,
        }
    }
}

async fn statuses_at(address: String, processes: Vec<String>) -> Option<Vec<v1::ProcessStatus>> {
    let channel = connect(&address).await.ok()?;
    let mut client = ProcessCoordinatorClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    Some(client.statuses(v1::StatusesRequest { processes }).await.ok()?.into_inner().processes)
}

/// The status of those of these processes that run here, as many as fit into an answer; and of those that have just ended.
pub(super) async fn statuses(
    coordinator: &Coordinator,
    request: v1::StatusesRequest,
) -> Result<v1::StatusesResponse, Status> {
    let (mut processes, mut bytes) = (Vec::new(), 0);
    for process in request.processes.into_iter().take(MAX_PAGE_ITEMS) {
        let found = match coordinator.processes.find(&process) {
            Some(handle) => Some(running_status(&handle)),
            None => {
                let entry = coordinator.repository.find(&process).await.map_err(|error| repository_status(&error))?;
                let mine = entry.filter(|entry| entry.summary.is_some() || entry.owner == coordinator.options.node);
                mine.map(|entry| coordinator.status_of(&entry))
            }
        };
        bytes += found.as_ref().map_or(0, Message::encoded_len);
        if bytes > 2 * MAX_PAGE_BYTES {
            break;
        }
        processes.extend(found);
    }
    Ok(v1::StatusesResponse { processes })
}
