//! Processes unfold into the task graphs that their definitions describe.

use xavantes_foresight::assumption::Assumed;
use xavantes_foresight::forecast::{Basis, TaskKind};
use xavantes_foresight::{Error, Expectations, Forecast, Histories, Options, StoredInput, unfold};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::value::Value;
use xavantes_scheduling::predictor::{ObservedValue as Attribute, RunHistory};

/// Activity types of all tests: one that takes as long as its parameter says, one without an estimate, and two that
/// write and read files.
const TYPES: &str = r#"
<ACTIVITY_TYPE NAME="Wait"><IN_PARAMETER TYPE="float" NAME="seconds" DEFAULT="1"/><OUT_PARAMETER TYPE="int" NAME="n"/>
<ESTIMATE SECONDS="${seconds}"/><CODE LANGUAGE="lua">n = 1</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Guess"><IN_PARAMETER TYPE="int" NAME="size" DEFAULT="1"/><OUT_PARAMETER TYPE="int" NAME="n"/>
<CODE LANGUAGE="lua">n = 1</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Make"><OUT_PARAMETER TYPE="file" NAME="made"/><ESTIMATE SECONDS="2"><SIZE PARAMETER="made" BYTES="5000"/></ESTIMATE>
<CODE LANGUAGE="command"><ARG>true</ARG></CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Use"><IN_PARAMETER TYPE="list" NAME="files" OPTIONAL="true"/>
<IN_PARAMETER TYPE="file" NAME="one" OPTIONAL="true"/><ESTIMATE SECONDS="3"/>
<CODE LANGUAGE="command"><ARG>true</ARG></CODE></ACTIVITY_TYPE>
"#;

/// What a test may say beside the definition.
#[derive(Default)]
struct Setting<'a> {
    parameters: &'a [(&'a str, Value)],
    expect: &'a [&'a str],
    unroll: Option<u64>,
    histories: Histories,
}

fn document(body: &str) -> String {
    format!(
        "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"P\"><IN_PARAMETER TYPE=\"int\" NAME=\"n\" DEFAULT=\"3\"/>\n\
         <BODY>{body}</BODY></PROCESS_TYPE>{TYPES}</XAVANTES>"
    )
}

fn try_unfold(text: &str, setting: &Setting<'_>) -> Result<(Forecast, Vec<String>), Error> {
    let program = load(&[Source::new("test.xml", text)]).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let process = program.entry(Some("P")).unwrap();
    let expectations = Expectations::parse(setting.expect).unwrap();
    let parameters: Vec<_> =
        setting.parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let options = Options {
        expectations: &expectations,
        histories: &setting.histories,
        input: &|_| StoredInput::default(),
        unroll: setting.unroll.unwrap_or(100),
        max_tasks: 1000,
        iterations: 4,
        seconds: 60.0,
    };
    let forecast = unfold(&program, process, &parameters, &options)?;
    let unused = expectations.unused().into_iter().map(str::to_owned).collect();
    Ok((forecast, unused))
}

fn unfolded(body: &str) -> Forecast {
    try_unfold(&document(body), &Setting::default()).unwrap().0
}

/// Tasks with their seconds and what they wait for: `a 1 | b 2 <a`.
fn graph(forecast: &Forecast) -> String {
    let workflow = &forecast.workflow;
    let task = |task: xavantes_scheduling::TaskId| {
        let mut parents: Vec<_> = workflow.parents(task).iter().map(|edge| workflow.name(edge.task)).collect();
        parents.sort_unstable();
        let after = if parents.is_empty() { String::new() } else { format!(" <{}", parents.join(",")) };
        format!("{} {}{after}", workflow.name(task), workflow.cpu_seconds(task))
    };
    workflow.tasks().map(task).collect::<Vec<_>>().join(" | ")
}

fn assumptions(forecast: &Forecast) -> Vec<String> {
    forecast.assumptions.iter().map(ToString::to_string).collect()
}

