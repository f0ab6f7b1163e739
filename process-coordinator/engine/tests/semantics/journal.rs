//! The journal and its replay, paths, repeated and late answers, long steps.

use crate::harness::{Run, body, program, run, setup};
use xavantes_engine::{
    Answer, Command, ElementState, Engine, EngineState, Event, Failure, FailureKind, Input, Outcome, Rejection,
    StepOutput, Time, WaitsFor,
};
use xavantes_model::script::{Sandbox, ScriptLimits};

#[test]
fn an_endless_loop_yields_after_each_step_and_can_be_cancelled() {
    for text in [
        r#"<WHILE NAME="w" CONDITION="true"><ITERATE/></WHILE>"#,
        r#"<PARWHILE NAME="w" CONDITION="true"><ITERATE/></PARWHILE>"#,
        r#"<WHILE NAME="w" CONDITION="true"><ITERATE><PARFOR NAME="f" TO="3"><ITERATE/></PARFOR></ITERATE></WHILE>"#,
        r#"<WHILE NAME="w" CONDITION="true"><ITERATE ON_FAILURE="continue"><PRE_CODE>error("x")</PRE_CODE></ITERATE>
            </WHILE>"#,
    ] {
        let mut run = run(text);
        for _ in 0..2 {
            assert_eq!(run.commands, [Command::Continue]);
            let length = run.journal.len();
            run.step(Input::Continued).unwrap();
            assert!(run.journal.len() > length && run.journal.len() < length + 5000);
            assert!(run.engine.state().live() < 20);
        }
        assert!(run.engine.outstanding().contains(&Command::Continue));
        run.cancel("");
        run.cancelled();
    }
}

