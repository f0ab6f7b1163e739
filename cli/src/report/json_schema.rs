//! The JSON Schema of all reports, docs/output.schema.json, and the tables of docs/json.md. Both are generated from the
//! types: `UPDATE_DOCS=1 cargo test -p xavantes` writes them.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

use super::{
    definition, element, grid, import, log_lines, plan, prediction, process, repository, rerun, shared_value,
    silent_action, simulation, validation,
};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/output.schema.json");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md");
const MARKER: &str = "<!-- Generated from here on: UPDATE_DOCS=1 cargo test -p xavantes -->\n";

fn schema() -> Json {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    macro_rules! documents {
        ($($report:ty),*) => { vec![$(generator.subschema_for::<$report>()),*] };
    }
    let documents = documents![
        process::OutcomeReport,
        process::Submitted,
        rerun::RerunPlan,
        process::ProcessList,
        process::ElementOutput,
        element::Element,
        definition::Definition,
        definition::ProcessParameters,
        log_lines::Log,
        log_lines::FailedLogs,
        grid::NodeList,
        grid::GroupList,
        grid::TypeList,
        grid::SourceList,
        grid::Health,
        validation::Validation,
        import::ImportReport,
        import::DrawReport,
        silent_action::Steered,
        silent_action::Forgotten,
        silent_action::Drained,
        silent_action::SourceChange,
        silent_action::Migrated,
        repository::RepositoryState,
        repository::BackedUp,
        repository::Restored,
        plan::PlanReport,
        plan::Comparison,
        simulation::SimulationReport,
        prediction::HistoryList,
        prediction::PredictionReport,
        prediction::Learned,
        shared_value::SharedValue
    ];
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Output of xavantes --output json",
        "anyOf": documents,
        "$defs": generator.take_definitions(true),
    })
}

/// The name of the type that a schema refers to.
fn reference(schema: &Json) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// The type of a member for people.
fn type_name(schema: &Json) -> String {
    if let Some(name) = reference(schema) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(some) = schema["anyOf"].as_array().and_then(|all| all.iter().find(|it| it["type"] != "null")) {
        return type_name(some);
    }
    let name = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match name {
        Some("array") => format!("list of {}", type_name(&schema["items"])),
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    }
}

/// The text of a member or type, and its values if they are known.
fn description(schema: &Json) -> String {
    let text = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
    let values: Vec<&str> = schema["enum"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    if values.is_empty() { text } else { format!("{text}: `{}`", values.join("`, `")) }
}

fn members(schema: &Json) -> Map<String, Json> {
    schema["properties"].as_object().cloned().unwrap_or_default()
}

/// The table of one type: its members, or the values of an enumeration.
fn table(schema: &Json) -> String {
    let mut text = String::new();
    if let Some(variants) = schema["oneOf"].as_array() {
        text += "| value | |\n|---|---|\n";
        for variant in variants {
            let kind = variant["properties"]["kind"].get("const").or(variant.get("const")).and_then(Json::as_str);
            let mut value = match variant.get("properties") {
                Some(_) => format!("`kind`: `{}`", kind.unwrap_or_default()),
                None => format!("`{}`", kind.unwrap_or_default()),
            };
            let others = members(variant).into_iter().filter(|(name, _)| name != "kind");
            value.extend(others.map(|(name, member)| format!(", `{name}`: {}", type_name(&member))));
            value.extend(reference(variant).map(|name| format!(", and [{name}](#{})", name.to_lowercase())));
            let _ = writeln!(text, "| {value} | {} |", description(variant));
        }
        return text;
    }
    text += "| member | type | |\n|---|---|---|\n";
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, member) in members(schema) {
        let nullable = member["type"].as_array().is_some_and(|types| types.contains(&json!("null")));
        let presence = match required.contains(&json!(name)) {
            false => "?",
            true if nullable => " or null",
            true => "",
        };
        let _ = writeln!(text, "| `{name}` | {}{presence} | {} |", type_name(&member), description(&member));
    }
    text
}

fn tables(schema: &Json) -> String {
    let types = schema["$defs"].as_object().expect("there are types");
    let section =
        |(name, schema): (&String, &Json)| format!("\n## {name}\n\n{}\n\n{}", description(schema), table(schema));
    types.iter().map(section).collect()
}

#[test]
fn the_schema_and_its_page_are_up_to_date() {
    let schema = schema();
    let text = serde_json::to_string_pretty(&schema).expect("it is JSON") + "\n";
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let (written_by_hand, generated) = page.split_once(MARKER).expect("the page has the marker");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(SCHEMA, text).expect("the schema can be written");
        let page = format!("{written_by_hand}{MARKER}{}", tables(&schema));
        std::fs::write(PAGE, page).expect("the page can be written");
        return;
    }
    let written = std::fs::read_to_string(SCHEMA).expect("the schema is there");
    assert!(written == text, "run `UPDATE_DOCS=1 cargo test -p xavantes` and commit docs/output.schema.json");
    assert_eq!(generated, tables(&schema), "run `UPDATE_DOCS=1 cargo test -p xavantes` and commit docs/json.md");
}
