//! Tests of the pure part of the result cache.

use std::sync::Arc;

use xavantes_model::definition::ActivityType;
use xavantes_model::diagnostic::Source;
use xavantes_model::digest::Digest;
use xavantes_model::load::load;
use xavantes_model::value::{Content, FileRef, Value};
use xavantes_proto::v1;

use super::cache_entry::*;
use super::cache_index::*;
use super::decide::{Lookups, code_digest, lookup};
use super::shown_value::{MAX_SHOWN_CHARS, show_value};

fn activity(code: &str) -> ActivityType {
    let text = format!(
        r#"<XAVANTES VERSION="1"><ACTIVITY_TYPE NAME="A" CACHE="true">
        <IN_PARAMETER TYPE="int" NAME="n"/><IN_PARAMETER TYPE="string" NAME="t" DEFAULT="x"/>
        <OUT_PARAMETER TYPE="int" NAME="r"/><CODE LANGUAGE="lua">{code}</CODE></ACTIVITY_TYPE></XAVANTES>"#
    );
    let program = load(&[Source::new("a.xml", text.as_str())]).unwrap_or_else(|problems| panic!("{problems:?}"));
    program.activities[0].clone()
}

fn lookup_for(code: &str, n: i64, t: &str, path: &str) -> CacheLookup {
    let activity = activity(code);
    let parameters = [Value::Int(n), Value::from(t), Value::Null];
    lookup(&activity, code_digest(&activity), &parameters, path.into()).unwrap()
}

fn entry(lookup: &CacheLookup, at_ms: u64, stored: StoredResults) -> CacheEntry {
    let mut entry = lookup.entry(stored);
    (entry.made.at_ms, entry.used_ms) = (at_ms, at_ms);
    entry
}

