//! The process that a user wants to start: documents, a process type in them, and its parameters, checked before the
//! grid is asked.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use xavantes_model::definition::ProcessType;
use xavantes_model::diagnostic::{Source, did_you_mean};
use xavantes_model::value::{Type, Value};
use xavantes_proto::{MAX_MESSAGE_BYTES, Message, v1, value};

use crate::args::{DefinitionArgs, labels};
use crate::documents::{load_sources, read_files};
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::transfer;

/// Upper bound on the names in an error message.
const MAX_LISTED_NAMES: usize = 20;

/// The request that starts the process. All problems are printed.
pub(crate) fn request(arguments: &DefinitionArgs, output: Output) -> Result<v1::SubmitRequest, Exit> {
    request_with(&read_files(&arguments.files)?, arguments, output)
}

/// The request that starts the process of these documents. All problems are printed.
pub(crate) fn request_with(
    sources: &[Source],
    arguments: &DefinitionArgs,
    output: Output,
) -> Result<v1::SubmitRequest, Exit> {
    let program = load_sources(sources, output)?;
    let process = program.entry(arguments.process.as_deref()).map_err(|message| terminal::error(&message))?;
    let given = GivenParameters {
        former: BTreeMap::new(),
        file: arguments.params.as_deref(),
        arguments: &arguments.parameters,
    };
    let request = submission(sources, &program.processes[process], &given)?;
    let (name, labels) = (arguments.name.clone().unwrap_or_default(), labels(&arguments.labels));
    Ok(v1::SubmitRequest { no_reuse: arguments.no_reuse, name, labels, ..request })
}

/// The request that starts a process of this type. All problems are printed.
pub(crate) fn submission(
    sources: &[Source],
    process: &ProcessType,
    given: &GivenParameters,
) -> Result<v1::SubmitRequest, Exit> {
    let parameters = parameters(process, given).map_err(|problems| {
        for problem in problems {
            terminal::error(&problem);
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
        ..v1::SubmitRequest::default()
    };
    match request.encoded_len() {
        0..=MAX_MESSAGE_BYTES => Ok(request),
        size => {
            let (size, limit) = (size as f64 / f64::from(1 << 20), MAX_MESSAGE_BYTES >> 20);
            Err(terminal::error(&format!(
                "documents and parameters are too large together: {size:.1} MiB, at most {limit} MiB"
            )))
        }
    }
}

/// A different id each time. The coordinator takes a second request with the same id for a repetition by the network.
fn request_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{:016x}{:016x}", RandomState::new().hash_one(1), RandomState::new().hash_one(2))
}

fn list<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> String {
    format!("{what}: {}", names.take(MAX_LISTED_NAMES).collect::<Vec<_>>().join(", "))
}

/// Where parameters come from; each source overrides those before it.
pub(crate) struct GivenParameters<'a> {
    /// Those of the former process, if the process is a rerun.
    pub former: BTreeMap<String, Value>,
    /// A JSON file.
    pub file: Option<&'a Path>,
    /// Names and texts on the command line.
    pub arguments: &'a [(String, String)],
}

