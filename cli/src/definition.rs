//! What a user wants to run: documents, a process type in them, and its parameters, checked before anything is asked of a
//! grid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;
use xavantes_model::definition::ProcessType;
use xavantes_model::diagnostic::{Source, did_you_mean};
use xavantes_model::load::load;
use xavantes_model::value::{Type, Value};
use xavantes_proto::{MAX_MESSAGE_BYTES, Message, v1, value};

use crate::Exit;
use crate::args::{Format, WhatArgs};
use crate::files;
use crate::grid::{Coordinator, ask};
use crate::report::{complain, tell};
use crate::validate::{load_sources, read_files};

/// The request that starts it; on failure everything that is wrong has been told. Types that the documents use and do not
/// define are asked of `grid`, if there is one.
pub(crate) async fn request(
    what: &WhatArgs,
    grid: Option<&mut Coordinator>,
    format: Format,
) -> Result<v1::SubmitRequest, Exit> {
    let mut sources = read_files(&what.files)?;
    if let Some(grid) = grid {
        sources.extend(submitted_before(&sources, grid).await?);
    }
    let program = load_sources(&sources, format)?;
    let process = program.entry(what.process.as_deref()).map_err(|message| complain(&message))?;
    let process = &program.processes[process];
    let parameters = parameters(process, what).map_err(|problems| {
        for problem in problems {
            complain(&problem);
        }
        Exit::Usage
    })?;
    let request = v1::SubmitRequest {
        documents: sources
            .iter()
            .map(|source| v1::Document { name: source.name.to_string(), text: source.text.to_string() })
            .collect(),
        process_type: process.name.to_string(),
        parameters: parameters
            .into_iter()
            .map(|(name, given)| v1::Parameter { name, value: Some(value(&given)) })
            .collect(),
        request_id: request_id(),
        no_reuse: what.no_reuse,
    };
    match request.encoded_len() {
        0..=MAX_MESSAGE_BYTES => Ok(request),
        size => {
            let (size, most) = (size as f64 / f64::from(1 << 20), MAX_MESSAGE_BYTES >> 20);
            Err(complain(&format!(
                "documents and parameters are too large together: {size:.1} MiB, at most {most} MiB"
            )))
        }
    }
}

/// Documents of the grid that define what these use and do not define.
async fn submitted_before(sources: &[Source], grid: &mut Coordinator) -> Result<Vec<Source>, Exit> {
    let problems = load(sources).err().unwrap_or_default();
    let unknown = problems.iter().filter(|problem| problem.code == "unknown-type");
    let names: BTreeSet<String> = unknown
        .filter_map(|problem| sources[problem.span.source].text.get(problem.span.bytes.clone()))
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let request = v1::FindTypesRequest { names: names.into_iter().collect() };
    let found = ask(grid.find_types(request)).await?.documents;
    Ok(found.into_iter().map(|document| Source::new(document.name, document.text)).collect())
}

/// Another one each time: a repeated request is one that the network repeated.
fn request_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{:016x}{:016x}", RandomState::new().hash_one(1), RandomState::new().hash_one(2))
}

fn list<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> String {
    format!("{what}: {}", names.take(20).collect::<Vec<_>>().join(", "))
}

/// Parameters from the file, then from the command line, which wins; or everything that is wrong with them.
fn parameters(process: &ProcessType, arguments: &WhatArgs) -> Result<Vec<(String, Value)>, Vec<String>> {
    let mut problems = Vec::new();
    let mut given: BTreeMap<String, Value> = BTreeMap::new();
    let inputs = || process.parameters().iter().filter(|variable| variable.direction.is_in());
    let unknown = |key: &str| {
        let names = || inputs().map(|variable| &*variable.name);
        let hint = did_you_mean(key, names()).unwrap_or_else(|| match inputs().next() {
            Some(_) => list("it has", names()),
            None => "it has none".into(),
        });
        format!("{} has no IN parameter {key:?}; {hint}", process.name)
    };
    let members = arguments.params.as_deref().map(read_params).transpose().map_err(|problem| vec![problem])?;
    for (key, json) in members.unwrap_or_default() {
        let Some(variable) = inputs().find(|variable| *variable.name == *key) else {
            problems.push(unknown(&key));
            continue;
        };
        let value = Value::try_from(json).and_then(|value| match variable.ty {
            Some(ty) if !value.is_null() => ty.accept(value),
            _ => Ok(value),
        });
        given.insert(
            key.clone(),
            value.unwrap_or_else(|problem| {
                problems.push(format!("parameter {key:?}: {problem}"));
                Value::Bool(false)
            }),
        );
    }
    for (key, text) in &arguments.parameters {
        let Some(variable) = inputs().find(|variable| *variable.name == **key) else {
            problems.push(unknown(key));
            continue;
        };
        let value = variable.ty.unwrap_or(Type::String).parse(text).unwrap_or_else(|problem| {
            problems.push(format!("parameter {key:?}: {problem}"));
            Value::Bool(false)
        });
        given.insert(key.clone(), value);
    }
    for (key, value) in &given {
        value.each_file(&mut |file| {
            if let Some(path) = files::local(&file.uri).filter(|_| file.content.is_none())
                && let Err(problem) = files::check_local(path, file.directory)
            {
                problems.push(format!("parameter {key:?}: {problem}"));
            }
            if files::is_forgotten(file) {
                tell(&format!(
                    "note: {key}={0} is handed on as it is; to bring the file along: {key}=@{0}\n",
                    file.uri
                ));
            }
        });
    }
    for variable in inputs().filter(|variable| variable.default.is_none() && !variable.optional) {
        if given.get(&*variable.name).is_none_or(Value::is_null) {
            problems.push(format!("parameter {:?} is missing", variable.name));
        }
    }
    if problems.is_empty() { Ok(given.into_iter().collect()) } else { Err(problems) }
}

/// The members of a JSON file with parameters.
fn read_params(file: &Path) -> Result<serde_json::Map<String, Json>, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    match serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))? {
        Json::Object(members) => Ok(members),
        _ => Err(format!("{shown}: expected one JSON object")),
    }
}