#[test]
fn equal_activities_share_a_key_and_differences_are_named() {
    let before = lookup_for("r = n", 1, "x", "P-1/a");
    assert_eq!(before.key, lookup_for("r = n", 1, "x", "P-2/b").key);
    let before_entry = entry(&before, 7, StoredResults::Present(1));
    let changes = |code: &str, n: i64, t: &str| match lookup_for(code, n, t, "P-2/a").compare(&before_entry) {
        MissReason::Changed { earlier, code, parameters } => {
            assert_eq!(earlier, EarlierActivity { path: "P-1/a".into(), at_ms: 7 });
            let changed = parameters.into_iter().map(|it| format!("{} {} {}", it.name, it.before, it.after));
            (code.is_some(), changed.collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(changes("r = n + 1", 1, "x"), (true, vec![]));
    assert_eq!(changes("r = n", 2, "x"), (false, vec!["n 1 2".into()]));
    assert_eq!(changes("r = 0", 2, "y"), (true, vec!["n 1 2".into(), "t \"x\" \"y\"".into()]));
    let long = |end: &str| format!("{}{end}", "x".repeat(100));
    let before_entry = entry(&lookup_for("r = n", 1, &long("a"), "P-1/a"), 7, StoredResults::Failed);
    let MissReason::Changed { parameters, .. } = lookup_for("r = n", 1, &long("b"), "P-2/a").compare(&before_entry)
    else {
        panic!("it changed")
    };
    assert!(parameters[0].before != parameters[0].after && parameters[0].before.chars().count() < 90);
}

#[test]
fn activities_with_unknown_inputs_have_no_lookup() {
    let mut activity = activity("r = n");
    activity.parameters[1].ty = None;
    let outside = Value::File(Arc::new(FileRef::outside("source://a/b", false)));
    let parameters = [Value::Int(1), outside, Value::Null];
    let why = lookup(&activity, code_digest(&activity), &parameters, "P/a".into()).unwrap_err();
    assert_eq!(why, MissReason::UnknownContent("t".into(), "source://a/b".into()));
    activity.cache = false;
    assert_eq!(Lookups::default().lookup(0, &activity, &parameters, || unreachable!()), None);
}

#[test]
fn shown_values_are_short() {
    assert_eq!(show_value(&Value::from(vec![Value::Int(1), Value::from("a\n"), Value::Null])), "[1,\"a\\n\",null]");
    assert_eq!(show_value(&Value::from("ä".repeat(200).as_str())).chars().count(), MAX_SHOWN_CHARS + 1);
    let list = Value::from(vec![Value::from(vec![Value::Int(7); 100_000]); 1000]);
    assert_eq!(show_value(&list).chars().count(), MAX_SHOWN_CHARS + 1);
    let content = Content { digest: Digest([1; 32]), size: 5, executable: false, holders: vec![] };
    let file = Value::File(Arc::new(FileRef { uri: "a.txt".into(), directory: false, content: Some(content) }));
    assert_eq!(show_value(&file), "a.txt (010101010101, 5 bytes)");
}

fn digest(number: u8) -> Digest {
    Digest([number; 32])
}

#[test]
fn least_recently_used_results_are_evicted_first_and_leave_their_entry() {
    let mut index = CacheIndex::new(100, 10);
    for number in 1..=3 {
        let lookup = lookup_for("r = n", number.into(), "x", &format!("P-{number}/a"));
        index.add(digest(number), &entry(&lookup, u64::from(number), StoredResults::Present(25)), 5);
    }
    assert_eq!((index.bytes(), index.evict()), (90, vec![]));
    assert!(index.on_used(digest(1), 10 * USED_PERIOD_MS) && !index.on_used(digest(1), 10 * USED_PERIOD_MS + 1));
    assert!(!index.on_used(digest(9), 5), "the cache does not have it");
    index.add(digest(4), &entry(&lookup_for("r = n", 4, "x", "P-4/b"), 4, StoredResults::Present(25)), 5);
    assert_eq!(index.evict(), [Removal::Results(digest(2)), Removal::Results(digest(3))]);
    assert!(index.has_results(&digest(1)) && !index.has_results(&digest(2)) && index.bytes() == 70);
    // The latest of this element, the latest of this type, nothing.
    assert_eq!(index.nearest("A", "P-9/a"), Some(digest(3)));
    assert_eq!(index.nearest("A", "P-9/c"), Some(digest(4)));
    assert_eq!(index.nearest("B", "P-9/a"), None);
    // Cached once more.
    index.add(digest(2), &entry(&lookup_for("r = n", 2, "x", "P-5/a"), 5, StoredResults::Present(25)), 5);
    assert!(index.has_results(&digest(2)) && index.bytes() == 95);
    assert_eq!(index.clear().len(), 4);
    assert_eq!((index.bytes(), index.nearest("A", "P-9/a")), (0, None));
}

#[test]
fn entries_and_decisions_are_bounded() {
    let mut index = CacheIndex::new(u64::MAX, 10);
    for number in 1..=11 {
        let stored = if number % 2 == 0 { StoredResults::Failed } else { StoredResults::Present(1) };
        let path = format!("P-{number}/a{number}");
        let lookup = lookup_for("r = n", number.into(), "x", &path);
        index.add(digest(number), &entry(&lookup, u64::from(number), stored), 5);
        index.add_decision(digest(number), u64::from(number));
        index.add_decision(digest(number), u64::from(number));
    }
    let removed = index.evict();
    let entries: Vec<_> = removed.iter().filter(|it| matches!(it, Removal::Entry(_))).collect();
    assert_eq!(entries, [&Removal::Entry(digest(2)), &Removal::Entry(digest(4))]);
    assert!(removed.contains(&Removal::Decision(digest(2))) && !removed.contains(&Removal::Decision(digest(3))));
    assert_eq!(index.evict(), []);
}

#[test]
fn large_results_are_not_cached() {
    let lookup = lookup_for("r = n", 1, "x", "P-1/a");
    let completed =
        |size: usize| v1::Completed { results: vec![xavantes_proto::value(&Value::from(&*"x".repeat(size)))] };
    let stored = |write: CacheWrite| match write {
        CacheWrite::Result { entry, results, .. } => (entry.stored, results.is_some()),
        other => panic!("{other:?}"),
    };
    assert!(matches!(stored(lookup.completed(&completed(10))), (StoredResults::Present(_), true)));
    assert!(matches!(stored(lookup.completed(&completed(MAX_RESULT_BYTES))), (StoredResults::TooLarge(_), false)));
    assert_eq!(stored(lookup.failed()), (StoredResults::Failed, false));
}
