//! Delegation: elements that run on another coordinator, as a process of their own there.

use crate::harness::{Run, document, receive, setup};
use xavantes_engine::{Action, Answer, Command, Event, FailureKind, Outcome, Rejection};
use xavantes_model::value::Value;

/// A process with a delegated loop that reads the scopes around it, and a delegated subprocess.
fn sweep() -> String {
    document(
        r#"<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="list" NAME="result"/><BODY>
        <IN_PARAMETER TYPE="int" NAME="base" DEFAULT="100"/><ACTIVITY TYPE="Give" NAME="g"/>
        <PARFOR NAME="f" TO="${g.value}" COLLECT="a.value + base + extra" DELEGATE="always" extra="1"
          RETRIES="1" TIMEOUT="1h">
          <IN_PARAMETER TYPE="int" NAME="extra"/><OUT_PARAMETER TYPE="string" NAME="text"/>
          <ITERATE><ACTIVITY TYPE="Give" NAME="a"/></ITERATE><POST_CODE>text = "of " .. g.value</POST_CODE></PARFOR>
        <PROCESS TYPE="Sub" NAME="s" DELEGATE="always" n="${#f.results}"/>
        <POST_CODE>result = {f.results, f.completed, f.text, s.n, s.out}</POST_CODE></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Sub"><INOUT_PARAMETER TYPE="int" NAME="n"/><OUT_PARAMETER TYPE="int" NAME="out"/><BODY>
        <IN_PARAMETER TYPE="int" NAME="k" DEFAULT="2"/>
        <ACTIVITY TYPE="Give" NAME="a"/><POST_CODE>n = n * k out = a.value</POST_CODE></BODY></PROCESS_TYPE>"#,
    )
}

/// The answer that a coordinator sends to the parent when the delegated process has ended.
fn answer_of(run: &Run, parent: &Run, path: &str) -> Answer {
    let delegation = parent.delegation(path);
    let (outcome, results) = run.engine.state().ended().expect("the delegated process has ended");
    match outcome {
        Outcome::Completed => {
            let process = &parent.engine.program().processes[delegation.process];
            let signature = match delegation.node.0 {
                0 => process.parameters(),
                node => &process.nodes[node as usize].variables,
            };
            let outs = signature.iter().filter(|variable| variable.direction.is_out());
            Answer::Completed(outs.map(|variable| results[&variable.name].clone()).collect())
        }
        Outcome::Failed(failure) => Answer::Failed(failure.clone()),
        _ => Answer::Cancelled,
    }
}

/// Completes these activities with 10, 20, …
fn work(run: &mut Run, prefix: &str, names: &[&str]) {
    for (index, name) in names.iter().enumerate() {
        let id = run.engine.find(&format!("{prefix}{name}")).unwrap().unwrap();
        let attempt = run.engine.view(id).unwrap().attempts;
        let answer = Answer::Completed(vec![Value::Int((index as i64 + 1) * 10)]);
        run.step(xavantes_engine::Input::Answered { element: id, attempt, answer }).unwrap();
    }
}

#[test]
fn a_delegated_run_has_the_results_of_a_local_run() {
    let mut local = setup(&sweep()).run();
    local.give("g", 2);
    work(&mut local, "P/f/", &["[1]/a", "[2]/a"]);
    work(&mut local, "P/", &["s/a"]);
    assert_eq!(local.result(), r#"[[111,121],2,"of 2",4,10]"#);

    let mut parent = setup(&sweep()).delegations(5).run();
    parent.give("g", 2);
    assert_eq!(parent.running(), ["f"]);
    assert!(parent.view("f").delegated);
    let mut other = receive(&sweep(), &parent.delegation("f"), "P/f");
    work(&mut other, "P/f/", &["[1]/a", "[2]/a"]);
    let answer = answer_of(&other, &parent, "f");
    parent.answer("f", answer);
    assert_eq!(parent.running(), ["s"]);
    let mut other = receive(&sweep(), &parent.delegation("s"), "P/s");
    work(&mut other, "P/s/", &["a"]);
    let answer = answer_of(&other, &parent, "s");
    parent.answer("s", answer);
    assert_eq!(parent.result(), local.result());
}

#[test]
fn a_delegation_carries_only_values_that_the_subtree_reads() {
    let mut parent = setup(&sweep()).delegations(1).run();
    parent.give("g", 2);
    let delegation = parent.delegation("f");
    let mut values: Vec<String> = delegation.captured.iter().map(|(_, value)| value.to_string()).collect();
    values.sort();
    assert_eq!(values, ["100", "2"], "base and g.value");
    assert_eq!(delegation.call_depth, 0);
}

#[test]
fn a_delegation_carries_the_depth_of_calls() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY><PROCESS TYPE="Main" NAME="m" DELEGATE="always"/></BODY>
        </PROCESS_TYPE>"#,
    );
    let mut run = setup(&text).delegations(1).run();
    let mut delegation = run.delegation("m");
    assert_eq!(delegation.call_depth, 1);
    delegation.call_depth = 199;
    let deep = receive(&text, &delegation, "P");
    assert_eq!((deep.failure().kind, &*deep.failure().path), (FailureKind::Limit, "P/m/m"));
    run.cancel("");
    run.stopped("m");
}