#[test]
fn a_path_finds_the_element_it_was_made_from() {
    let text = r#"<PAR NAME="p"><FOR NAME="f" FROM="-3" TO="3"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE></FOR>
        <PARFOR NAME="g" EACH="${ {5, 6} }"><ITERATE><SWITCH NAME="s"><CASE CONDITION="counter == 1">
        <ACTIVITY TYPE="Do" NAME="b"/></CASE>
          <DEFAULT><ACTIVITY TYPE="Do" NAME="c"/></DEFAULT></SWITCH></ITERATE></PARFOR>
        <BLOCK NAME="h"><PRE_CODE>error("x")</PRE_CODE><CATCH><ACTIVITY TYPE="Do" NAME="d"/></CATCH></BLOCK>
        <WHILE NAME="w" CONDITION="true"><ITERATE><ACTIVITY TYPE="Do" NAME="e"/></ITERATE><FINALLY/></WHILE></PAR>"#;
    let run = run(text);
    let paths = ["p/f/[-3]/a", "p/g/[1]/s/case1/b", "p/g/[2]/s/default/c", "p/h/catch/d", "p/w/[1]/e"];
    assert_eq!(run.running(), paths);
    for path in paths {
        let mut part = String::from("P");
        for segment in path.split('/') {
            part = format!("{part}/{segment}");
            let id = run.engine.find(&part).unwrap().unwrap();
            assert_eq!(run.engine.path(id), part);
        }
    }
    for (path, message) in [
        ("Q/p", r#""Q/p" is not in process "P""#),
        ("PP", r#""PP" is not in process "P""#),
        ("P/p/f/[9]", "P/p/f has no iteration [9] now"),
        ("P/p/f/[x]", "P/p/f has no iteration [x] now"),
        ("P/p/f/iterate", r#"P/p/f has no element "iterate""#),
        ("P/p/", r#"P/p has no element """#),
    ] {
        assert_eq!(run.engine.find(path), Err(Rejection::NoSuchElement(message.into())), "{path}");
    }
}

#[test]
fn repeated_and_late_answers_are_rejected_and_change_nothing() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a" RETRIES="1"/><ACTIVITY TYPE="Do" NAME="b"/>"#);
    let (element, attempt) = run.attempt("a");
    let answered = |attempt| Input::Answered { element, attempt, answer: Answer::Completed(Vec::new()) };
    assert_eq!(run.step(answered(2)), Err(Rejection::NotRunning { element, attempt: 2 }), "not handed out yet");
    run.fail("a");
    assert_eq!(run.step(answered(attempt)), Err(Rejection::NotRunning { element, attempt }), "the attempt before");
    assert_eq!(run.step(answered(2)), Ok(()));
    assert_eq!(run.step(answered(2)), Err(Rejection::NotRunning { element, attempt: 2 }), "a repeated answer");
    let next = run.attempt("b").0;
    assert_eq!(next.index, element.index, "the index is used again");
    assert_ne!(next, element, "but not the id");
    run.done("b");
    assert_eq!(
        run.step(answered(2)),
        Err(Rejection::NotRunning { element, attempt: 2 }),
        "after the end of the process"
    );
    assert_eq!(run.step(Input::TimePassed), Ok(()));
    assert_eq!(run.step(Input::Continued), Ok(()));
    run.completed();
}

#[test]
fn outstanding_lists_the_commands_under_way() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Take" NAME="a" n="5"/><ACTIVITY TYPE="Do" NAME="b"/></PAR>"#);
    run.answer("p/a", Answer::Lost);
    run.cancel("p/b");
    let ((a, _), (b, _)) = (run.attempt("p/a"), run.attempt("p/b"));
    let outstanding = run.engine.outstanding();
    assert!(
        matches!(&outstanding[..], [
        Command::Dispatch { element: first, attempt: 2, parameters, .. },
        Command::Dispatch { element: second, attempt: 1, .. },
        Command::Cancel { element: third, attempt: 1 },
    ] if *first == a && *second == b && *third == b && parameters[..] == [5.into()]),
        "{outstanding:?}"
    );
    run.done("p/a");
    run.stopped("p/b");
    assert_eq!(run.engine.outstanding(), [Command::Finish { outcome: Outcome::Completed }]);
    run.crash();
    assert_eq!(run.engine.outstanding(), [Command::Finish { outcome: Outcome::Completed }]);
}

#[test]
fn finish_is_commanded_once() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#);
    run.done("a");
    assert_eq!(run.commands, [Command::Finish { outcome: Outcome::Completed }]);
    run.step(Input::Continued).unwrap();
    assert_eq!(run.commands, []);
}

#[test]
fn replay_rejects_an_event_that_does_not_fit() {
    let run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#);
    let mut twice = run.journal.clone();
    twice.extend(run.journal.clone());
    let program = run.engine.program().clone();
    assert!(
        Engine::replay(program.clone(), EngineState::default(), &twice)
            .unwrap_err()
            .to_string()
            .contains("started twice")
    );
    assert!(
        Engine::replay(program, EngineState::default(), &run.journal[1..]).is_err(),
        "a journal without its first event"
    );
}

/// A process in which most kinds of events happen.
const EVENTFUL: &str = r#"<OUT_PARAMETER TYPE="RemoteList" NAME="log"/><PRE_CODE>log = RemoteList.new()</PRE_CODE>
    <PAR NAME="p" EXIT_CONDITION="completed == 3"><BLOCK NAME="b" RETRIES="1" RETRY_DELAY="1s">
    <PRE_CODE>log:append("try")</PRE_CODE><ACTIVITY TYPE="Do" NAME="a"/>
        <CATCH><ACTIVITY TYPE="Do" NAME="c"/></CATCH><FINALLY><ACTIVITY TYPE="Do" NAME="f"/></FINALLY></BLOCK>
      <PARFOR NAME="g" TO="4" MAX_PARALLEL="2" COLLECT="x.value" JOIN="3"><ITERATE ON_FAILURE="continue"
      TIMEOUT="5s"><ACTIVITY TYPE="Give" NAME="x"/></ITERATE></PARFOR>
      <ACTIVITY TYPE="Do" NAME="h" ON_FAILURE="hold"/>
      <WHILE NAME="w" CONDITION="true"><ITERATE><ACTIVITY TYPE="Do" NAME="y"/></ITERATE></WHILE></PAR>
    <POST_CODE>result = log:values()</POST_CODE>"#;

fn eventful() -> Run {
    let mut run = setup(&body(EVENTFUL)).run();
    run.fail("p/b/a");
    run.fail("p/h");
    run.pause("p");
    run.give("p/g/[1]/x", 10);
    run.resume("p");
    run.fail("p/b/catch/c");
    run.crash();
    run.done("p/b/finally/f");
    run.advance(1000);
    run.retry("p/w");
    run.stopped("p/w/[1]/y");
    run.advance(4000);
    run.stopped("p/g/[2]/x");
    run.retry("p/h");
    run.done("p/b/a");
    run.set("p", "MAX_PARALLEL", "9");
    run.give("p/g/[3]/x", 30);
    run.done("p/w/[1]/y");
    run.done("p/b/finally/f");
    run.done("p/h");
    run.give("p/g/[4]/x", 40);
    run.stopped("p/w/[2]/y");
    run
}

#[test]
fn an_eventful_process_completes_with_its_result() {
    assert_eq!(eventful().result(), r#"["try","try"]"#);
}

#[test]
fn from_every_prefix_of_the_journal_the_process_goes_on_to_an_end() {
    let journal = eventful().journal;
    let program = program(&body(EVENTFUL));
    let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).unwrap();
    for length in 1..=journal.len() {
        let mut engine = Engine::replay(program.clone(), EngineState::default(), &journal[..length]).unwrap();
        engine.set_capacity(10);
        let mut now = Time(5000);
        let mut turns = 0;
        while engine.state().ended().is_none() {
            turns += 1;
            assert!(turns < 500, "from a journal of {length} events the process does not end");
            let mut out = StepOutput::default();
            let next = engine.outstanding().into_iter().find_map(|command| match command {
                Command::Dispatch { element, attempt, .. } => Some((element, attempt)),
                _ => None,
            });
            let input = match next {
                Some((element, attempt)) => {
                    let path = engine.path(element);
                    let answer = match path.ends_with("/x") {
                        true => Answer::Completed(vec![1.into()]),
                        false if turns < 20 => Answer::Completed(Vec::new()),
                        false => Answer::Failed(Box::new(Failure::new(FailureKind::Exit, "enough"))),
                    };
                    Input::Answered { element, attempt, answer }
                }
                None => Input::TimePassed,
            };
            // The work that the crash interrupted comes first.
            engine.step(&mut sandbox, Input::Continued, now, &mut out).unwrap();
            let _ = engine.step(&mut sandbox, input, now, &mut out);
            now = Time(now.0 + 1000);
            if turns > 30 {
                let action = xavantes_engine::Action::Resume;
                let _ = engine.step(&mut sandbox, Input::Steered { path: "P/p".into(), action }, now, &mut out);
            }
            if turns > 50 {
                let action = xavantes_engine::Action::Cancel;
                let _ = engine.step(&mut sandbox, Input::Steered { path: "P".into(), action }, now, &mut out);
            }
        }
        assert_eq!(engine.state().live(), 0);
    }
}

#[test]
fn a_snapshot_at_any_time_replaces_the_journal_before_it() {
    let run = eventful();
    let program = run.engine.program().clone();
    let mut state = EngineState::default();
    for (length, event) in run.journal.iter().enumerate() {
        let bytes = postcard::to_stdvec(&state).unwrap();
        let snapshot: EngineState = postcard::from_bytes(&bytes).unwrap();
        let engine = Engine::replay(program.clone(), snapshot, &run.journal[length..]).unwrap();
        assert_eq!(engine.state(), run.engine.state());
        state.apply(&program, event).unwrap();
    }
}

#[test]
fn a_crash_between_any_two_answers_changes_nothing() {
    let mut calm = run(r#"<PARFOR NAME="f" TO="3" COLLECT="a.value"><ITERATE RETRIES="1">
        <ACTIVITY TYPE="Give" NAME="a"/></ITERATE></PARFOR>
        <POST_CODE>result = f.results</POST_CODE>"#);
    let mut wild = run(r#"<PARFOR NAME="f" TO="3" COLLECT="a.value"><ITERATE RETRIES="1">
        <ACTIVITY TYPE="Give" NAME="a"/></ITERATE></PARFOR>
        <POST_CODE>result = f.results</POST_CODE>"#);
    for (counter, fails) in [(2, true), (1, false), (3, true), (2, false), (3, false)] {
        for run in [&mut calm, &mut wild] {
            let path = format!("f/[{counter}]/a");
            if fails { run.fail(&path) } else { run.give(&path, counter * 10) }
        }
        wild.crash();
        assert_eq!(wild.engine.state(), calm.engine.state());
    }
    assert_eq!(wild.result(), "[10,20,30]");
    assert_eq!(wild.journal, calm.journal);
}

#[test]
fn a_held_or_waiting_element_stays_so_after_a_crash() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a" ON_FAILURE="hold"/>
        <ACTIVITY TYPE="Do" NAME="b" RETRIES="1" RETRY_DELAY="5s"/></PAR>"#);
    run.fail("p/a");
    run.fail("p/b");
    run.crash();
    assert!(matches!(run.view("p/a").state, ElementState::Held(_)));
    assert!(matches!(run.view("p/b").state, ElementState::Waiting(WaitsFor::Retry(Time(5000), _))));
    run.advance(5000);
    assert_eq!(run.running(), ["p/b"]);
}

#[test]
fn counts_cover_activities_and_their_attempts() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a" RETRIES="1"/>
        <ACTIVITY TYPE="Do" NAME="b" ON_FAILURE="continue"/></PAR>"#);
    run.fail("p/a");
    run.done("p/a");
    run.fail("p/b");
    let counts = run.engine.state().counts();
    assert_eq!((counts.attempts, counts.completed, counts.failed, counts.outstanding), (3, 1, 1, 0));
    assert_eq!(run.count(|event| matches!(event, Event::Sent { .. })), 3);
}
