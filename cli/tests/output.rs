//! The JSON that real commands print is valid by the schema in docs/output.schema.json.

mod common;

use common::schema::Schema;
use common::{Ended, Folder, Running, until, xavantes};
use serde_json::{Value as Json, json};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/output.schema.json");

/// Completes, with an activity in Lua and a program whose results go to the cache.
const COMPLETES: &str = r#"<XAVANTES VERSION="1">
<PROCESS_TYPE NAME="Completes"><OUT_PARAMETER NAME="out" TYPE="int"/><BODY>
<ACTIVITY NAME="six" TYPE="Six"/>
<PARFOR NAME="all" TO="2" COLLECT="say.text"><ITERATE><ACTIVITY NAME="say" TYPE="Say"/></ITERATE></PARFOR>
<POST_CODE>out = six.n * 7</POST_CODE></BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="Six"><OUT_PARAMETER NAME="n" TYPE="int"/><CODE LANGUAGE="lua">n = 6</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Say" CACHE="true"><OUT_PARAMETER NAME="text" TYPE="string" OPTIONAL="true"/>
<CODE LANGUAGE="command"><ARG>sh</ARG><ARG>-c</ARG><ARG>echo said; echo heard >&amp;2</ARG></CODE></ACTIVITY_TYPE>
</XAVANTES>"#;

const FAILS: &str = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Fails"><BODY>
<ACTIVITY NAME="work" TYPE="Broken"/></BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="Broken">
<CODE LANGUAGE="command"><ARG>sh</ARG><ARG>-c</ARG><ARG>echo no luck >&amp;2; exit 3</ARG></CODE></ACTIVITY_TYPE></XAVANTES>"#;

/// Completes one activity, and waits for a worker with an interpreter that does not exist.
const WAITS: &str = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Waits"><BODY>
<ACTIVITY NAME="quick" TYPE="Quick"/><ACTIVITY NAME="odd" TYPE="Odd"/></BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="Quick" CACHE="true"><CODE LANGUAGE="lua">local x = 1</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Odd"><CODE LANGUAGE="klingon">1</CODE></ACTIVITY_TYPE></XAVANTES>"#;

/// The types of the schema.
struct Documents(Schema);

impl Documents {
    fn new() -> Self {
        let text = std::fs::read_to_string(SCHEMA).expect("the schema is there");
        Self(Schema(serde_json::from_str(&text).expect("the schema is JSON")))
    }

    /// Checks that a document is valid by the type of this name.
    #[track_caller]
    fn check(&self, name: &str, document: &Json) {
        assert_eq!(self.0.problem(name, document), None, "{document:#}");
    }

    /// Checks the one document that a command printed, and returns it.
    #[track_caller]
    fn printed(&self, name: &str, code: i32, ended: &Ended) -> Json {
        assert_eq!((ended.code, ended.stdout.lines().count()), (code, 1), "{ended:?}");
        let document = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        self.check(name, &document);
        document
    }
}

fn names(document: &Json) -> Vec<&str> {
    document.as_object().expect("it is an object").keys().map(String::as_str).collect()
}

/// Runs a command with JSON output against a node.
fn ask(node: &Running, arguments: &[&str]) -> Ended {
    node.ask(&[arguments, &["--output", "json"]].concat())
}

#[test]
fn a_wrong_document_is_not_valid() {
    let schema = Documents::new().0;
    let is_valid = |name, document| schema.problem(name, &document).is_none();
    assert!(is_valid("Submitted", json!({"process": "P-1"})));
    assert!(!is_valid("Submitted", json!({"process": 1})));
    assert!(!is_valid("Submitted", json!({"id": "P-1"})));
    assert!(!is_valid("Submitted", json!("P-1")));
    assert!(is_valid("WaitReason", json!({"kind": "unmet", "interpreter": "R"})));
    assert!(!is_valid("WaitReason", json!({"kind": "unmet", "interpreter": 7})));
    assert!(!is_valid("WaitReason", json!({"kind": "tired"})));
    assert!(!is_valid("SourceList", json!({"sources": {"a": 1}})));
    assert!(!is_valid("ProcessList", json!({"processes": [{"process": "P-1"}]})));
    assert!(!is_valid("NoSuchType", json!({})));
}