#[test]
fn sequences_and_blocks_become_chains() {
    let forecast = unfolded(
        r#"<ACTIVITY NAME="a" TYPE="Wait" seconds="1"/>
        <BLOCK NAME="b"><PRE_CODE>local x = 1</PRE_CODE></BLOCK>
        <BLOCK NAME="c"><ACTIVITY NAME="d" TYPE="Wait" seconds="2"/><ACTIVITY NAME="e" TYPE="Wait" seconds="3"/></BLOCK>
        <ACTIVITY NAME="f" TYPE="Wait" seconds="4"/>"#,
    );
    assert_eq!(graph(&forecast), "a 1 | c/d 2 <a | c/e 3 <c/d | f 4 <c/e");
    assert!(forecast.assumptions.is_empty());
}

#[test]
fn par_keeps_its_graph() {
    let forecast = unfolded(
        r#"<ACTIVITY NAME="first" TYPE="Wait"/><PAR NAME="p">
        <ACTIVITY NAME="d" TYPE="Wait" AFTER="b c"/><ACTIVITY NAME="a" TYPE="Wait"/>
        <ACTIVITY NAME="b" TYPE="Wait" AFTER="a"/><ACTIVITY NAME="c" TYPE="Wait" AFTER="a"/>
        <ACTIVITY NAME="e" TYPE="Wait"/></PAR><ACTIVITY NAME="last" TYPE="Wait"/>"#,
    );
    assert_eq!(
        graph(&forecast),
        "first 1 | p/a 1 <first | p/b 1 <p/a | p/c 1 <p/a | p/d 1 <p/b,p/c | p/e 1 <first | last 1 <p/d,p/e"
    );
}

#[test]
fn loops_with_known_bounds_are_unrolled() {
    let forecast = unfolded(
        r#"<PARFOR NAME="all" TO="${n}"><ITERATE><ACTIVITY NAME="a" TYPE="Wait" seconds="${counter * 10}"/></ITERATE></PARFOR>
        <FOR NAME="each" EACH="${ {5, 7} }"><ITERATE><ACTIVITY NAME="b" TYPE="Wait" seconds="${item}"/></ITERATE></FOR>"#,
    );
    assert_eq!(
        graph(&forecast),
        "all/[1]/a 10 | all/[2]/a 20 | all/[3]/a 30 | \
         each/[1]/b 5 <all/[1]/a,all/[2]/a,all/[3]/a | each/[2]/b 7 <each/[1]/b"
    );
    assert!(forecast.assumptions.is_empty());
    let grid = unfolded(
        r#"<PARFOR NAME="g"><PARAM_GRID><AXIS NAME="x" TYPE="int" VALUES="1, 2"/><AXIS NAME="y" TYPE="int" VALUES="3, 4"/></PARAM_GRID>
        <ITERATE><ACTIVITY NAME="a" TYPE="Wait" seconds="${x * 10 + y}"/></ITERATE></PARFOR>"#,
    );
    assert_eq!(graph(&grid), "g/[1]/a 13 | g/[2]/a 14 | g/[3]/a 23 | g/[4]/a 24");
}

#[test]
fn max_parallel_bounds_how_many_iterations_run_at_once() {
    let forecast = unfolded(
        r#"<PARFOR NAME="p" TO="4" MAX_PARALLEL="2"><ITERATE><ACTIVITY NAME="a" TYPE="Wait"/></ITERATE></PARFOR>
        <ACTIVITY NAME="z" TYPE="Wait"/>"#,
    );
    assert_eq!(
        graph(&forecast),
        "p/[1]/a 1 | p/[2]/a 1 | p/[3]/a 1 <p/[1]/a | p/[4]/a 1 <p/[2]/a | z 1 <p/[3]/a,p/[4]/a"
    );
}

