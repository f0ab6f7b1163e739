//! `RETRIES`, `TIMEOUT`, `ON_FAILURE`, lost workers, the depth of calls.

use crate::harness::{document, run, setup};
use xavantes_engine::{Answer, Command, ElementState, Event, Failure, FailureKind, MAX_CALL_DEPTH, WaitsFor};

#[test]
fn a_failure_fails_the_controllers_around_and_names_its_path_and_reason() {
    let mut run = run(r#"<BLOCK NAME="b"><FOR NAME="f" FROM="3" TO="3"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/>
        </ITERATE></FOR>
        <ACTIVITY TYPE="Do" NAME="never"/></BLOCK>"#);
    let mut failure = Failure::new(FailureKind::Exit, "it broke");
    (failure.worker, failure.exit_status, failure.stderr) = (Some("w1".into()), Some(2), Some("oh no".into()));
    run.answer("b/f/[3]/a", Answer::Failed(Box::new(failure)));
    assert_eq!(run.failure().to_string(), "P/b/f/[3]/a: it broke, on w1, exit status 2\noh no");
}

#[test]
fn waits_between_tries_grow_up_to_an_hour() {
    for (attributes, waits) in [
        (r#"RETRIES="3""#, vec![0, 0, 0]),
        (r#"RETRIES="4" RETRY_DELAY="1s""#, vec![1000, 2000, 4000, 8000]),
        (r#"RETRIES="3" RETRY_DELAY="10ms" RETRY_BACKOFF="1""#, vec![10, 10, 10]),
        (r#"RETRIES="3" RETRY_DELAY="100ms" RETRY_BACKOFF="1.5""#, vec![100, 150, 225]),
        (r#"RETRIES="3" RETRY_DELAY="40m""#, vec![2_400_000, 3_600_000, 3_600_000]),
    ] {
        let mut run = run(&format!(r#"<ACTIVITY TYPE="Do" NAME="a" {attributes}/>"#));
        for (tries, wait) in waits.into_iter().enumerate() {
            assert_eq!(run.attempt("a").1, tries as u32 + 1);
            run.fail("a");
            if wait > 0 {
                assert_eq!(run.running().len(), 0);
                run.advance(wait - 1);
                assert!(
                    matches!(run.view("a").state, ElementState::Waiting(WaitsFor::Retry(..))),
                    "{attributes}: {wait}"
                );
                run.advance(1);
            }
            assert_eq!(run.running(), ["a"], "{attributes}: {wait}");
        }
        run.fail("a");
        assert_eq!(run.failure().path, "P/a");
    }
}

#[test]
fn an_activity_overrides_the_policy_of_its_type() {
    let types = r#"<ACTIVITY_TYPE NAME="T" RETRIES="1" TIMEOUT="5s"><CODE LANGUAGE="lua">local nothing</CODE>
        </ACTIVITY_TYPE>"#;
    for (attributes, tries) in [("", 2), (r#"RETRIES="0""#, 1), (r#"RETRIES="3""#, 4)] {
        let text = document(&format!(
            r#"<PROCESS_TYPE NAME="Main"><BODY><ACTIVITY TYPE="T" NAME="a" {attributes}/></BODY></PROCESS_TYPE>{types}"#
        ));
        let mut run = setup(&text).run();
        for _ in 0..tries {
            run.fail("a");
        }
        run.failure();
    }
}

#[test]
fn the_loss_of_a_worker_is_no_failure() {
    for answer in [Answer::Lost, Answer::Refused, Answer::Cancelled] {
        let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a" RETRIES="1" RETRY_DELAY="1h"/>"#);
        for attempt in 1..=5 {
            assert_eq!(
                (run.running(), run.attempt("a").1),
                (vec!["a".into()], attempt),
                "the engine hands it out again at once"
            );
            run.answer("a", answer.clone());
        }
        run.fail("a");
        run.advance(3_600_000);
        run.done("a");
        run.completed();
    }
}

#[test]
fn the_worker_watches_the_time_out_of_an_activity() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a" TIMEOUT="5s"/>"#);
    let given = run.engine.outstanding().into_iter().find_map(|command| match command {
        Command::Dispatch { timeout, .. } => timeout,
        _ => None,
    });
    assert_eq!(given, Some(std::time::Duration::from_secs(5)));
    // The wait for a worker does not count.
    run.advance(3_600_000);
    assert_eq!((run.running(), run.stopping().len()), (vec!["a".into()], 0));
    run.answer("a", Answer::Failed(Box::new(Failure::new(FailureKind::Timeout, "too long"))));
    assert_eq!((run.failure().kind, &*run.failure().message), (FailureKind::Timeout, "too long"));
}

#[test]
fn a_controller_past_its_time_out_fails_whatever_its_activity_answers() {
    for late in [Answer::Cancelled, Answer::Completed(Vec::new()), Answer::Lost] {
        let mut run = run(r#"<BLOCK NAME="b" TIMEOUT="5s"><ACTIVITY TYPE="Do" NAME="a"/></BLOCK>"#);
        run.advance(4999);
        assert_eq!(run.stopping().len(), 0);
        run.advance(1);
        assert_eq!(run.stopping(), ["b/a"]);
        run.answer("b/a", late);
        assert_eq!(
            (run.failure().kind, &*run.failure().message),
            (FailureKind::Timeout, "took longer than its TIMEOUT of 5s")
        );
    }
}

#[test]
fn each_try_has_the_whole_time_out() {
    let mut run = run(r#"<BLOCK NAME="b" TIMEOUT="5s" RETRIES="1" RETRY_DELAY="10s">
        <ACTIVITY TYPE="Do" NAME="a"/></BLOCK>"#);
    run.advance(5000);
    run.stopped("b/a");
    run.advance(10_000);
    run.advance(4000);
    assert_eq!(run.stopping().len(), 0, "a new try has the whole time again");
    run.done("b/a");
    run.completed();
}

#[test]
fn a_controller_past_its_time_out_cancels_its_elements_and_fails() {
    let mut run = run(r#"<PAR NAME="p" TIMEOUT="5s"><ACTIVITY TYPE="Do" NAME="a"/><BLOCK NAME="b">
        <ACTIVITY TYPE="Do" NAME="c"/>
        <FINALLY><ACTIVITY TYPE="Do" NAME="d"/></FINALLY></BLOCK></PAR>"#);
    run.advance(5000);
    assert_eq!(run.stopping(), ["p/a", "p/b/c"]);
    run.stopped("p/a");
    run.stopped("p/b/c");
    run.done("p/b/finally/d");
    assert_eq!((run.failure().kind, &*run.failure().path), (FailureKind::Timeout, "P/p"));
}

#[test]
fn iterations_have_time_outs_and_retries_too() {
    let mut run = run(r#"<FOR NAME="f" TO="1"><ITERATE TIMEOUT="1s" RETRIES="1"><ACTIVITY TYPE="Do" NAME="a"/>
        </ITERATE></FOR>"#);
    run.advance(1000);
    run.stopped("f/[1]/a");
    assert_eq!(run.running(), ["f/[1]/a"]);
    run.advance(999);
    run.done("f/[1]/a");
    run.completed();
}

#[test]
fn an_ended_element_does_not_time_out() {
    let mut run = run(r#"<BLOCK NAME="b" TIMEOUT="1s"><ACTIVITY TYPE="Do" NAME="a" TIMEOUT="1s"/></BLOCK>
        <ACTIVITY TYPE="Do" NAME="c"/>"#);
    run.done("b/a");
    assert_eq!(run.engine.next_deadline(), None);
    run.advance(5000);
    assert_eq!((run.running(), run.stopping().len()), (vec!["c".into()], 0));
}

#[test]
fn on_failure_continue_lets_the_controller_go_on() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a" ON_FAILURE="continue"/>
        <PAR NAME="p"><ACTIVITY TYPE="Do" NAME="b" ON_FAILURE="continue"/><ACTIVITY TYPE="Do" NAME="c"/></PAR>
        <POST_CODE>result = {p.completed, p.failed}</POST_CODE>"#);
    run.fail("a");
    run.fail("p/b");
    assert_eq!(run.running(), ["p/c"]);
    run.done("p/c");
    assert_eq!(run.result(), "[1,1]");
}

#[test]
fn on_failure_hold_waits_for_a_user_after_the_last_try() {
    let mut first = run(r#"<ACTIVITY TYPE="Do" NAME="a" ON_FAILURE="hold" RETRIES="1"/>"#);
    first.fail("a");
    first.fail("a");
    assert!(matches!(first.view("a").state, ElementState::Held(_)));
    first.advance(1_000_000);
    assert_eq!(first.running().len(), 0);
    first.retry("a");
    assert_eq!(first.running(), ["a"]);
    first.fail("a");
    assert!(matches!(first.view("a").state, ElementState::Held(_)));
    first.retry("a");
    first.done("a");
    first.completed();

    let mut second = run(r#"<BLOCK NAME="b" ON_FAILURE="hold"><ACTIVITY TYPE="Do" NAME="a"/></BLOCK>"#);
    second.fail("b/a");
    second.cancel("b");
    assert_eq!((second.failure().kind, &*second.failure().path), (FailureKind::Cancelled, "P/b"));
}

#[test]
fn an_element_with_a_wrong_parameter_can_be_held_and_retried() {
    let mut run = run(r#"<OUT_PARAMETER TYPE="RemoteMap" NAME="known"/><PRE_CODE>known = RemoteMap.new()</PRE_CODE>
        <PAR NAME="p"><BLOCK NAME="a"><ACTIVITY TYPE="Do" NAME="wait"/><POST_CODE>known:put("n", 3)</POST_CODE></BLOCK>
        <ACTIVITY TYPE="Take" NAME="b" ON_FAILURE="hold" n="${known:get('n')}"/></PAR>"#);
    assert!(matches!(run.view("p/b").state, ElementState::Held(_)));
    run.retry("p/b");
    assert!(matches!(run.view("p/b").state, ElementState::Held(_)), "the element is held again");
    run.done("p/a/wait");
    run.retry("p/b");
    assert_eq!(run.parameters("p/b"), [3.into()]);
}

#[test]
fn a_retried_controller_begins_anew_with_all_its_elements() {
    let mut run = run(r#"<OUT_PARAMETER TYPE="RemoteList" NAME="log"/><PRE_CODE>log = RemoteList.new()</PRE_CODE>
        <BLOCK NAME="b" RETRIES="1" start="5"><INOUT_PARAMETER TYPE="int" NAME="start"/>
          <PRE_CODE>start = start + 1 log:append(start) c.n = start</PRE_CODE>
          <ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Take" NAME="c"/></BLOCK>
        <POST_CODE>result = log:values()</POST_CODE>"#);
    run.done("b/a");
    run.fail("b/c");
    assert_eq!(run.running(), ["b/a"]);
    run.done("b/a");
    assert_eq!(run.parameters("b/c"), [6.into()]);
    run.done("b/c");
    assert_eq!(run.result(), "[6,6]", "changes of other shared objects stay");
}

#[test]
fn a_retried_loop_drops_the_results_of_the_failed_try() {
    let mut run = run(r#"<PARFOR NAME="f" TO="3" RETRIES="1" COLLECT="a.value" EXIT_CONDITION="results[1] == 20">
        <ITERATE><ACTIVITY TYPE="Give" NAME="a"/></ITERATE></PARFOR><POST_CODE>result = f.results</POST_CODE>"#);
    run.give("f/[1]/a", 10);
    run.fail("f/[2]/a");
    run.stopped("f/[3]/a");
    run.give("f/[2]/a", 20);
    assert_eq!(run.stopping(), ["f/[1]/a", "f/[3]/a"], "the condition sees only the results of this try");
    run.stopped("f/[1]/a");
    run.stopped("f/[3]/a");
    assert_eq!(run.result(), "[20]");
}

#[test]
fn the_depth_of_calls_is_bounded_also_after_a_retry() {
    for policy in ["", r#"RETRIES="1""#] {
        let text = document(&format!(
            r#"<PROCESS_TYPE NAME="Main"><BODY><PROCESS TYPE="Main" NAME="m" {policy}/></BODY></PROCESS_TYPE>"#
        ));
        let retries = usize::from(!policy.is_empty());
        let text = match retries {
            0 => text,
            // Only the last call has a retry, or there would be 2^200 tries.
            _ => document(
                r#"<PROCESS_TYPE NAME="Main"><IN_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/><BODY><SWITCH NAME="s">
                <CASE NAME="last" CONDITION="n == 200"><PROCESS TYPE="Main" NAME="m" n="${n + 1}" RETRIES="1"/></CASE>
                <DEFAULT><PROCESS TYPE="Main" NAME="m" n="${n + 1}"/></DEFAULT></SWITCH></BODY></PROCESS_TYPE>"#,
            ),
        };
        let run = setup(&text).run();
        let failure = run.failure();
        assert_eq!(failure.kind, FailureKind::Limit);
        assert_eq!(failure.message, "process types call each other more than 200 deep");
        assert_eq!(
            failure.path.matches("/m").count(),
            MAX_CALL_DEPTH as usize + 1,
            "the path ends with the first call beyond the limit"
        );
        assert_eq!(run.count(|event| matches!(event, Event::Waiting { .. })), retries);
    }
}

#[test]
fn code_over_its_limit_is_a_failure_of_kind_limit() {
    let failure = run(r#"<BLOCK NAME="b"><PRE_CODE>while true do end</PRE_CODE></BLOCK>"#).failure();
    assert_eq!((failure.kind, &*failure.path), (FailureKind::Limit, "P/b"));
}

#[test]
fn an_error_in_code_names_its_line() {
    let failure = run("\n<BLOCK NAME=\"b\">\n<PRE_CODE>\nlocal x\nerror('no luck')</PRE_CODE></BLOCK>").failure();
    assert_eq!((failure.kind, &*failure.message, failure.line), (FailureKind::Code, "no luck", Some(6)));
}

#[test]
fn a_permanent_failure_is_not_retried() {
    for text in [
        r#"<ACTIVITY TYPE="Do" NAME="a" RETRIES="3"/>"#,
        r#"<BLOCK NAME="b" RETRIES="3"><ACTIVITY TYPE="Do" NAME="a" RETRIES="3"/></BLOCK>"#,
    ] {
        let path = if text.contains("BLOCK") { "b/a" } else { "a" };
        let mut run = run(text);
        run.fail(path);
        assert_eq!(run.attempt(path).1, 2, "a failure that is not permanent is retried");
        let failure = Failure { permanent: true, ..Failure::new(FailureKind::Exit, "permanent") };
        run.answer(path, Answer::Failed(Box::new(failure)));
        assert_eq!(run.failure().message, "permanent");
    }
}
