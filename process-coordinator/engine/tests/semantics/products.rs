//! Products: the results of completed elements, for users that follow the process.

use xavantes_engine::{Answer, Product};
use xavantes_model::value::Value;

use crate::harness::{Run, body, document, run, setup};

/// Each product as `path name=value … +collected`.
fn products(run: &Run) -> Vec<String> {
    let line = |product: &Product| {
        let results: String = product.results.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let collected = product.collected.as_ref().map_or_else(String::new, |value| format!(" +{value}"));
        format!("{}{results}{collected}", product.path)
    };
    run.products.iter().map(line).collect()
}

#[test]
fn a_step_yields_the_results_of_activities_and_iterations() {
    let mut run =
        run(r#"<PARFOR NAME="f" TO="2" COLLECT="a.value"><ITERATE><ACTIVITY TYPE="Give" NAME="a"/></ITERATE></PARFOR>
        <ACTIVITY TYPE="Do" NAME="nothing"/><ACTIVITY TYPE="Give" NAME="g" ON_FAILURE="continue"/>"#);
    run.give("f/[2]/a", 20);
    assert_eq!(products(&run), ["P/f/[2]/a value=20", "P/f/[2] +20"]);
    run.give("f/[1]/a", 10);
    run.done("nothing");
    run.fail("g");
    run.completed();
    assert_eq!(products(&run)[2..], ["P/f/[1]/a value=10", "P/f/[1] +10"]);
}

#[test]
fn a_step_yields_the_results_of_local_and_delegated_subprocesses() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY><PROCESS TYPE="Sub" NAME="s" n="3" DELEGATE="always"/></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Sub"><INOUT_PARAMETER TYPE="int" NAME="n"/><IN_PARAMETER TYPE="int" NAME="k" DEFAULT="2"/>
        <OUT_PARAMETER TYPE="int" NAME="out"/><BODY><POST_CODE>n, out = n + 1, k</POST_CODE></BODY></PROCESS_TYPE>"#,
    );
    let here = setup(&text).run();
    here.completed();
    assert_eq!(products(&here), ["P/s n=4 out=2"]);
    let mut elsewhere = setup(&text).delegations(1).run();
    elsewhere.answer("s", Answer::Completed(vec![Value::Int(4), Value::Int(2)]));
    elsewhere.completed();
    assert_eq!(products(&elsewhere), products(&here));
}

#[test]
fn a_process_that_is_not_followed_yields_no_products() {
    let mut run = setup(&body(r#"<ACTIVITY TYPE="Give" NAME="g"/>"#)).run();
    run.engine.set_followed(false);
    run.give("g", 1);
    run.completed();
    assert!(run.products.is_empty());
}
