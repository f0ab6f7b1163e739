//! The conformance suite: the guarantees of every store.

use std::collections::BTreeSet;

use bytes::Bytes;
use xavantes_repository::{Claimed, Entries, Error, Journal, PageRequest, Place, Store};

/// Runs all checks. Each uses other process ids.
pub async fn run(store: &Store) {
    a_process_is_created_closed_and_forgotten(store).await;
    an_id_is_used_once(store).await;
    missing_processes_are_unknown(store).await;
    calls_keep_their_order_without_await(store).await;
    snapshots_replace_earlier_records(store).await;
    an_ended_process_can_be_reopened(store).await;
    a_document_changes_with_the_end_of_its_process(store).await;
    unusual_ids_are_valid(store).await;
    documents_are_stored_by_kind_and_key(store).await;
    concurrent_writers_do_not_interfere(store).await;
    large_payloads_are_stored(store).await;
    pages_follow_the_order_of_creation(store).await;
    ids_are_found_by_their_beginning(store).await;
    claimed_processes_are_not_gained_again(store).await;
}

pub fn text(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

pub fn noise(length: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

async fn a_process_is_created_closed_and_forgotten(store: &Store) {
    let epoch = store.create("life", text("head")).await.unwrap();
    store.append("life", text("one")).await.unwrap();
    store.append("life", text("")).await.unwrap();
    let journal = store.load("life").await.unwrap();
    assert_eq!(journal, Journal { epoch, head: text("head"), snapshot: None, records: vec![text("one"), text("")] });

    let entry = store.find("life").await.unwrap().unwrap();
    assert_eq!((&entry.process[..], &entry.head[..], entry.summary), ("life", &b"head"[..], None));
    assert!(entry.size >= 7, "{}", entry.size);
    let running = store.forget(&["life".into(), "nobody".into()]).await.unwrap();
    assert_eq!(running, ["life"], "it names the processes that run");
    assert!(store.find("life").await.unwrap().is_some(), "a running process was forgotten");

    store.close("life", text("summary")).await.unwrap();
    let entry = store.find("life").await.unwrap().unwrap();
    assert_eq!((entry.head, entry.summary), (text("head"), Some(text("summary"))));
    assert!(matches!(store.load("life").await, Err(Error::Unknown(_))));
    assert!(matches!(store.append("life", text("late")).await, Err(Error::Unknown(_))));
    assert!(matches!(store.compact("life", text("late")).await, Err(Error::Unknown(_))));
    assert!(matches!(store.close("life", text("again")).await, Err(Error::Unknown(_))));
    assert!(matches!(store.create("life", text("again")).await, Err(Error::Exists(_))));

    let running = store.forget(&["life".into(), "nobody".into()]).await.unwrap();
    assert_eq!(running, [""; 0]);
    assert_eq!(store.find("life").await.unwrap(), None);
    let later = store.create("life", text("second")).await.unwrap();
    assert!(later >= epoch);
    let journal = store.load("life").await.unwrap();
    assert_eq!(journal, Journal { epoch: later, head: text("second"), snapshot: None, records: vec![] });
}

async fn an_id_is_used_once(store: &Store) {
    store.create("twice", text("first")).await.unwrap();
    assert!(matches!(store.create("twice", text("second")).await, Err(Error::Exists(id)) if id == "twice"));
    assert_eq!(store.load("twice").await.unwrap().head, text("first"));
    let (first, second) = tokio::join!(store.create("race", text("a")), store.create("race", text("b")));
    assert!(first.is_ok() && matches!(second, Err(Error::Exists(_))), "{first:?} {second:?}");
}

async fn missing_processes_are_unknown(store: &Store) {
    assert!(matches!(store.append("absent", text("x")).await, Err(Error::Unknown(id)) if id == "absent"));
    assert!(matches!(store.load("absent").await, Err(Error::Unknown(_))));
    assert!(matches!(store.load("ab\0sent").await, Err(Error::Unknown(_))));
    assert_eq!(store.find("absent").await.unwrap(), None);
    assert_eq!(store.find("ab\0sent").await.unwrap(), None);
    store.forget(&["absent".into(), "ab\0sent".into()]).await.unwrap();
    store.forget(&[]).await.unwrap();
}

async fn calls_keep_their_order_without_await(store: &Store) {
    // Calls in one commit and in several commits.
    let mut calls = tokio::task::JoinSet::new();
    for process in 0..4 {
        let store = store.clone();
        calls.spawn(async move {
            let id = format!("order {process}");
            let mut waiting = vec![store.append(&id, text("0"))];
            waiting.extend((1..700).map(|number| store.append(&id, text(number.to_string()))));
            waiting.insert(0, Box::pin(async { store.create(&id, text("head")).await.map(drop) }));
            for result in in_order(waiting).await {
                result.unwrap();
            }
            let journal = store.load(&id).await.unwrap();
            let expected: Vec<_> = (0..700).map(|number| text(number.to_string())).collect();
            assert_eq!(journal.records, expected);

            let waiting = vec![
                store.append(&id, text("a")),
                store.compact(&id, text("snapshot")),
                store.append(&id, text("b")),
                store.append(&id, text("c")),
            ];
            in_order(waiting).await;
            let journal = store.load(&id).await.unwrap();
            assert_eq!((journal.snapshot, journal.records), (Some(text("snapshot")), vec![text("b"), text("c")]));

            let ids = [id.clone()];
            let waiting = vec![
                store.append(&id, text("d")),
                store.close(&id, text("end")),
                store.append(&id, text("e")),
                Box::pin(async { store.forget(&ids).await.map(drop) }),
                Box::pin(async { store.create(&id, text("again")).await.map(drop) }),
                store.append(&id, text("f")),
            ];
            let results = in_order(waiting).await;
            let good: Vec<_> = results.iter().map(Result::is_ok).collect();
            assert_eq!(good, [true, true, false, true, true, true], "{results:?}");
            let journal = store.load(&id).await.unwrap();
            assert_eq!((journal.head, journal.snapshot, journal.records), (text("again"), None, vec![text("f")]));
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}

/// Polls all futures in their order until all are ready.
async fn in_order<F: Future + Unpin>(mut waiting: Vec<F>) -> Vec<F::Output> {
    let mut results: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut ready = true;
        for (future, result) in waiting.iter_mut().zip(&mut results) {
            if result.is_none() {
                match std::pin::Pin::new(future).poll(context) {
                    std::task::Poll::Ready(output) => *result = Some(output),
                    std::task::Poll::Pending => ready = false,
                }
            }
        }
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

async fn snapshots_replace_earlier_records(store: &Store) {
    store.create("compacted", text("head")).await.unwrap();
    for round in 0..5 {
        for number in 0..30 {
            store.append("compacted", text(format!("{round}.{number}"))).await.unwrap();
        }
        store.compact("compacted", text(format!("after {round}"))).await.unwrap();
        let journal = store.load("compacted").await.unwrap();
        assert_eq!((journal.snapshot, journal.records), (Some(text(format!("after {round}"))), vec![]));
    }
    store.append("compacted", text("tail")).await.unwrap();
    let journal = store.load("compacted").await.unwrap();
    assert_eq!((journal.snapshot, journal.records), (Some(text("after 4")), vec![text("tail")]));
    store.close("compacted", text("end")).await.unwrap();
}

async fn an_ended_process_can_be_reopened(store: &Store) {
    let end = text("end");
    assert!(matches!(store.reopen("again", &end, text("state")).await, Err(Error::Unknown(_))));
    let first = store.create("again", text("head")).await.unwrap();
    for number in 0..9 {
        store.append("again", text(format!("{number}"))).await.unwrap();
    }
    assert!(matches!(store.reopen("again", &end, text("state")).await, Err(Error::Unknown(_))), "it runs");
    for round in 0..3 {
        store.close("again", text("end")).await.unwrap();
        let epoch = store.reopen("again", &end, text(format!("state {round}"))).await.unwrap();
        assert!(epoch >= first);
        let entry = store.find("again").await.unwrap().unwrap();
        assert_eq!((entry.head, entry.summary), (text("head"), None));
        store.append("again", text("more")).await.unwrap();
        let journal = store.load("again").await.unwrap();
        let expected = (epoch, Some(text(format!("state {round}"))), vec![text("more")]);
        assert_eq!((journal.epoch, journal.snapshot, journal.records), expected);
    }
    assert_eq!(store.claim().await.unwrap(), Claimed::default());
    store.close("again", text("another end")).await.unwrap();
    let stale = store.reopen("again", &end, text("state of an earlier end")).await;
    assert!(matches!(stale, Err(Error::Unknown(_))), "it ended again since");
    let summary = store.find("again").await.unwrap().unwrap().summary;
    assert_eq!(summary, Some(text("another end")), "it has still ended");
    store.forget(&["again".into()]).await.unwrap();
    assert!(matches!(store.reopen("again", &end, text("state")).await, Err(Error::Unknown(_))));
}

async fn a_document_changes_with_the_end_of_its_process(store: &Store) {
    store.create("kept", text("head")).await.unwrap();
    store.close_with("kept", text("end"), "last", Some(noise(200 << 10, 3))).await.unwrap();
    assert_eq!(store.get("last", "kept").await.unwrap(), Some(noise(200 << 10, 3)));
    let refused = store.close_with("kept", text("end"), "last", Some(text("late"))).await;
    assert!(matches!(refused, Err(Error::Unknown(_))), "{refused:?}");
    assert_eq!(store.get("last", "kept").await.unwrap(), Some(noise(200 << 10, 3)), "it has ended already");
    store.reopen("kept", &text("end"), text("state")).await.unwrap();
    assert_eq!(store.get("last", "kept").await.unwrap(), Some(noise(200 << 10, 3)));
    store.close_with("kept", text("end"), "last", None).await.unwrap();
    assert_eq!(store.get("last", "kept").await.unwrap(), None);
    store.forget(&["kept".into()]).await.unwrap();
}

async fn unusual_ids_are_valid(store: &Store) {
    let long = "x".repeat(1024);
    let odd = ["", "/", "a/b/../c", "a", "a ", "ä🦀", "'; DROP TABLE processes; --", "%_\\", "\n\t", &long];
    for id in odd {
        store.create(id, text(format!("head of {id}"))).await.unwrap();
        store.append(id, text(format!("record of {id}"))).await.unwrap();
    }
    for id in odd {
        let journal = store.load(id).await.unwrap();
        assert_eq!(
            (journal.head, journal.records),
            (text(format!("head of {id}")), vec![text(format!("record of {id}"))])
        );
    }
    let listed: Vec<_> = store.list().await.unwrap().into_iter().map(|entry| entry.process).collect();
    assert!(listed.is_sorted(), "{listed:?}");
    assert!(odd.iter().all(|id| listed.iter().any(|listed| listed == id)));
    for id in odd {
        store.close(id, text("end")).await.unwrap();
    }
    store.forget(&odd.map(String::from)).await.unwrap();
    for id in odd {
        assert_eq!(store.find(id).await.unwrap(), None);
    }
    for bad in ["with \0 in it", &"x".repeat(1025)] {
        assert!(matches!(store.create(bad, text("head")).await, Err(Error::Name(_))));
        assert!(matches!(store.put("kind", bad, text("document")).await, Err(Error::Name(_))));
    }
}

async fn documents_are_stored_by_kind_and_key(store: &Store) {
    for (kind, key) in [("k", "b"), ("k", "a"), ("k", "ä/"), ("kk", "a"), ("", "ka"), ("k", "")] {
        store.put(kind, key, text(format!("{kind} {key}"))).await.unwrap();
    }
    let keys = async |kind| store.documents(kind).await.unwrap().into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(keys("k").await, ["", "a", "b", "ä/"]);
    assert_eq!(keys("kk").await, ["a"]);
    assert_eq!(keys("other").await, [""; 0]);
    store.put("k", "b", noise(200_000, 1)).await.unwrap();
    store.put("k", "b", noise(200_000, 2)).await.unwrap();
    assert_eq!(store.get("k", "a").await.unwrap(), Some(text("k a")));
    assert_eq!(store.get("k", "b").await.unwrap(), Some(noise(200_000, 2)));
    assert_eq!(store.get("", "ka").await.unwrap(), Some(text(" ka")));
    store.remove("k", "a").await.unwrap();
    for (kind, key) in [("k", "a"), ("k", "not there"), ("other", "b"), ("k", "with \0 in it")] {
        assert_eq!(store.get(kind, key).await.unwrap(), None, "{kind} {key:?}");
    }
    store.remove("k", "not there").await.unwrap();
    let documents = store.documents("k").await.unwrap();
    assert_eq!(documents.len(), 3);
    assert_eq!(documents[1], ("b".into(), noise(200_000, 2)));
    let one_after_another =
        vec![store.put("k", "c", text("1")), store.remove("k", "c"), store.put("k", "c", text("2"))];
    in_order(one_after_another).await;
    assert_eq!(store.documents("k").await.unwrap()[2], ("c".into(), text("2")));
}

async fn concurrent_writers_do_not_interfere(store: &Store) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..32 {
        let store = store.clone();
        writers.spawn(async move {
            let id = format!("writer {writer}");
            store.create(&id, text(&id[..])).await.unwrap();
            for number in 0..50 {
                if number == writer {
                    store.compact(&id, text(format!("{number}"))).await.unwrap();
                } else {
                    store.append(&id, noise(number * 40, writer as u64)).await.unwrap();
                }
            }
            let journal = store.load(&id).await.unwrap();
            assert_eq!(journal.snapshot, Some(text(format!("{writer}"))));
            let expected: Vec<_> = (writer + 1..50).map(|number| noise(number * 40, writer as u64)).collect();
            assert_eq!(journal.records, expected);
            store.close(&id, text("end")).await.unwrap();
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let entries = store.list().await.unwrap();
    let closed = entries.iter().filter(|entry| entry.process.starts_with("writer ") && entry.summary.is_some());
    assert_eq!(closed.count(), 32);
}

/// The processes that a store lists in pages of this many.
async fn read_pages(store: &Store, newest_first: bool, batch: usize) -> Vec<String> {
    let request = PageRequest { after: None, newest_first, unfinished: false, max_items: batch, max_bytes: usize::MAX };
    let mut entries = Entries::behind(store, request);
    let mut processes = Vec::new();
    while let Some(entry) = entries.next().await.unwrap() {
        assert_eq!(Place::parse(&entry.place().to_string()), Some(entry.place()));
        processes.push(entry.process);
    }
    processes
}

async fn ids_are_found_by_their_beginning(store: &Store) {
    let created = ["Begin-7f3a", "Begin-7f", "Begin-7g", "Begin-7f/part@1", "Begin-é", "begin-7f"];
    for id in created {
        store.create(id, text("head")).await.unwrap();
    }
    store.close("Begin-7f", text("summary")).await.unwrap();
    let ids = async |prefix, max_items| store.ids(prefix, max_items).await.unwrap();
    assert_eq!(ids("Begin-7f", 9).await, ["Begin-7f", "Begin-7f3a"]);
    assert_eq!(ids("Begin-", 9).await, ["Begin-7f", "Begin-7f3a", "Begin-7g", "Begin-é"]);
    assert_eq!(ids("Begin-", 2).await, ["Begin-7f", "Begin-7f3a"]);
    for nothing in ["Begin-8", "egin", "Begin-7f3a ", "Begin-\0", "Begin-%", "Begin-7f/"] {
        assert!(ids(nothing, 9).await.is_empty(), "{nothing:?}");
    }
    for id in created {
        let _ = store.close(id, text("summary")).await;
        store.forget(&[id.into()]).await.unwrap();
    }
}

async fn pages_follow_the_order_of_creation(store: &Store) {
    let created = ["page z", "page a", "page/m", "page b"];
    for id in created {
        store.create(id, text("head")).await.unwrap();
    }
    store.close("page a", noise(100, 1)).await.unwrap();
    let all = read_pages(store, false, 1).await;
    assert_eq!(all[all.len() - 4..], created);
    assert_eq!(all.len(), store.list().await.unwrap().len());
    assert_eq!(read_pages(store, false, 3).await, all);
    let backwards: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(read_pages(store, true, 1).await, backwards);
    assert_eq!(read_pages(store, true, 100).await, backwards);

    // A page ends at its bounds, and goes on behind a process that has been removed.
    let request = |after, max_items, max_bytes| PageRequest {
        after,
        newest_first: true,
        unfinished: false,
        max_items,
        max_bytes,
    };
    let ids = async |request| {
        let page = store.page(&request).await.unwrap();
        page.into_iter().map(|entry| entry.process).collect::<Vec<_>>()
    };
    assert_eq!(ids(request(None, 2, usize::MAX)).await, ["page b", "page/m"]);
    assert_eq!(ids(request(None, 9, 1)).await, ["page b"]);
    assert_eq!(ids(request(None, 9, 9)).await, ["page b", "page/m", "page a"], "the third has 104 bytes");
    let unfinished = |after, max_items| PageRequest { unfinished: true, ..request(after, max_items, usize::MAX) };
    assert_eq!(ids(unfinished(None, 3)).await, ["page b", "page/m", "page z"]);
    let place = store.find("page a").await.unwrap().unwrap().place();
    assert_eq!(ids(unfinished(Some(place.clone()), 1)).await, ["page z"]);
    store.forget(&["page a".into()]).await.unwrap();
    assert_eq!(ids(request(Some(place), 1, usize::MAX)).await, ["page z"]);
    assert_eq!(read_pages(store, false, 2).await.len(), all.len() - 1);
    for id in ["page z", "page/m", "page b"] {
        store.close(id, text("summary")).await.unwrap();
        store.forget(&[id.into()]).await.unwrap();
    }
}

async fn large_payloads_are_stored(store: &Store) {
    let large = noise(1 << 20, 3);
    store.create("large", large.clone()).await.unwrap();
    // Equal payloads in several places are independent.
    store.append("large", large.clone()).await.unwrap();
    store.append("large", large.clone()).await.unwrap();
    store.append("large", text("small")).await.unwrap();
    let huge = noise(70 << 20, 4);
    store.append("large", huge.clone()).await.unwrap();
    let journal = store.load("large").await.unwrap();
    assert!(journal.head == large && journal.records == [large.clone(), large.clone(), text("small"), huge]);
    assert!(store.find("large").await.unwrap().unwrap().size >= 71 << 20);
    store.compact("large", large.clone()).await.unwrap();
    assert!(store.load("large").await.unwrap().snapshot == Some(large.clone()));
    assert!(store.find("large").await.unwrap().unwrap().size < 10 << 20);
    store.close("large", large.clone()).await.unwrap();
    let entry = store.find("large").await.unwrap().unwrap();
    assert!(entry.head == large && entry.summary == Some(large));
    store.forget(&["large".into()]).await.unwrap();
}

async fn claimed_processes_are_not_gained_again(store: &Store) {
    assert_eq!(store.claim().await.unwrap().gained, [""; 0]);
}

/// Processes that run after [`run`].
pub fn running_after_run() -> BTreeSet<String> {
    ["life", "twice", "race", "order 0", "order 1", "order 2", "order 3"].map(String::from).into()
}

/// Shuts the store down twice and checks that later calls fail.
pub async fn calls_fail_after_shut_down(store: &Store) {
    store.shut_down().await;
    store.shut_down().await;
    assert!(matches!(store.create("late", text("head")).await, Err(Error::Broken(_))));
    assert!(matches!(store.load("life").await, Err(Error::Broken(_))));
    assert!(matches!(store.list().await, Err(Error::Broken(_))));
    assert!(matches!(store.documents("k").await, Err(Error::Broken(_))));
    assert!(matches!(store.get("k", "b").await, Err(Error::Broken(_))));
}
