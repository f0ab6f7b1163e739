//! The state that a manager persists and restores after a restart.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request};
use xavantes_group_manager::{Options, Service};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::group_manager_server::{GroupManager, GroupManagerServer};
use xavantes_proto::{Message, v1};
use xavantes_repository::{Store, in_memory};

fn options() -> Options {
    let sources = [("configured".to_owned(), "file:c".to_owned())].into();
    Options { group: "g".into(), address: "here:1".into(), sources, ..Default::default() }
}

async fn open(repository: &Store) -> Service {
    Service::open(options(), repository.clone()).await.unwrap()
}

async fn nodes(manager: &Service) -> v1::ListNodesResponse {
    manager.list_nodes(Request::new(v1::ListNodesRequest::default())).await.unwrap().into_inner()
}

async fn sources(manager: &Service) -> Vec<(String, String)> {
    let listed =
        manager.list_sources(Request::new(v1::ListSourcesRequest::default())).await.unwrap().into_inner().sources;
    let mut sources: Vec<(String, String)> = listed.into_iter().collect();
    sources.sort();
    sources
}

async fn add(manager: &Service, name: &str, uri: &str) -> Result<(), Code> {
    let request = v1::AddSourceRequest { name: name.into(), uri: uri.into() };
    manager.add_source(Request::new(request)).await.map(drop).map_err(|status| status.code())
}

async fn remove(manager: &Service, name: &str) -> Result<(), Code> {
    let request = v1::RemoveSourceRequest { name: name.into() };
    manager.remove_source(Request::new(request)).await.map(drop).map_err(|status| status.code())
}

/// Waits until the stored state of the group meets a condition.
async fn wait_for_stored(repository: &Store, condition: impl Fn(&v1::GroupState) -> bool) {
    let poll = async {
        loop {
            let documents = repository.documents("group").await.unwrap();
            if documents.iter().any(|(key, it)| key == "g" && condition(&v1::GroupState::decode(it.clone()).unwrap())) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), poll).await.unwrap();
}

#[tokio::test]
async fn a_restarted_manager_knows_its_nodes_and_leads_in_a_new_epoch() {
    let repository = in_memory();
    let manager = open(&repository).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let service = GroupManagerServer::new(manager.clone());
    let _server =
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
    let roles = vec![v1::Role::ActivityManager as i32];
    let node = v1::NodeDescription { name: "n".into(), slots: 3, roles, ..Default::default() };
    let beat = v1::Heartbeat { node: Some(node.clone()), group: "g".into(), busy: 2, waiting: 1, ..Default::default() };
    let mut client = GroupManagerClient::new(xavantes_proto::connect(&address).await.unwrap());
    let stray = v1::Heartbeat { group: "h".into(), ..beat.clone() };
    let refused = client.join(tokio_stream::once(stray)).await.unwrap_err();
    assert_eq!(refused.message(), "this is a manager of group \"g\", not of \"h\"");
    assert!(nodes(&manager).await.nodes.is_empty());
    let beats = tokio_stream::once(beat).chain(tokio_stream::pending());
    let mut rosters = client.join(beats).await.unwrap().into_inner();
    let roster = rosters.message().await.unwrap().unwrap();
    assert_eq!((roster.epoch, roster.workers), (1, vec![node.clone()]));
    let listed = nodes(&manager).await;
    assert_eq!((listed.leads, listed.epoch, listed.nodes[0].busy, listed.nodes[0].waiting), (true, 1, 2, 1));
    manager.drain(Request::new(v1::DrainRequest { node: "n".into() })).await.unwrap();
    wait_for_stored(&repository, |state| state.nodes.iter().any(|known| known.drain)).await;

    // The second manager gets a copy of the store, because the first one still runs.
    let copy = in_memory();
    for (key, document) in repository.documents("group").await.unwrap() {
        copy.put("group", &key, document).await.unwrap();
    }
    let restarted = open(&copy).await;
    let listed = nodes(&restarted).await;
    assert_eq!((listed.leads, listed.epoch, listed.nodes.len()), (true, 2, 1));
    assert_eq!((&listed.nodes[0].node, listed.nodes[0].draining), (&Some(node), true));
    // A node without heartbeats is lost, and stays listed.
    wait_for_stored(&copy, |state| state.epoch == 2 && state.nodes.iter().all(|known| known.lost)).await;
    assert!(nodes(&restarted).await.nodes[0].lost);
}

#[tokio::test]
async fn added_and_removed_sources_are_durable() {
    let repository = in_memory();
    let manager = open(&repository).await;
    for (name, uri, expected) in [
        ("stars-2_b", "https://example.org/stars", Ok(())),
        ("moons", "file:///moons", Ok(())),
        ("moons", "file:///more", Ok(())),
        ("", "file:///x", Err(Code::InvalidArgument)),
        ("Stars", "file:///x", Err(Code::InvalidArgument)),
        ("a b", "file:///x", Err(Code::InvalidArgument)),
        ("naïve", "file:///x", Err(Code::InvalidArgument)),
        ("empty", " ", Err(Code::InvalidArgument)),
        ("relative", "moons", Err(Code::InvalidArgument)),
        ("unknown", "ftp://example.org/x", Err(Code::InvalidArgument)),
        ("configured", "file:///x", Err(Code::FailedPrecondition)),
    ] {
        assert_eq!(add(&manager, name, uri).await, expected, "{name:?} {uri:?}");
    }
    let all = [("configured", "file:c"), ("moons", "file:///more"), ("stars-2_b", "https://example.org/stars")];
    let all = all.map(|(name, uri)| (name.to_owned(), uri.to_owned()));
    assert_eq!(sources(&manager).await, all);
    assert_eq!(sources(&open(&repository).await).await, all, "the sources are durable when the call returns");
    assert_eq!(remove(&manager, "nothing").await, Err(Code::NotFound));
    assert_eq!(remove(&manager, "configured").await, Err(Code::FailedPrecondition));
    assert_eq!(remove(&manager, "moons").await, Ok(()));
    assert_eq!(sources(&open(&repository).await).await.len(), 2);
}

#[tokio::test]
async fn an_unreadable_state_is_kept_and_the_group_starts_anew() {
    let repository = in_memory();
    repository.put("group", "g", vec![0xff; 9].into()).await.unwrap();
    let manager = open(&repository).await;
    assert_eq!(add(&manager, "moons", "file:///moons").await, Ok(()));
    let kept = repository.documents("unreadable-group").await.unwrap();
    assert_eq!(kept, [("g".to_owned(), vec![0xff; 9].into())]);
}

#[tokio::test]
async fn an_unchanged_state_is_not_written_again() {
    let repository = in_memory();
    let manager = open(&repository).await;
    wait_for_stored(&repository, |state| state.epoch == 1).await;
    repository.remove("group", "g").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(repository.documents("group").await.unwrap().len(), 0);
    assert_eq!(add(&manager, "moons", "file:///moons").await, Ok(()));
    assert_eq!(repository.documents("group").await.unwrap().len(), 1);
}