#[test]
fn the_parent_applies_retries_time_outs_and_hold() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY>
            <BLOCK NAME="b" DELEGATE="always" RETRIES="1" TIMEOUT="10s" ON_FAILURE="hold">
        <ACTIVITY TYPE="Do" NAME="a"/></BLOCK></BODY></PROCESS_TYPE>"#,
    );
    let mut parent = setup(&text).delegations(1).run();
    let mut other = receive(&text, &parent.delegation("b"), "P");
    assert_eq!(other.engine.next_deadline(), None);
    other.fail("a");
    assert_eq!(other.failure().path, "P/a", "the delegated process neither retries nor holds");
    let failed = answer_of(&other, &parent, "b");
    parent.answer("b", failed.clone());
    assert_eq!((parent.running(), parent.attempt("b").1), (vec!["b".into()], 2));
    parent.advance(10_000);
    assert_eq!(parent.stopping(), ["b"]);
    parent.stopped("b");
    assert!(matches!(parent.view("b").state, xavantes_engine::ElementState::Held(_)));
    parent.retry("b");
    assert_eq!(parent.running(), ["b"]);
}

#[test]
fn paths_are_the_same_in_a_delegated_subtree() {
    let mut parent = setup(&sweep()).delegations(1).run();
    parent.give("g", 1);
    let mut other = receive(&sweep(), &parent.delegation("f"), "P/f");
    let id = other.engine.find("P/f/[1]/a").unwrap().unwrap();
    assert_eq!(other.engine.path(id), "P/f/[1]/a");
    assert!(other.engine.find("P/g").is_err() && other.engine.find("P/ff").is_err());
    other.cancel("f/[1]/a");
}

#[test]
fn a_refused_delegation_runs_locally() {
    let mut run = setup(&sweep()).delegations(1).run();
    run.give("g", 2);
    run.answer("f", Answer::Refused);
    assert_eq!(run.running(), ["f/[1]/a", "f/[2]/a"]);
    assert!(!run.view("f").delegated);
    run.fail("f/[1]/a");
    run.stopped("f/[2]/a");
    assert_eq!(run.running(), ["f/[1]/a", "f/[2]/a"], "a new try stays local");
}

#[test]
fn a_lost_coordinator_is_no_failure() {
    let mut run = setup(&sweep()).delegations(1).run();
    run.give("g", 2);
    run.answer("f", Answer::Lost);
    assert_eq!((run.running(), run.attempt("f").1), (vec!["f".into()], 2));
    assert_eq!(run.count(|event| matches!(event, Event::Waiting { .. })), 0);
}

#[test]
fn elements_of_a_delegated_subtree_are_steered_on_its_coordinator() {
    let mut run = setup(&sweep()).delegations(1).run();
    run.give("g", 2);
    let (element, attempt) = run.attempt("f");
    for action in [Action::Cancel, Action::Pause, Action::Retry] {
        assert_eq!(run.try_steer("f/[1]/a", action), Err(Rejection::Delegated { element, attempt }));
    }
}

#[test]
fn cancel_and_retry_reach_a_delegated_element() {
    let mut run = setup(&sweep()).delegations(1).run();
    run.give("g", 2);
    let (element, attempt) = run.attempt("f");
    run.retry("f");
    assert_eq!(run.commands, [Command::Cancel { element, attempt }]);
    run.stopped("f");
    assert_eq!((run.running(), run.attempt("f").1), (vec!["f".into()], 2));
    run.cancel("");
    assert_eq!(run.commands, [Command::Cancel { element, attempt: 2 }]);
    run.stopped("f");
    run.cancelled();
}

#[test]
fn pauses_reach_a_delegated_element_once_and_its_time_out_stands_still() {
    let mut run = setup(&sweep()).delegations(1).run();
    run.give("g", 2);
    let (element, attempt) = run.attempt("f");
    let pause = |paused| Command::Pause { element, attempt, paused };
    run.pause("f");
    assert_eq!(run.commands, [pause(true)]);
    run.pause("");
    assert_eq!(run.commands, []);
    assert!(run.engine.outstanding().contains(&pause(true)), "a new engine repeats the pause");
    run.advance(7_200_000);
    assert_eq!(run.stopping().len(), 0);
    run.resume("f");
    assert_eq!(run.commands, []);
    run.resume("");
    assert_eq!(run.commands, [pause(false)]);
    assert!(!run.engine.outstanding().contains(&pause(true)));
    run.advance(3_599_999);
    assert_eq!(run.stopping().len(), 0);
    run.advance(1);
    assert_eq!(run.stopping(), ["f"]);
}

