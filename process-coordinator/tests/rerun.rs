//! Plans of reruns: what the engine does with the results of a former process, without workers.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use xavantes_engine::Start;
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::digest::Digest;
use xavantes_model::load::load;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_model::value::{Content, FileRef, Value};
use xavantes_process_coordinator::memo::former_activities::{FormerActivities, FormerProcess};
use xavantes_process_coordinator::memo::memo_entry::encode_entry;
use xavantes_process_coordinator::process::rerun_plan::PlannedRerun;
use xavantes_proto::v1::reuse_reason::Kind;
use xavantes_proto::{v1, value};

const TYPES: &str = r#"
  <ACTIVITY_TYPE NAME="A"><IN_PARAMETER TYPE="int" NAME="n"/><OUT_PARAMETER TYPE="int" NAME="r"/>
    <CODE LANGUAGE="lua">r = n</CODE></ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="B"><IN_PARAMETER TYPE="int" NAME="n"/><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>"#;

fn program(body: &str) -> Arc<Program> {
    let text =
        format!(r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><BODY>{body}</BODY></PROCESS_TYPE>{TYPES}</XAVANTES>"#);
    Arc::new(load(&[Source::new("p.xml", &*text)]).unwrap_or_else(|problems| panic!("{problems:?}")))
}

/// A completed activity of type `A`.
fn completed(program: &Program, path: &str, n: i64) -> Vec<u8> {
    with_result(program, path, n, Value::Int(n))
}

fn with_result(program: &Program, path: &str, n: i64, result: Value) -> Vec<u8> {
    let results = v1::Completed { results: vec![value(&result)] };
    encode_entry(0, &program.activities[0], &[Value::Int(n), Value::Null], path, 0, &results, None)
}

fn planned(program: &Arc<Program>, entries: &[Vec<u8>]) -> PlannedRerun {
    let process = FormerProcess { id: "P-1".into(), program: program.clone(), submitted_ms: 0, left_out: 0 };
    PlannedRerun {
        program: program.clone(),
        start: Start::new("P-2", 0, Vec::new()),
        max_bytes: u64::MAX,
        former: FormerActivities::read(process, vec![Bytes::from(entries.concat())]),
        gone: HashSet::new(),
    }
}

fn plan(planned: PlannedRerun) -> v1::RerunPlan {
    let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).expect("there is memory");
    planned.plan(&mut sandbox, || false).expect("there are no parameters")
}

/// Activities that are taken over, activities that run, and places that wait.
fn paths(plan: &v1::RerunPlan) -> [Vec<&str>; 3] {
    let of = |list: fn(&v1::RerunType) -> Vec<&str>| plan.types.iter().flat_map(list).collect();
    [
        of(|it| it.taken.iter().map(|it| &*it.path).collect()),
        of(|it| it.running.iter().map(|it| &*it.path).collect()),
        of(|it| it.waiting.iter().map(|it| &**it).collect()),
    ]
}

#[test]
fn a_plan_goes_as_far_as_former_results_lead() {
    let program = program(
        r#"<ACTIVITY TYPE="A" NAME="first" n="1"/>
        <PARFOR NAME="all" TO="3"><ITERATE>
          <ACTIVITY TYPE="A" NAME="a" n="${counter * 10}"/><ACTIVITY TYPE="B" NAME="b" n="${a.r}"/>
        </ITERATE></PARFOR>
        <PAR NAME="both"><ACTIVITY TYPE="B" NAME="x" n="1"/><FOR NAME="f" TO="2"><ITERATE>
          <ACTIVITY TYPE="B" NAME="y" n="2"/></ITERATE></FOR></PAR>"#,
    );
    let entries =
        [("P-1/first", 1), ("P-1/all/[1]/a", 10), ("P-1/all/[2]/a", 21)].map(|(path, n)| completed(&program, path, n));
    let plan = plan(planned(&program, &entries));
    let [taken, running, waiting] = paths(&plan);
    assert_eq!(taken, ["first", "all/[1]/a"]);
    assert_eq!(running, ["all/[2]/a", "all/[3]/a", "all/[1]/b"]);
    assert_eq!(waiting, ["both/x", "both/f/[*]/y", "all/[2]/b", "all/[3]/b"]);
    assert_eq!((plan.taken_over, plan.will_run, plan.later, plan.not_used), (2, 3, 4, 1));
    let reason = plan.types[0].running[0].reason.as_ref().and_then(|reason| reason.kind.clone());
    assert!(matches!(&reason, Some(Kind::Changed(change)) if change.parameters[0].after == "20"), "{reason:?}");
}

#[test]
fn what_is_cancelled_by_former_results_does_not_run() {
    let program = program(
        r#"<PAR NAME="race" JOIN="1"><ACTIVITY TYPE="A" NAME="a" n="1"/><ACTIVITY TYPE="A" NAME="b" n="2"/></PAR>"#,
    );
    let plan = plan(planned(&program, &[completed(&program, "P-1/race/b", 2)]));
    assert_eq!(paths(&plan), [vec!["race/b"], Vec::new(), Vec::new()]);
}

#[test]
fn an_activity_runs_again_if_no_node_has_its_file() {
    let program = program(r#"<ACTIVITY TYPE="A" NAME="a" n="1"/>"#);
    let digest = Digest([7; 32]);
    let content = Content { digest, size: 1, executable: false, holders: Vec::new() };
    let file = FileRef { content: Some(content), ..FileRef::outside("out.txt", false) };
    let entry = with_result(&program, "P-1/a", 1, Value::File(Arc::new(file)));
    let mut rerun = planned(&program, &[entry]);
    rerun.gone.insert(digest);
    let plan = plan(rerun);
    let reason = plan.types[0].running[0].reason.as_ref().and_then(|reason| reason.kind.clone());
    assert!(matches!(&reason, Some(Kind::FileGone(gone)) if gone.file == "out.txt"), "{reason:?}");
}

#[test]
fn a_plan_is_bounded() {
    let program = program(
        r#"<PARFOR NAME="all" TO="1000000"><ITERATE><ACTIVITY TYPE="A" NAME="a" n="${counter}"/></ITERATE></PARFOR>"#,
    );
    let long = plan(planned(&program, &[]));
    assert_eq!((long.stopped(), long.will_run), (v1::RerunStop::Activities, 20_000));
    assert_eq!(paths(&long)[2], ["all/[*]/a"]);
    let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).expect("there is memory");
    let over = planned(&program, &[]).plan(&mut sandbox, || true).expect("there are no parameters");
    assert_eq!((over.stopped(), over.will_run), (v1::RerunStop::Time, 0));
}
