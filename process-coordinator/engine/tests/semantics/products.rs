//! What elements give when they complete, for whoever follows the process.

use xavantes_engine::{Answer, Product};
use xavantes_model::value::Value;

use crate::kit::{Run, body, document, run, setup};

/// Each as `path name=value … +collected`.
fn told(run: &Run) -> Vec<String> {
    let line = |product: &Product| {
        let results: String = product.results.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let collected = product.collected.as_ref().map_or_else(String::new, |value| format!(" +{value}"));
        format!("{}{results}{collected}", product.path)
    };
    run.products.iter().map(line).collect()
}

#[test]
fn activities_and_iterations_tell_what_they_give() {
    let mut run =
        run(r#"<PARFOR NAME="f" TO="2" COLLECT="a.value"><ITERATE><ACTIVITY TYPE="Give" NAME="a"/></ITERATE></PARFOR>
        <ACTIVITY TYPE="Do" NAME="nothing"/><ACTIVITY TYPE="Give" NAME="g" ON_FAILURE="continue"/>"#);
    run.give("f/[2]/a", 20);
    assert_eq!(told(&run), ["P/f/[2]/a value=20", "P/f/[2] +20"]);
    run.give("f/[1]/a", 10);
    run.done("nothing");
    run.fail("g");
    run.completed();
    assert_eq!(told(&run)[2..], ["P/f/[1]/a value=10", "P/f/[1] +10"]);
}

#[test]
fn subprocesses_tell_what_they_give_wherever_they_run() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY><PROCESS TYPE="Sub" NAME="s" n="3" DELEGATE="always"/></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Sub"><INOUT_PARAMETER TYPE="int" NAME="n"/><IN_PARAMETER TYPE="int" NAME="k" DEFAULT="2"/>
        <OUT_PARAMETER TYPE="int" NAME="out"/><BODY><POST_CODE>n, out = n + 1, k</POST_CODE></BODY></PROCESS_TYPE>"#,
    );
    let here = setup(&text).run();
    here.completed();
    assert_eq!(told(&here), ["P/s n=4 out=2"]);
    let mut elsewhere = setup(&text).delegations(1).run();
    elsewhere.answer("s", Answer::Completed(vec![Value::Int(4), Value::Int(2)]));
    elsewhere.completed();
    assert_eq!(told(&elsewhere), told(&here));
}

#[test]
fn nobody_is_told_who_does_not_follow() {
    let mut run = setup(&body(r#"<ACTIVITY TYPE="Give" NAME="g"/>"#)).run();
    run.engine.set_followed(false);
    run.give("g", 1);
    run.completed();
    assert!(run.products.is_empty());
}
