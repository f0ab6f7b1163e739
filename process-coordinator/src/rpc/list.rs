//! `List` and `Statuses`: the processes of the repository, page by page. Those of other coordinators are asked for there.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tonic::Status;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, MAX_PAGE_BYTES, MAX_PAGE_ITEMS, Message, Page, connect, v1};
use xavantes_repository::{Entries, Entry, PageRequest, Place};

use crate::coordinator::Coordinator;
use crate::process::process_status::running_status;
use crate::rpc::errors::repository_status;
use crate::rpc::list_filter::Filter;

/// Processes are read, and their owners asked, this many at a time.
const CHUNK_ITEMS: usize = 1000;
/// A search for processes that a filter accepts answers after about this time with what it has found.
const SEARCH_TIME: Duration = Duration::from_secs(1);
/// An owner that does not answer within this time is left out: its processes are shown as the repository has them.
const OWNER_TIMEOUT: Duration = Duration::from_secs(1);

/// A page of the processes of the repository, in the order of their submission. Without a filter this reads no more than the page
/// shows. With one it searches for a bounded time, and the next page goes on from there.
pub(super) async fn list(coordinator: &Coordinator, request: v1::ListRequest) -> Result<v1::ListResponse, Status> {
    let after = match &*request.page {
        "" => None,
        page => Some(Place::parse(page).ok_or_else(|| Status::invalid_argument("no list has such a page"))?),
    };
    let max_items = match request.limit as usize {
        0 => MAX_PAGE_ITEMS,
        limit => limit.min(MAX_PAGE_ITEMS),
    };
    let (newest_first, filters) = (request.newest_first, request.filter.is_some());
    let filter = Filter::new(request.filter.unwrap_or_default())?;
    // One more tells whether there is a next page.
    let chunk_items = if filters { CHUNK_ITEMS } else { CHUNK_ITEMS.min(max_items + 1) };
    let read = PageRequest {
        after,
        newest_first,
        unfinished: filter.is_of_unfinished(),
        max_items: chunk_items,
        max_bytes: usize::MAX,
    };
    let mut entries = Entries::behind(&coordinator.repository, read);
    let (mut page, began) = (Page::new(max_items), Instant::now());
    let (mut looked_at, mut looked_back_to_ms) = (0, 0);
    'pages: loop {
        let mut chunk = Vec::new();
        while chunk.len() < chunk_items && (chunk.is_empty() || began.elapsed() < SEARCH_TIME) {
            let Some(entry) = entries.next().await.map_err(|error| repository_status(&error))? else { break };
            chunk.push(Listed::new(coordinator, &filter, entry));
        }
        if chunk.is_empty() {
            break;
        }
        ask_owners(coordinator, &mut chunk).await;
        for Listed { place, status, is_wanted, .. } in chunk {
            if newest_first && filter.is_behind(&status) {
                break 'pages;
            }
            let (seen, submitted_ms) = (looked_at + 1, status.submitted_ms);
            if !is_wanted || !filter.accepts_state(&status) {
                page.skip(place);
            } else if !page.add(place, status.encoded_len(), status) {
                break 'pages;
            }
            (looked_at, looked_back_to_ms) = (seen, submitted_ms);
        }
        if filters && began.elapsed() >= SEARCH_TIME {
            page.stop();
            break;
        }
    }
    let (processes, next_page) = page.finish();
    Ok(v1::ListResponse { processes, next_page, looked_at, looked_back_to_ms })
}

/// A process in the list.
struct Listed {
    place: String,
    status: v1::ProcessStatus,
    /// The filter accepts it, unless its state is another one.
    is_wanted: bool,
    /// The coordinator to ask for its state, if another one runs it.
    owner: Option<String>,
}

impl Listed {
    fn new(coordinator: &Coordinator, filter: &Filter, entry: Entry) -> Self {
        let (place, status) = (entry.place().to_string(), coordinator.status_of(&entry));
        let is_wanted = filter.accepts_origin(&status);
        // A store in memory names no owner: all processes in it are those of this coordinator.
        let is_foreign = !entry.owner.is_empty() && entry.owner != coordinator.options.node;
        let elsewhere = entry.summary.is_none() && is_foreign;
        Self { place, status, is_wanted, owner: Some(entry.owner).filter(|_| elsewhere && is_wanted) }
    }
}

/// Asks the owners of processes that run elsewhere.
async fn ask_owners(coordinator: &Coordinator, listed: &mut [Listed]) {
    let mut wanted: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Listed { status, owner, .. } in &*listed {
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
