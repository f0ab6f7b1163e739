//! Ended processes still show the outcome of all their elements.

use serde_json::{Value as Json, json};
use xavantes_tests::{Grid, xavantes};

use crate::kit::{at, document};

const WHOLE: &str = r#"
  <ACTIVITY_TYPE NAME="Check">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <CODE LANGUAGE="lua">if n == 2 then error("two is wrong") end</CODE>
  </ACTIVITY_TYPE>
  <PROCESS_TYPE NAME="Part">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <BODY>
      <PARFOR NAME="all" TO="${count}">
        <ITERATE ON_FAILURE="continue"><ACTIVITY TYPE="Check" NAME="check" n="${counter}"/></ITERATE>
      </PARFOR>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Whole">
    <BODY>
      <PROCESS TYPE="Part" NAME="here" DELEGATE="never" count="3"/>
      <PROCESS TYPE="Part" NAME="there" DELEGATE="always" count="4"/>
      <SWITCH NAME="choice">
        <CASE CONDITION="true"><ACTIVITY TYPE="Check" NAME="last" n="1"/></CASE>
        <DEFAULT><ACTIVITY TYPE="Check" NAME="other" n="1"/></DEFAULT>
      </SWITCH>
    </BODY>
  </PROCESS_TYPE>"#;

fn numbers(element: &Json) -> [Option<u64>; 4] {
    ["runs", "completed", "failed", "cancelled"].map(|key| element[key].as_u64())
}

#[test]
fn an_ended_process_shows_its_tree_and_its_failures_in_all_groups() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[2], &[]);
    grid.group("b", &[2], &["--adjacent", &a]);
    let file = grid.write("whole.xml", &document(WHOLE));
    let process = grid.submit(&a, &file, &[]);
    grid.cli(&a, &["wait", &process]).ok();
    let path = |rest: &str| format!("{process}/{rest}");

    let tree = grid.cli(&a, &["tree", &process]).ok().json();
    let element = |rest: &str| at(&tree, &path(rest)).unwrap_or_else(|| panic!("{rest} in {tree}"));
    assert_eq!((&tree["state"], &tree["type"]), (&json!("completed"), &json!("Whole")));
    assert_eq!(numbers(element("here")), [Some(1), None, None, None]);
    // The elements of a type are counted together for all its calls, in this group and in the other one.
    assert_eq!(numbers(element("here/all/[*]/check")), [Some(7), Some(5), Some(2), Some(0)]);
    assert_eq!(element("here/all/[*]/check")["state"], "ended");
    assert_eq!(element("there")["counted_at"], path("here"));
    assert_eq!(element("there")["children"], Json::Null);
    assert_eq!(numbers(element("choice/case1/last")), [Some(1), None, None, None]);
    assert_eq!(at(&tree, &path("choice/default")), None, "{tree}");

    let shown = grid.cli(&a, &["show", &process]).ok().json();
    let errors: Vec<&str> =
        shown["events"].as_array().expect("events").iter().filter_map(|it| it["path"].as_str()).collect();
    assert_eq!(errors, [path("here/all/[2]/check"), path("there/all/[2]/check")]);

    // Paths name one iteration or all of them. The same holds after the coordinator was killed.
    grid.kill("a/main");
    grid.restart("a/main");
    for iteration in ["[*]", "[3]"] {
        let check = grid.cli(&a, &["show", &path(&format!("here/all/{iteration}/check"))]).ok().json();
        assert_eq!((numbers(&check), &check["type"]), ([Some(7), Some(5), Some(2), Some(0)], &json!("Check")));
    }
    for (wrong, why) in [("hare", "has no element \"hare\"; did you mean \"here\"?"), ("choice/default", "never began")]
    {
        let refused = grid.cli(&a, &["show", &path(wrong)]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
    let text = xavantes(&["tree", &process, "--coordinator", &a]).ok();
    assert!(text.stdout.contains("check  ACTIVITY Check  ended  5 of 7 completed  2 failed"), "{}", text.stdout);
    assert!(text.stdout.contains(&format!("there  PROCESS Part  completed  see {}", path("here"))), "{}", text.stdout);

    grid.cli(&a, &["forget", &process]).ok();
    assert_eq!(grid.cli(&a, &["tree", &process]).code, 2);
}
