use std::sync::Arc;

use bytes::Bytes;
use xavantes_engine::Time;
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};

use crate::cache::cache_entry::{CacheLookup, MissReason};
use crate::cache::decide::{code_digest, lookup};
use crate::memo::former_activities::{FormerActivities, FormerProcess};
use crate::memo::memo_entry::encode_entry;
use crate::memo::memo_log::{MAX_ENTRY_BYTES, MAX_MEMO_BYTES, MAX_SUBTREE_BYTES, MemoDocument, MemoLog, MemoWrite};
use crate::record_codec;

fn program(code: &str) -> Arc<Program> {
    let text = format!(
        r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><BODY><ACTIVITY TYPE="A" NAME="a" n="1" t="x"/></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="A"><IN_PARAMETER TYPE="int" NAME="n"/><IN_PARAMETER TYPE="string" NAME="t"/>
        <OUT_PARAMETER TYPE="int" NAME="r"/><CODE LANGUAGE="lua">{code}</CODE></ACTIVITY_TYPE></XAVANTES>"#
    );
    Arc::new(load(&[Source::new("p.xml", &*text)]).unwrap_or_else(|problems| panic!("{problems:?}")))
}

fn entry(program: &Program, path: &str, n: i64, text: &str, result: i64) -> Vec<u8> {
    let completed = v1::Completed { results: vec![value(&Value::Int(result))] };
    let values = [Value::Int(n), Value::from(text), Value::Null];
    encode_entry(0, &program.activities[0], &values, path, 5, &completed, None)
}

fn former(program: &Arc<Program>, entries: &[Vec<u8>]) -> FormerActivities {
    let process = FormerProcess { id: "P-1".into(), program: program.clone(), submitted_ms: 100, left_out: 0 };
    FormerActivities::read(process, vec![Bytes::from(entries.concat())])
}

fn wanted(program: &Program, path: &str, n: i64, text: &str) -> CacheLookup {
    let activity = &program.activities[0];
    let values = [Value::Int(n), Value::from(text), Value::Null];
    lookup(activity, code_digest(activity), &values, path.into()).expect("the values have an identity")
}

/// The result that is taken over, and the path from which it comes.
fn taken(former: &mut FormerActivities, wanted: &CacheLookup) -> Result<(v1::Completed, String), MissReason> {
    former.take(wanted).map(|taken| (taken.hit.completed, taken.hit.earlier.path))
}

fn result(number: i64, path: &str) -> Result<(v1::Completed, String), MissReason> {
    Ok((v1::Completed { results: vec![value(&Value::Int(number))] }, path.into()))
}

#[test]
fn equal_activities_are_taken_over_wherever_they_are() {
    let program = program("r = n");
    let long = "x".repeat(5000);
    let entries = [entry(&program, "P-1/a", 1, "x", 10), entry(&program, "P-1/b", 1, &long, 20)];
    let mut former = former(&program, &entries);
    assert_eq!(taken(&mut former, &wanted(&program, "P-2/a", 1, "x")), result(10, "P-1/a"));
    assert_eq!(taken(&mut former, &wanted(&program, "P-2/elsewhere", 1, &long)), result(20, "P-1/b"));
    assert_eq!(former.untaken(), 0);
}

#[test]
fn each_activity_is_taken_over_once_by_the_same_element_if_possible() {
    let program = program("r = n");
    let paths = ["P-1/all/[1]/a", "P-1/all/[2]/a", "P-1/all/[3]/a"];
    let entries: Vec<_> = paths.iter().zip(1..).map(|(path, it)| entry(&program, path, 7, "", it)).collect();
    let mut former = former(&program, &entries);
    for number in [2, 1] {
        let path = format!("all/[{number}]/a");
        let found = taken(&mut former, &wanted(&program, &format!("P-2/{path}"), 7, ""));
        assert_eq!(found, result(number, &format!("P-1/{path}")));
    }
    assert_eq!(taken(&mut former, &wanted(&program, "P-2/all/[4]/a", 7, "")), result(3, "P-1/all/[3]/a"));
    let missed = former.take(&wanted(&program, "P-2/all/[5]/a", 7, ""));
    assert!(matches!(missed, Err(MissReason::TakenOver(_))), "{missed:?}");
}

