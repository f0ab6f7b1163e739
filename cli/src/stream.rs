//! What the elements of a process give, printed as they complete.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value as Json, json};
use xavantes_proto::{Assembler, MAX_RESULTS_BYTES, v1, value_from};

use crate::Exit;
use crate::args::Format;
use crate::files;
use crate::grid::{Coordinator, ask, refused};
use crate::report::{complain, print_bytes, tell};
use crate::show;

/// Where files are fetched to, with whose help.
#[derive(Clone, Copy)]
pub(crate) struct Folder<'a> {
    pub path: &'a Path,
    pub coordinator: &'a str,
    pub quiet: bool,
}

impl<'a> Folder<'a> {
    pub fn of(path: Option<&'a Path>, coordinator: &'a str, quiet: bool) -> Option<Self> {
        path.map(|path| Self { path, coordinator, quiet })
    }

    /// Where files of an element go.
    fn of_element(&self, path: &str) -> Result<PathBuf, Exit> {
        let below = Path::new(path);
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        match plain && !path.is_empty() {
            true => Ok(self.path.join(below)),
            false => Err(complain(&format!("{path:?} is no path of an element"))),
        }
    }
}

/// Prints one line for each element that gives something, until the process has ended. Files that cannot be fetched are
/// told, and do not end it.
pub(crate) async fn stream(
    client: &mut Coordinator,
    process: &str,
    folder: Option<Folder<'_>>,
    format: Format,
) -> Result<Exit, Exit> {
    let mut parts = ask(client.outputs(v1::OutputsRequest { process: process.to_owned(), exact: false })).await?;
    let mut whole = Assembler::<v1::Output>::new(MAX_RESULTS_BYTES);
    let mut exit = Exit::Success;
    while let Some(part) = parts.message().await.map_err(|status| refused(&status))? {
        let Some(mut output) = whole.add(part).map_err(|unfit| refused(&unfit.into()))? else { continue };
        if output.missed > 0 {
            tell(&format!("{} outputs before {} were missed\n", output.missed, output.path));
        }
        if let Some(folder) = folder {
            let below = folder.of_element(&output.path)?;
            let relays: Vec<&str> =
                [folder.coordinator].into_iter().chain(output.relays.iter().map(String::as_str)).collect();
            let fetched = files::download(&mut output.results, &below, &relays, folder.quiet).await;
            exit = fetched.err().unwrap_or(exit);
        }
        let line = match format {
            Format::Json => json(&output).to_string(),
            Format::Text => text(&output),
        };
        print_bytes(format!("{line}\n").as_bytes())?;
    }
    Ok(exit)
}

fn collected(output: &v1::Output) -> Option<Json> {
    let collected = output.collected.clone()?;
    Some(value_from(collected).map_or(Json::Null, |value| value.to_json()))
}

/// For scripts: one object.
fn json(output: &v1::Output) -> Json {
    let mut line = json!({ "path": output.path });
    if !output.results.is_empty() {
        line["results"] = json!(show::results(&output.results));
    }
    if let Some(collected) = collected(output) {
        line["collected"] = collected;
    }
    if output.reused {
        line["reused"] = json!(true);
    }
    if output.missed > 0 {
        line["missed"] = json!(output.missed);
    }
    line
}

/// For people.
fn text(output: &v1::Output) -> String {
    let results = show::results(&output.results);
    let mut values: Vec<String> = results.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    values.extend(collected(output).map(|value| format!("collected {value}")));
    let reused = if output.reused { "  (reused)" } else { "" };
    format!("{}  {}{reused}", output.path, values.join(", "))
}

#[cfg(test)]
mod tests {
    use xavantes_model::value::Value;
    use xavantes_proto::value;

    use super::*;

    #[test]
    fn an_output_is_one_line() {
        let results = vec![v1::Parameter { name: "n".into(), value: Some(value(&Value::from("a\nb"))) }];
        let output = v1::Output { path: "P-1/a".into(), results, reused: true, missed: 2, ..v1::Output::default() };
        assert_eq!(text(&output), "P-1/a  n = \"a\\nb\"  (reused)");
        assert_eq!(json(&output), json!({"path": "P-1/a", "results": {"n": "a\nb"}, "reused": true, "missed": 2}));
        let collected = Some(value(&Value::Int(7)));
        let output = v1::Output { path: "P-1/all/[3]".into(), collected, ..v1::Output::default() };
        assert_eq!(text(&output), "P-1/all/[3]  collected 7");
        assert_eq!(json(&output), json!({"path": "P-1/all/[3]", "collected": 7}));
    }

    #[test]
    fn files_stay_in_their_folder() {
        let folder = Folder { path: Path::new("/to"), coordinator: "a:1", quiet: true };
        assert_eq!(folder.of_element("P-1/all/[3]/a"), Ok("/to/P-1/all/[3]/a".into()));
        for wrong in ["", "/etc", "P/../../etc", ".."] {
            assert_eq!(folder.of_element(wrong), Err(Exit::Usage), "{wrong}");
        }
    }
}