#[test]
fn long_loops_are_planned_in_chunks_with_all_of_their_work() {
    let body = r#"<PARFOR NAME="p" TO="1000"><ITERATE><ACTIVITY NAME="a" TYPE="Wait" seconds="2"/></ITERATE></PARFOR>"#;
    let setting = Setting { unroll: Some(7), ..Setting::default() };
    let (forecast, _) = try_unfold(&document(body), &setting).unwrap();
    let workflow = &forecast.workflow;
    assert_eq!(workflow.task_count(), 7);
    assert_eq!(workflow.tasks().map(|task| workflow.cpu_seconds(task)).sum::<f64>(), 2000.0);
    assert_eq!(assumptions(&forecast), ["p: 1000 iterations are planned in 7 chunks"]);
    let iterations = forecast.tasks.iter().map(|kind| match kind {
        TaskKind::Activity { iterations, .. } => *iterations,
        _ => 0,
    });
    assert_eq!(iterations.sum::<u64>(), 1000);
}

#[test]
fn nested_loops_stay_within_the_number_of_tasks() {
    let forecast = unfolded(
        r#"<PARFOR NAME="p" TO="100000000"><ITERATE><FOR NAME="q" TO="1000000000000"><ITERATE>
        <ACTIVITY NAME="a" TYPE="Wait"/><ACTIVITY NAME="b" TYPE="Wait"/></ITERATE></FOR></ITERATE></PARFOR>"#,
    );
    assert!((100..=2000).contains(&forecast.workflow.task_count()), "{}", forecast.workflow.task_count());
    let workflow = &forecast.workflow;
    let seconds: f64 = workflow.tasks().map(|task| workflow.cpu_seconds(task)).sum();
    assert_eq!(seconds, 2e20);
}

#[test]
fn known_conditions_decide_switches_and_while_loops() {
    let forecast = unfolded(
        r#"<SWITCH NAME="s"><CASE NAME="few" CONDITION="n &lt; 3"><ACTIVITY NAME="a" TYPE="Wait"/></CASE>
        <CASE NAME="some" CONDITION="n &lt; 5"><ACTIVITY NAME="b" TYPE="Wait"/></CASE>
        <DEFAULT><ACTIVITY NAME="c" TYPE="Wait"/></DEFAULT></SWITCH>
        <PARSWITCH NAME="t"><CASE NAME="one" CONDITION="true"><ACTIVITY NAME="d" TYPE="Wait"/></CASE>
        <CASE NAME="two" CONDITION="n == 3"><ACTIVITY NAME="e" TYPE="Wait"/></CASE>
        <CASE NAME="three" CONDITION="false"><ACTIVITY NAME="f" TYPE="Wait"/></CASE></PARSWITCH>
        <WHILE NAME="w" CONDITION="left &gt; 0" left="${n - 1}"><INOUT_PARAMETER TYPE="int" NAME="left"/>
        <ITERATE><PRE_CODE>left = left - 1</PRE_CODE><ACTIVITY NAME="g" TYPE="Wait" seconds="${left}"/></ITERATE></WHILE>"#,
    );
    assert_eq!(
        graph(&forecast),
        "s/some/b 1 | t/one/d 1 <s/some/b | t/two/e 1 <s/some/b | w/[1]/g 1 <t/one/d,t/two/e | w/[2]/g 0 <w/[1]/g"
    );
    assert!(forecast.assumptions.is_empty(), "{:?}", forecast.assumptions);
}

/// A switch, a `WHILE` and a `PARFOR` that depend on the result of an activity.
const UNKNOWN: &str = r#"<ACTIVITY NAME="look" TYPE="Wait"/>
    <SWITCH NAME="s"><CASE NAME="small" CONDITION="look.n &lt; 5"><ACTIVITY NAME="a" TYPE="Wait" seconds="5"/></CASE>
    <CASE NAME="large" CONDITION="look.n &lt; 9"><ACTIVITY NAME="b" TYPE="Wait" seconds="50"/></CASE>
    <DEFAULT><ACTIVITY NAME="c" TYPE="Wait" seconds="6"/></DEFAULT></SWITCH>
    <WHILE NAME="w" CONDITION="look.n &gt; counter"><ITERATE><ACTIVITY NAME="d" TYPE="Wait"/></ITERATE></WHILE>
    <PARFOR NAME="p" TO="${look.n}"><ITERATE><ACTIVITY NAME="e" TYPE="Wait"/></ITERATE></PARFOR>"#;