#[test]
fn elements_beyond_the_limit_of_delegations_run_locally() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY><PAR NAME="p" DELEGATE="never"><PROCESS TYPE="Sub" NAME="a"/>
            <PROCESS TYPE="Sub" NAME="b"/>
        <PROCESS TYPE="Sub" NAME="c" DELEGATE="never"/><PROCESS TYPE="Sub" NAME="d"/></PAR></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Sub"><BODY><ACTIVITY TYPE="Do" NAME="x"/></BODY></PROCESS_TYPE>"#,
    );
    assert_eq!(setup(&text).run().running(), ["p/a/x", "p/b/x", "p/c/x", "p/d/x"]);
    assert_eq!(setup(&text).delegations(2).run().running(), ["p/a", "p/b", "p/c/x", "p/d/x"]);
    assert_eq!(setup(&text).delegations(9).run().running(), ["p/a", "p/b", "p/c/x", "p/d"]);
}

#[test]
fn a_coordinator_without_workers_can_still_delegate() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY><PARFOR NAME="f" TO="5" DELEGATE="never"><ITERATE>
            <PROCESS TYPE="Sub" NAME="s"/></ITERATE></PARFOR></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Sub"><BODY><ACTIVITY TYPE="Do" NAME="x"/></BODY></PROCESS_TYPE>"#,
    );
    let mut run = setup(&text).capacity(0).delegations(2).run();
    assert_eq!(run.running(), ["f/[1]/s", "f/[2]/s"]);
    assert_eq!(run.engine.state().live(), 6, "the engine creates no more elements than it can delegate");
    run.done("f/[1]/s");
    assert_eq!(run.running(), ["f/[2]/s", "f/[3]/s"]);
}

#[test]
fn an_element_whose_code_calls_shared_objects_is_not_delegated() {
    let delegated = |inside: &str, attributes: &str| {
        let text = document(&format!(
            r#"<PROCESS_TYPE NAME="Main"><BODY><OUT_PARAMETER TYPE="RemoteSet" NAME="s"/>
                <PRE_CODE>s = RemoteSet.new()</PRE_CODE>
            <BLOCK NAME="b" DELEGATE="always" {attributes}>{inside}<ACTIVITY TYPE="Do" NAME="x"/></BLOCK></BODY>
            </PROCESS_TYPE>
            <PROCESS_TYPE NAME="Sub"><IN_PARAMETER TYPE="RemoteSet" NAME="set"/><BODY/></PROCESS_TYPE>"#
        ));
        setup(&text).delegations(1).run().view("b").delegated
    };
    for (inside, attributes, may) in [
        ("", "", true),
        (r#"<ACTIVITY TYPE="Use" NAME="u" set="${s}"/>"#, "", true),
        (
            r#"<IN_PARAMETER TYPE="RemoteSet" NAME="set"/>
            <ACTIVITY TYPE="Use" NAME="u" set="${set}"/>"#,
            r#"set="${s}""#,
            true,
        ),
        (r#"<IN_PARAMETER TYPE="RemoteSet" NAME="set"/>"#, r#"set="${s}""#, true),
        ("<PRE_CODE>s:add(1)</PRE_CODE>", "", false),
        (r#"<PAR NAME="p" EXIT_CONDITION="s:size() > 1"/>"#, "", false),
        (r#"<IN_PARAMETER TYPE="list" NAME="l"/><POST_CODE>l[1]:add(1)</POST_CODE>"#, r#"l="${ {s} }""#, false),
        (r#"<PROCESS TYPE="Sub" NAME="p" set="${s}"/>"#, "", false),
        (r#"<OUT_PARAMETER TYPE="RemoteSet" NAME="new"/><PRE_CODE>new = RemoteSet.new()</PRE_CODE>"#, "", false),
        (
            r#"<BLOCK NAME="c"><OUT_PARAMETER TYPE="RemoteSet" NAME="new"/><PRE_CODE>new = RemoteSet.new()</PRE_CODE>
            </BLOCK>"#,
            "",
            true,
        ),
    ] {
        assert_eq!(delegated(inside, attributes), may, "{inside} {attributes}");
    }
}

#[test]
fn a_wrong_result_fails_the_delegated_element() {
    let mut run = setup(&sweep()).delegations(1).run();
    run.give("g", 1);
    run.done("f");
    assert_eq!((run.failure().kind, &*run.failure().path), (FailureKind::Parameter, "P/f"));
}
