//! The budget of a process: an element that would exceed it fails like any other, and replay does not decide again.

use crate::harness::{Run, Setup, body, setup};
use xavantes_engine::{Event, FailureKind, Input};
use xavantes_model::shared_objects::Method;
use xavantes_model::value::{SharedKind, SharedRef, Value};

const MIB: u64 = 1 << 20;

fn run(content: &str) -> Run {
    within(setup(&body(content)))
}

/// Runs a process that may take one mebibyte.
fn within(setup: Setup) -> Run {
    let mut run = setup.run_within(MIB);
    while run.commands.iter().any(|command| matches!(command, xavantes_engine::Command::Continue)) {
        run.step(Input::Continued).unwrap();
    }
    run
}

fn assert_over_budget(run: &Run, path: &str) {
    let failure = run.failure();
    assert_eq!((failure.kind, &*failure.path), (FailureKind::Limit, path), "{failure}");
    assert!(failure.message.contains("MiB") && failure.message.contains("1.0 MiB (--process-mib)"), "{failure}");
}

#[test]
fn the_iteration_fails_whose_collected_value_exceeds_the_budget() {
    let run = run(r#"<FOR NAME="all" TO="1000000" COLLECT="string.rep('x', 100000) .. counter"><ITERATE/></FOR>"#);
    assert_over_budget(&run, "P/all/[11]");
}

#[test]
fn the_element_fails_whose_code_exceeds_the_budget() {
    let growing = r#"<INOUT_PARAMETER TYPE="string" NAME="s" DEFAULT="x"/>"#;
    let run_code =
        run(&format!(r#"<BLOCK NAME="grow">{growing}<PRE_CODE>s = string.rep("x", 2000000)</PRE_CODE></BLOCK>"#));
    assert_over_budget(&run_code, "P/grow");
    let list = run(r#"<BLOCK NAME="grow"><OUT_PARAMETER TYPE="RemoteList" NAME="l"/>
           <PRE_CODE>l = RemoteList.new() for i = 1, 20 do l:append(string.rep("x", 100000)) end</PRE_CODE></BLOCK>"#);
    assert_over_budget(&list, "P/grow");
    let range = run(
        r#"<FOR NAME="each" EACH="${(function() local t = {} for i = 1, 20 do t[i] = string.rep('x', 100000) end return t end)()}">
           <ITERATE/></FOR>"#,
    );
    assert_over_budget(&range, "P/each");
}

#[test]
fn handlers_and_retries_work_as_for_other_failures() {
    // The values that the loop collected are in the state until the handler has ended.
    let mut caught = run(r#"<BLOCK NAME="try">
             <FOR NAME="all" TO="1000000" COLLECT="string.rep('x', 1000)"><ITERATE/></FOR>
             <CATCH><ACTIVITY TYPE="Take" NAME="help" n="${error.kind == 'limit' and 1 or 0}"/></CATCH>
           </BLOCK>"#);
    assert_eq!(caught.parameters("try/catch/help"), [Value::Int(1)]);
    caught.done("try/catch/help");
    caught.completed();
    let retried = run(r#"<BLOCK NAME="b" RETRIES="2"><INOUT_PARAMETER TYPE="string" NAME="s" DEFAULT=""/>
        <PRE_CODE>s = string.rep("x", 2000000)</PRE_CODE></BLOCK>"#);
    assert_eq!(retried.count(|event| matches!(event, Event::Waiting { .. })), 2);
    assert_over_budget(&retried, "P/b");
}

#[test]
fn what_leaves_the_state_makes_room() {
    // Every iteration needs most of the budget, and gives it back.
    let run = run(r#"<FOR NAME="all" TO="50"><ITERATE>
             <BLOCK NAME="b"><INOUT_PARAMETER TYPE="string" NAME="s" DEFAULT=""/><OUT_PARAMETER TYPE="RemoteList" NAME="l"/>
               <PRE_CODE>s = string.rep("x", 400000) l = RemoteList.new() l:append(s)</PRE_CODE></BLOCK>
           </ITERATE></FOR>"#);
    run.completed();
    assert!(run.engine.state().bytes() < 1000, "{}", run.engine.state().bytes());
}

#[test]
fn a_call_that_exceeds_the_budget_is_refused_once_and_for_all() {
    let mut run = run(r#"<OUT_PARAMETER TYPE="RemoteSet" NAME="s"/><PRE_CODE>s = RemoteSet.new()</PRE_CODE>
        <ACTIVITY TYPE="Use" NAME="a" set="${s}"/><POST_CODE>result = s:values()</POST_CODE>"#);
    let set = SharedRef { kind: SharedKind::Set, home: "P".into(), id: 0 };
    let large = || vec![Value::from("x".repeat(2_000_000).as_str())];
    let refused = run.call("a", 1, set.clone(), Method::Add, large()).unwrap().unwrap_err();
    assert!(refused.contains("--process-mib"), "{refused}");
    // A larger budget after a crash does not change the answer to the same call; the next call is decided anew.
    run.crash();
    assert_eq!(run.call("a", 1, set.clone(), Method::Add, large()), Ok(Err(refused)));
    assert_eq!(run.call("a", 2, set.clone(), Method::Add, vec![5.into()]), Ok(Ok(Value::Bool(true))));
    run.done("a");
    assert_eq!(run.result(), "[5]");
}

#[test]
fn a_step_with_large_events_ends_early() {
    let mut run = setup(&body(
        r#"<FOR NAME="all" TO="100"><ITERATE><BLOCK NAME="b"><INOUT_PARAMETER TYPE="string" NAME="s" DEFAULT=""/>
             <PRE_CODE>s = string.rep("x", 1000000)</PRE_CODE></BLOCK></ITERATE></FOR>"#,
    ))
    .run();
    let assigned = |run: &Run| run.count(|event| matches!(event, Event::Prepared { .. }));
    assert!((2..10).contains(&assigned(&run)), "{}", assigned(&run));
    run.step(Input::Continued).unwrap();
    assert!((4..20).contains(&assigned(&run)), "{}", assigned(&run));
}
