//! `List` and `Statuses`: the processes of the repository, page by page. Those of other coordinators are asked for there.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::task::JoinSet;
use tonic::Status;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, MAX_PAGE_BYTES, MAX_PAGE_ITEMS, Message, Page, connect, v1};
use xavantes_repository::{Entries, Entry, Error};

use crate::codec;
use crate::coordinator::Coordinator;
use crate::process::journal::Head;
use crate::process::status::running_status;
use crate::rpc::errors::repository_status;

/// An owner that does not answer within this time is left out: its processes are shown as the repository has them.
const OWNER_TIMEOUT: Duration = Duration::from_secs(1);

/// A page of all processes of the repository, in the order of their submission.
pub(super) async fn list(coordinator: &Coordinator, request: v1::ListRequest) -> Result<v1::ListResponse, Status> {
    let mut processes = read_all(coordinator).await.map_err(|error| repository_status(&error))?;
    let in_order = |a: &str, b: &str| if request.newest_first { b.cmp(a) } else { a.cmp(b) };
    processes.sort_by(|(a, _), (b, _)| in_order(a, b));
    let max_items = match request.limit as usize {
        0 => MAX_PAGE_ITEMS,
        limit => limit,
    };
    let is_before = |place: &str| !request.page.is_empty() && in_order(place, &request.page).is_le();
    let first = processes.partition_point(|(place, _)| is_before(place));
    let mut page = Page::new(max_items);
    for (place, process) in processes.drain(first..) {
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

/// All processes with their places. Of each one only the status stays in memory.
async fn read_all(coordinator: &Coordinator) -> Result<Vec<(String, Listed)>, Error> {
    let (mut all, mut entries) = (Vec::new(), Entries::of(&coordinator.repository));
    while let Some(entry) = entries.next().await? {
        let (place, status) = (place_of(&entry), coordinator.status_of(&entry));
        let elsewhere = entry.summary.is_none() && entry.owner != coordinator.options.node;
        all.push((place, Listed { status, owner: Some(entry.owner).filter(|_| elsewhere) }));
    }
    Ok(all)
}

/// The place of a process in the list: it begins with the time of the submission, which the head has.
fn place_of(entry: &Entry) -> String {
    let submitted_ms = codec::decode::<Head>("head", &entry.head).map_or(0, |head| head.submitted_ms);
    format!("{submitted_ms:020}/{}", entry.process)
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