#[test]
fn commands_without_a_grid_print_valid_documents() {
    let (schema, folder) = (Documents::new(), Folder::new());
    let (completes, fails) = (folder.write("completes.xml", COMPLETES), folder.write("fails.xml", FAILS));
    let json_of = |arguments: &[&str]| xavantes(&[arguments, &["--output", "json", "--quiet"]].concat(), "");
    schema.printed("Outcome", 0, &json_of(&["run", &completes]));
    let failed = schema.printed("Outcome", 1, &json_of(&["run", &fails]));
    assert_eq!((&failed["failure"]["kind"], &failed["failure"]["exit_status"]), (&json!("exit"), &json!(3)));
    let valid = schema.printed("Validation", 0, &json_of(&["validate", &completes]));
    assert_eq!(valid, json!({"valid": true, "problems": []}));
    let wrong = folder.write("wrong.xml", COMPLETES.replace("TYPE=\"Six\"", "TYPE=\"Sixx\""));
    schema.printed("Validation", 2, &json_of(&["validate", &wrong]));
    schema.printed("Validation", 2, &json_of(&["run", &wrong]));
    let workflow =
        folder.write("w.yaml", "workflow: [{name: a, command: ls, include_files: [x], download_files: [y]}]");
    let (process, picture) = (folder.path("w.xml"), folder.path("w.svg"));
    schema.printed("Import", 0, &json_of(&["import", "sweeper", &workflow, "-o", &process]));
    schema.printed("Drawing", 0, &json_of(&["draw", &process]));
    schema.printed("Drawing", 0, &json_of(&["draw", &process, "-o", &picture]));
    let settings = json_of(&["node", "--print-config", "--name", "a", "--in-memory"]);
    let settings: Json = serde_json::from_str(&settings.stdout).expect("it is JSON");
    assert_eq!((&settings["name"], &settings["retention-days"]), (&json!("a"), &json!(30)));
}

#[test]
fn the_same_fact_has_the_same_name_in_every_command() {
    let (schema, folder) = (Documents::new(), Folder::new());
    let file = folder.write("completes.xml", COMPLETES);
    let node = Running::node(&["--in-memory"]);
    let ran = schema.printed("Outcome", 0, &xavantes(&["run", &file, "--output", "json"], ""));
    let waited = schema.printed("Outcome", 0, &ask(&node, &["submit", &file, "--wait"]));
    let process = waited["process"].as_str().expect("it has an id").to_owned();
    let results = schema.printed("Outcome", 0, &ask(&node, &["results", &process]));
    assert_eq!(names(&ran), names(&waited));
    assert_eq!(names(&ran), names(&results));
    assert_eq!(names(&ran["activities"]), ["attempts", "completed", "failed", "reused"]);
    assert_eq!(ran["results"], waited["results"]);

    let list = schema.printed("ProcessList", 0, &ask(&node, &["list"]));
    let wait = schema.printed("ProcessList", 0, &ask(&node, &["wait", &process]));
    assert_eq!(list["processes"], wait["processes"]);
    let shown = schema.printed("Element", 0, &ask(&node, &["show", &process]));
    for member in ["process", "state", "activities"] {
        assert_eq!(list["processes"][0][member], results[member], "{member}");
        assert_eq!(shown[member], results[member], "{member}");
    }
    assert_eq!(list["processes"][0]["elapsed_seconds"], results["elapsed_seconds"]);
}