/// The parameters of a process, or all problems with them. Parameters of a former process that the type does not have any
/// more do not count.
pub(crate) fn parameters(
    process: &ProcessType,
    sources: &GivenParameters,
) -> Result<Vec<(String, Value)>, Vec<String>> {
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
    for (key, value) in &sources.former {
        let Some(variable) = inputs().find(|variable| *variable.name == **key) else { continue };
        match variable.ty {
            Some(ty) if !sources.arguments.iter().any(|(name, _)| name == key) => match ty.accept(value.clone()) {
                Ok(value) => drop(given.insert(key.clone(), value)),
                Err(problem) => problems.push(format!("parameter {key:?} of the former process: {problem}")),
            },
            _ => drop(given.insert(key.clone(), value.clone())),
        }
    }
    let members = sources.file.map(read_params).transpose().map_err(|problem| vec![problem])?;
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
    for (key, text) in sources.arguments {
        let Some(variable) = inputs().find(|variable| *variable.name == **key) else {
            problems.push(unknown(key));
            continue;
        };
        let ty = variable.ty.unwrap_or(Type::String);
        let value = match text.strip_prefix('@') {
            Some(pattern) if ty == Type::List => matching_files(pattern),
            _ => ty.parse(text),
        };
        let value = value.unwrap_or_else(|problem| {
            problems.push(format!("parameter {key:?}: {problem}"));
            Value::Bool(false)
        });
        given.insert(key.clone(), value);
    }
    for (key, value) in &given {
        value.each_file(&mut |file| {
            if let Some(path) = transfer::local(&file.uri).filter(|_| file.content.is_none())
                && let Err(problem) = transfer::check_local(path, file.directory)
            {
                problems.push(format!("parameter {key:?}: {problem}"));
            }
            if transfer::looks_local(file) {
                terminal::note(&format!(
                    "note: {key}={0} is passed on as a text; to upload the file: {key}=@{0}\n",
                    file.uri
                ));
            }
        });
    }
    for (key, value) in &given {
        if let Some(text) = inner_upload(value) {
            problems.push(format!(
                "parameter {key:?}: the text {text:?} in it uploads no file; write {{\"$file\": {text:?}}}, or give a list of \
                 files as {key}=@PATTERN"
            ));
        }
    }
    for variable in inputs().filter(|variable| variable.default.is_none() && !variable.optional) {
        if given.get(&*variable.name).is_none_or(Value::is_null) {
            problems.push(format!("parameter {:?} is missing", variable.name));
        }
    }
    if problems.is_empty() { Ok(given.into_iter().collect()) } else { Err(problems) }
}

/// The files that match a pattern such as `data/*.csv`, in the order of their names, as references to upload.
fn matching_files(pattern: &str) -> Result<Value, String> {
    let found = glob::glob(pattern).map_err(|error| format!("@{pattern}: {error}"))?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|error| format!("@{pattern}: {error}"))?;
        if path.is_file() {
            files.push(Type::File.parse(&format!("@{}", path.display())).map_err(|problem| problem.to_string())?);
        }
    }
    if files.is_empty() { Err(format!("no file matches {pattern}")) } else { Ok(Value::from(files)) }
}

/// A text in a list or map that looks like an upload, and names a file that is here.
fn inner_upload(value: &Value) -> Option<&str> {
    let mut open: Vec<&Value> = match value {
        Value::List(items) => items.iter().collect(),
        Value::Map(entries) => entries.values().collect(),
        _ => Vec::new(),
    };
    while let Some(value) = open.pop() {
        match value {
            Value::Str(text) if transfer::local(text).is_some_and(Path::exists) => return Some(text),
            Value::List(items) => open.extend(items.iter()),
            Value::Map(entries) => open.extend(entries.values()),
            _ => {}
        }
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_gives_a_list_of_files_and_texts_upload_nothing() {
        let files = matching_files("src/commands/wa*.rs").expect("there are such files");
        let Value::List(files) = files else { panic!("not a list") };
        let names: Vec<String> = files
            .iter()
            .map(|file| match file {
                Value::File(file) => file.uri.to_string(),
                other => panic!("{other:?} is no file"),
            })
            .collect();
        assert_eq!(names, ["@src/commands/wait.rs", "@src/commands/watch.rs"]);
        assert!(matching_files("nowhere/*").is_err_and(|problem| problem == "no file matches nowhere/*"));
        assert!(matching_files("a[").is_err());
        let list = |text: &str| Value::from(vec![Value::from(text)]);
        assert_eq!(inner_upload(&list("@Cargo.toml")), Some("@Cargo.toml"));
        assert_eq!(inner_upload(&list("@nobody")), None, "it may be the name of a user");
        assert_eq!(inner_upload(&Value::from("@Cargo.toml")), None, "the text is the parameter");
    }
}
