//! `predict` with the real program: what it knows, what it learns, and how it says that it knows nothing.

mod common;

use common::schema::Schema;
use common::{Ended, Folder, xavantes};
use serde_json::{Value as Json, json};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/output.schema.json");

const HEAD: &str = "@relation Fit\n@attribute arg-mode string\n@attribute in-table numeric\n\
    @attribute out-model numeric\n@attribute time numeric\n@data\n";

/// Times are the bytes by a million, ten times that in the slow mode; models have a tenth of the bytes.
fn runs(count: u32) -> String {
    let run = |number: u32| {
        let (mode, factor) = if number.is_multiple_of(2) { ("fast", 1.0) } else { ("slow", 10.0) };
        let bytes = f64::from(number) * 1e6;
        format!("{mode},{bytes},{},{}\n", bytes / 10.0, bytes / 1e6 * factor)
    };
    format!("{HEAD}{}", (1..=count).map(run).collect::<String>())
}

fn json(name: &str, arguments: &[&str]) -> Json {
    let ended = xavantes(&[&["predict"], arguments, &["--output", "json"]].concat(), "");
    assert_eq!((ended.code, ended.stdout.lines().count()), (0, 1), "{ended:?}");
    let document = serde_json::from_str(&ended.stdout).expect("it is JSON");
    let schema = std::fs::read_to_string(SCHEMA).expect("the schema is there");
    let schema = Schema(serde_json::from_str(&schema).expect("it is JSON"));
    assert_eq!(schema.problem(name, &document), None, "{document:#}");
    document
}

#[track_caller]
fn refused(arguments: &[&str], message: &str) -> Ended {
    let ended = xavantes(&[&["predict"], arguments].concat(), "");
    assert!(ended.code == 2 && ended.stderr.contains(message), "{message}: {ended:?}");
    ended
}

#[test]
fn a_prediction_has_an_interval_around_the_most_similar_runs() {
    let folder = Folder::new();
    let history = folder.write("Fit.arff", runs(40));
    let answer = json("Predictions", &["ask", &history, "arg-mode=slow", "in-table=21000000", "-k", "1"]);
    assert_eq!((&answer["type"], &answer["runs"]), (&json!("Fit"), &json!(40)));
    let predicted = |name: &str| {
        let all = answer["predictions"].as_array().expect("there are predictions");
        all.iter().find(|it| it["attribute"] == name).expect("it is predicted").clone()
    };
    let time = predicted("time");
    assert_eq!((&time["mean"], &time["distance"]), (&json!(210.0), &json!(0.0)));
    assert!(time["low"].as_f64() < time["mean"].as_f64() && time["mean"].as_f64() < time["high"].as_f64());
    assert_eq!(predicted("out-model")["mean"], 2_100_000.0);
    let text = xavantes(&["predict", "ask", &history, "arg-mode=slow"], "");
    assert!(text.code == 0 && text.stdout.contains("INTERVAL") && text.stdout.contains("time"), "{text:?}");
}

#[test]
fn predictions_are_checked_by_leaving_runs_out() {
    let folder = Folder::new();
    folder.write("Fit.arff", runs(60));
    folder.write("Other.arff", HEAD);
    let list = json("HistoryList", &["show", &folder.path("")]);
    let [fit, other] = &list["types"].as_array().expect("there are types")[..] else { panic!("{list:#}") };
    assert_eq!((&fit["type"], &other["type"], &other["errors"]), (&json!("Fit"), &json!("Other"), &json!([])));
    let time = fit["errors"].as_array().unwrap().iter().find(|it| it["attribute"] == "time").expect("it is checked");
    assert_eq!(time["checked"], 60);
    assert!(time["median_relative_error"].as_f64().unwrap() < 0.2, "{time}");
}

#[test]
fn without_runs_nothing_is_predicted() {
    let folder = Folder::new();
    let history = folder.write("Fit.arff", HEAD);
    let ended = xavantes(&["predict", "ask", &history, "arg-mode=slow"], "");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "nothing is known about the type Fit: it has no past runs\n"));
    assert_eq!(json("Predictions", &["ask", &history])["predictions"], json!([]));
}

#[test]
fn runs_are_added_to_a_history_of_bounded_size() {
    let folder = Folder::new();
    let (history, new) = (folder.path("Fit.arff"), folder.write("new.arff", runs(30)));
    let learned = json("Learned", &["learn", &history, &new]);
    assert_eq!((&learned["added"], &learned["runs"]), (&json!(30), &json!(30)));
    let again = json("Learned", &["learn", &history, &new, "--capacity", "20"]);
    assert_eq!((&again["added"], &again["runs"]), (&json!(30), &json!(20)));
    let more =
        folder.write("more.arff", "@relation x\n@attribute arg-depth numeric\n@attribute time numeric\n@data\n3,5\n");
    assert_eq!(json("Learned", &["learn", &history, &more])["runs"], 21);
    let text = std::fs::read_to_string(&history).expect("the history is there");
    assert!(text.contains("@relation Fit") && text.contains("@attribute arg-depth numeric"), "{text}");
}

#[test]
fn mistakes_have_their_place_and_advice() {
    let folder = Folder::new();
    let history = folder.write("Fit.arff", runs(5));
    refused(&["ask", &history, "arg-mood=slow"], "did you mean \"arg-mode\"?");
    refused(&["ask", &history, "in-table=large"], "in-table is a number, not \"large\"");
    refused(&["ask", &history, "arg-mode"], "expected KEY=VALUE");
    refused(&["ask", &folder.path("None.arff")], "cannot read");
    let broken = folder.write("Broken.arff", runs(5).replace("fast,2000000", "fast,two"));
    refused(&["show", &broken], "Broken.arff: line 8: in-table must be a number, not `two`");
    std::fs::create_dir(folder.path("empty")).expect("tests can write here");
    refused(&["show", &folder.path("empty")], "has no file that ends with .arff");
}