#[test]
fn commands_about_processes_print_valid_documents() {
    let (schema, folder) = (Documents::new(), Folder::new());
    let data = folder.path("data");
    let node = Running::node(&["--data-dir", &data]);
    let files = [("completes.xml", COMPLETES), ("fails.xml", FAILS), ("waits.xml", WAITS)];
    let [completes, fails, waits] = files.map(|(name, text)| folder.write(name, text));
    let submit = |file: &str| {
        let submitted = schema.printed("Submitted", 0, &ask(&node, &["submit", file]));
        submitted["process"].as_str().expect("it has an id").to_owned()
    };

    let process = submit(&completes);
    schema.printed("ProcessList", 0, &ask(&node, &["wait", &process]));
    let tree = schema.printed("Element", 0, &ask(&node, &["tree", &process]));
    assert!(tree["children"].as_array().is_some_and(|children| children.len() == 2), "{tree}");
    let say = format!("{process}/all/[1]/say");
    let shown = schema.printed("Element", 0, &ask(&node, &["show", &say]));
    assert_eq!(shown["records"][0]["state"], "completed", "{shown}");
    let log = schema.printed("Log", 0, &ask(&node, &["logs", &say]));
    assert_eq!((&log["stdout"], &log["stderr"]), (&json!("said\n"), &json!("heard\n")));
    let explained = schema.printed("Element", 0, &ask(&node, &["explain", &say]));
    assert_eq!(explained["reuse"]["reused"], false, "{explained}");
    let again = ask(&node, &["submit", &completes, "--wait", "--stream"]);
    let lines: Vec<Json> =
        again.stdout.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let (outcome, outputs) = lines.split_last().expect("there are lines");
    schema.check("Outcome", outcome);
    assert!(!outputs.is_empty(), "{again:?}");
    outputs.iter().for_each(|output| schema.check("ElementOutput", output));

    let process = submit(&fails);
    let ended = schema.printed("ProcessList", 1, &ask(&node, &["wait", &process]));
    assert_eq!(ended["processes"][0]["failure"]["path"], format!("{process}/work"));
    schema.printed("Element", 0, &ask(&node, &["show", &process]));
    schema.printed("Forgotten", 0, &ask(&node, &["forget", &process]));
    schema.printed("Forgotten", 0, &ask(&node, &["forget", "--reusable"]));

    let process = submit(&waits);
    let odd = format!("{process}/odd");
    let waiting = until("the activity waits", || {
        let ended = ask(&node, &["show", &odd]);
        // The element may not have begun yet.
        if ended.code == 2 {
            return None;
        }
        let shown = schema.printed("Element", 0, &ended);
        (shown["wait_reason"]["kind"] == "unmet").then_some(shown)
    });
    assert_eq!(waiting["wait_reason"], json!({"kind": "unmet", "interpreter": "klingon"}));
    assert_eq!(waiting["waits"], "no connected worker has an interpreter for \"klingon\"");
    let explained = schema.printed("Element", 0, &ask(&node, &["explain", &format!("{process}/quick")]));
    assert_eq!((&explained["type"], &explained["reuse"]["reason"]), (&json!("Quick"), &json!("first")), "{explained}");
    let text = node.ask(&["explain", &format!("{process}/quick")]).stdout;
    assert!(text.ends_with("why        no earlier activity of the type Quick is known\n"), "{text}");
    let paused = schema.printed("Steered", 0, &ask(&node, &["pause", &process]));
    assert_eq!(paused, json!({"path": process, "action": "pause"}));
    let shown = until("the process is paused", || {
        let shown = schema.printed("Element", 0, &ask(&node, &["show", &process]));
        (shown["paused"] == true).then_some(shown)
    });
    assert_eq!(shown["state"], "paused");
    schema.printed("Steered", 0, &ask(&node, &["cancel", &process]));
    let ended = ask(&node, &["wait", &process]);
    schema.printed("ProcessList", 4, &ended);
}

#[test]
fn commands_about_the_grid_print_valid_documents() {
    let (schema, folder) = (Documents::new(), Folder::new());
    let node = Running::node(&["--in-memory"]);
    schema.printed("Outcome", 0, &ask(&node, &["submit", &folder.write("completes.xml", COMPLETES), "--wait"]));
    let nodes = until("the node is known", || {
        let nodes = schema.printed("NodeList", 0, &ask(&node, &["nodes"]));
        (nodes["nodes"][0]["node"] == "test").then_some(nodes)
    });
    assert_eq!(nodes["nodes"][0]["draining"], false);
    schema.printed("GroupList", 0, &ask(&node, &["groups"]));
    let types = schema.printed("TypeList", 0, &ask(&node, &["types"]));
    assert_eq!(types["types"].as_array().map(Vec::len), Some(3), "{types}");
    let added = schema.printed("SourceChange", 0, &ask(&node, &["sources", "add", "stars", "file:///stars"]));
    assert_eq!(added, json!({"source": "stars", "uri": "file:///stars"}));
    let sources = schema.printed("SourceList", 0, &ask(&node, &["sources"]));
    assert_eq!(sources, json!({"sources": {"stars": "file:///stars"}}));
    schema.printed("SourceChange", 0, &ask(&node, &["sources", "remove", "stars"]));
    schema.printed("Health", 0, &ask(&node, &["health"]));
    schema.printed("Drained", 0, &ask(&node, &["drain", "test"]));
}