#[test]
fn what_depends_on_results_is_assumed_and_said() {
    let forecast = unfolded(UNKNOWN);
    let names: Vec<_> = forecast.workflow.tasks().map(|task| forecast.workflow.name(task).to_owned()).collect();
    let expected = "look s/large/b w/[1]/d w/[2]/d w/[3]/d w/[4]/d p/[1]/e p/[2]/e p/[3]/e p/[4]/e";
    assert_eq!(names.join(" "), expected);
    assert_eq!(
        assumptions(&forecast),
        [
            "p runs 4 iterations, by default",
            "s takes large, the case with the most work",
            "w runs 4 iterations, by default"
        ]
    );
}

#[test]
fn expectations_decide_what_is_not_known() {
    let setting = Setting { expect: &["s=small", "w=1", "p=2", "q=3"], ..Setting::default() };
    let (forecast, unused) = try_unfold(&document(UNKNOWN), &setting).unwrap();
    let names: Vec<_> = forecast.workflow.tasks().map(|task| forecast.workflow.name(task).to_owned()).collect();
    assert_eq!(names.join(" "), "look s/small/a w/[1]/d p/[1]/e p/[2]/e");
    assert_eq!(unused, ["q=3"]);
    assert!(forecast.assumptions.iter().all(|it| match it.what {
        Assumed::Iterations { expected, .. } | Assumed::Branch { expected, .. } => expected,
        _ => false,
    }));
    for (expect, message) in [
        ("s=tiny", "s has no case \"tiny\"; it has small, large, default"),
        ("w=often", "w: a loop runs a whole number of iterations, not \"often\""),
    ] {
        let setting = Setting { expect: &[expect], ..Setting::default() };
        assert_eq!(try_unfold(&document(UNKNOWN), &setting).unwrap_err().to_string(), message);
    }
}

#[test]
fn subprocesses_unfold_in_place_with_their_parameters() {
    let text = document(r#"<PROCESS NAME="q" TYPE="Q" n="2"/><ACTIVITY NAME="z" TYPE="Wait" seconds="${q.sum}"/>"#).replace(
        "</XAVANTES>",
        r#"<PROCESS_TYPE NAME="Q"><IN_PARAMETER TYPE="int" NAME="n"/><OUT_PARAMETER TYPE="int" NAME="sum"/><BODY>
        <PRE_CODE>sum = n * 7</PRE_CODE><PARFOR NAME="r" TO="${n}"><ITERATE><ACTIVITY NAME="a" TYPE="Wait"/></ITERATE></PARFOR>
        </BODY></PROCESS_TYPE></XAVANTES>"#,
    );
    let (forecast, _) = try_unfold(&text, &Setting::default()).unwrap();
    assert_eq!(graph(&forecast), "q/r/[1]/a 1 | q/r/[2]/a 1 | z 14 <q/r/[1]/a,q/r/[2]/a");
}

#[test]
fn recursion_ends_where_it_is_known_to_end_and_is_cut_where_it_is_not() {
    let recursive = |condition: &str| {
        format!(
            r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><IN_PARAMETER TYPE="int" NAME="n" DEFAULT="20"/><BODY>
            <ACTIVITY NAME="a" TYPE="Wait"/><SWITCH NAME="s"><CASE NAME="more" CONDITION="{condition}">
            <PROCESS NAME="p" TYPE="P" n="${{n - 1}}"/><PROCESS NAME="q" TYPE="P" n="0"/></CASE></SWITCH></BODY></PROCESS_TYPE>{TYPES}</XAVANTES>"#
        )
    };
    let (known, _) = try_unfold(&recursive("n &gt; 0"), &Setting::default()).unwrap();
    assert_eq!((known.workflow.task_count(), known.assumptions.len()), (41, 0));
    let (cut, _) = try_unfold(&recursive("a.n &gt; 0"), &Setting::default()).unwrap();
    assert!((5..100).contains(&cut.workflow.task_count()), "{}", cut.workflow.task_count());
    assert!(cut.assumptions.iter().any(|it| it.what == Assumed::Recursion), "{:?}", cut.assumptions);
    let endless = recursive("true").replace("<PROCESS NAME=\"q\" TYPE=\"P\" n=\"0\"/>", "");
    let (endless, _) = try_unfold(&endless, &Setting { parameters: &[("n", 1.into())], ..Setting::default() }).unwrap();
    assert_eq!((endless.workflow.task_count(), endless.assumptions.len()), (201, 1));
}