#[test]
fn the_reason_names_what_changed() {
    let (program, corrected) = (program("r = n"), program("r = n + 1"));
    let mut former = former(&program, &[entry(&program, "P-1/a", 3, "x", 10)]);
    let Err(MissReason::Changed { earlier, code, parameters }) = former.take(&wanted(&program, "P-2/a", 4, "x")) else {
        panic!("n changed");
    };
    assert_eq!((&*earlier.path, earlier.at_ms, code), ("P-1/a", 105, None));
    let changes: Vec<_> = parameters.iter().map(|it| (&*it.name, &*it.before, &*it.after)).collect();
    assert_eq!(changes, [("n", "3", "4")]);
    let Err(MissReason::Changed { code, parameters, .. }) = former.take(&wanted(&corrected, "P-2/a", 3, "x")) else {
        panic!("the code changed");
    };
    assert!(code.is_some() && parameters.is_empty());
    let missed = former.take(&wanted(&program, "P-2/b", 4, "x"));
    assert_eq!(missed, Err(MissReason::NotCompleted { process: "P-1".into(), left_out: 0 }));
    assert_eq!(former.untaken(), 1);
}

#[test]
fn damaged_chunks_lose_no_more_than_their_rest() {
    let program = program("r = n");
    let whole = entry(&program, "P-1/a", 1, "x", 10);
    let cut = [&whole[..], &whole[..whole.len() - 1]].concat();
    let process = FormerProcess { id: "P-1".into(), program: program.clone(), submitted_ms: 0, left_out: 0 };
    let chunks = vec![Bytes::from(vec![0xff; 100]), Bytes::from(cut), Bytes::new()];
    assert_eq!(FormerActivities::read(process, chunks).untaken(), 1);
}

fn document(writes: &[MemoWrite]) -> MemoDocument {
    let Some(MemoWrite::Document(bytes)) = writes.last() else { panic!("the document comes last: {writes:?}") };
    record_codec::decode("memo", bytes).expect("it is readable")
}

#[test]
fn a_memo_is_written_in_chunks_and_after_a_second() {
    let mut memo = MemoLog::default();
    assert_eq!((memo.due(Time(5000)), memo.deadline()), (Vec::new(), None));
    memo.add(&[1; 100], Time(5000));
    assert_eq!((memo.due(Time(5999)), memo.deadline()), (Vec::new(), Some(Time(6000))));
    let writes = memo.due(Time(6000));
    assert_eq!((writes.len(), document(&writes).open.len()), (1, 100));
    assert_eq!((memo.due(Time(9000)), memo.rest()), (Vec::new(), Vec::new()));
    // The document has all of the open chunk, until it is full.
    memo.add(&[2; 100], Time(9000));
    assert_eq!(document(&memo.rest()).open, [[1; 100], [2; 100]].concat());
    memo.add(&[3; 100_000], Time(9000));
    let writes = memo.due(Time(9000));
    assert!(matches!(&writes[..], [MemoWrite::Chunk(0, chunk), MemoWrite::Document(_)] if chunk.len() == 100_200));
    let written = document(&writes);
    assert_eq!((written.chunks, written.bytes, written.open.len()), (1, 100_200, 0));
    // After a restart it goes on.
    let mut memo = MemoLog::new(written);
    memo.add(&[4; 100_000], Time(0));
    assert!(matches!(&memo.rest()[..], [MemoWrite::Chunk(1, _), MemoWrite::Document(_)]));
}

#[test]
fn the_memo_of_a_subtree_goes_to_its_parent_which_takes_no_entries_of_other_elements() {
    let program = program("r = n");
    let mut subtree = MemoLog::of_subtree();
    for path in ["P-1/part/a", "P-1/part/b", "P-1/other", "P-1/parts/a"] {
        subtree.add(&entry(&program, path, 1, "x", 10), Time(0));
    }
    subtree.add(&vec![0; MAX_SUBTREE_BYTES as usize], Time(0));
    assert_eq!((subtree.deadline(), subtree.rest()), (None, Vec::new()));
    let (entries, left_out) = subtree.into_answer();
    let mut parent = MemoLog::default();
    parent.add_subtree(&[&entries[..], &[0xff; 9]].concat(), left_out, "part", Time(0));
    let written = document(&parent.rest());
    assert_eq!(written.left_out, 1);
    assert_eq!(former(&program, &[written.open]).untaken(), 2);
}

#[test]
fn a_memo_is_bounded_and_counts_what_it_leaves_out() {
    let mut memo = MemoLog::default();
    memo.add(&vec![0; MAX_ENTRY_BYTES + 1], Time(0));
    assert_eq!((document(&memo.rest()).left_out, memo.bytes()), (1, 0));
    let large = vec![0; MAX_ENTRY_BYTES];
    for _ in 0..=MAX_MEMO_BYTES / MAX_ENTRY_BYTES as u64 {
        memo.add(&large, Time(0));
        memo.rest();
    }
    memo.add(&[0], Time(0));
    assert_eq!((document(&memo.rest()).left_out, memo.bytes()), (3, MAX_MEMO_BYTES));
}