#[test]
fn files_travel_from_writers_to_readers() {
    let forecast = unfolded(
        r#"<PARFOR NAME="p" TO="2" COLLECT="m.made"><ITERATE><ACTIVITY NAME="m" TYPE="Make"/></ITERATE></PARFOR>
        <ACTIVITY NAME="other" TYPE="Wait"/><ACTIVITY NAME="u" TYPE="Use" files="${p.results}"/>"#,
    );
    let workflow = &forecast.workflow;
    let [m1, m2, other, u] = workflow.tasks().collect::<Vec<_>>()[..] else { panic!("{}", graph(&forecast)) };
    let bytes = |from, to| workflow.children(from).iter().find(|edge| edge.task == to).map(|edge| edge.bytes);
    assert_eq!((bytes(m1, u), bytes(m2, u)), (Some(5000.0), Some(5000.0)));
    assert_eq!((bytes(m1, other), bytes(other, u)), (Some(0.0), Some(0.0)));
}

#[test]
fn history_stands_in_for_estimates_and_defaults_are_said() {
    let body = r#"<ACTIVITY NAME="a" TYPE="Guess" size="10"/><ACTIVITY NAME="b" TYPE="Guess" size="20"/>"#;
    let unknown = unfolded(body);
    assert_eq!(graph(&unknown), "a 60 | b 60 <a");
    assert_eq!(assumptions(&unknown), ["activities of the type Guess take 60 s: no estimate and no history says it"]);
    let mut history = RunHistory::new(vec!["arg-size".into(), "time".into()], 100).with_neighbours(1);
    for size in 1..30 {
        history.observe(vec![Attribute::Number(f64::from(size)), Attribute::Number(f64::from(size) * 3.0)]);
    }
    let mut histories = Histories::new();
    histories.insert("Guess", history);
    let (known, _) = try_unfold(&document(body), &Setting { histories, ..Setting::default() }).unwrap();
    assert_eq!(graph(&known), "a 30 | b 60 <a");
    assert!(known.assumptions.is_empty());
    let from_history = |kind: &TaskKind| matches!(kind, TaskKind::Activity { basis: Basis::History, .. });
    assert!(known.tasks.iter().all(from_history));
}

#[test]
fn join_and_exit_conditions_are_said_to_be_ignored() {
    let forecast =
        unfolded(r#"<PAR NAME="p" JOIN="1"><ACTIVITY NAME="a" TYPE="Wait"/><ACTIVITY NAME="b" TYPE="Wait"/></PAR>"#);
    assert_eq!(assumptions(&forecast), ["p runs all of its elements to their end"]);
}

#[test]
fn wide_stages_meet_in_one_task() {
    let stage = |name: &str| {
        format!(r#"<PARFOR NAME="{name}" TO="200"><ITERATE><ACTIVITY NAME="a" TYPE="Wait"/></ITERATE></PARFOR>"#)
    };
    let setting = Setting { unroll: Some(1000), ..Setting::default() };
    let (forecast, _) = try_unfold(&document(&format!("{}{}", stage("p"), stage("q"))), &setting).unwrap();
    assert_eq!((forecast.workflow.task_count(), forecast.workflow.edge_count()), (401, 400));
    assert!(forecast.tasks.iter().any(|kind| matches!(kind, TaskKind::Join)));
}
