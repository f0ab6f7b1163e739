//! `xavantes validate`: every problem at once, with the source line and a marker, or as JSON for editors.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value as Json, json};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::{Diagnostic, LineIndex, Source};
use xavantes_model::{load, xml};

use crate::Exit;
use crate::args::{Format, ValidateArgs};
use crate::report::{complain, print, tell};

/// Reads documents; on failure every one that cannot be read has been told.
pub(crate) fn read_files<P: AsRef<Path>>(files: &[P]) -> Result<Vec<Source>, Exit> {
    let mut sources = Vec::with_capacity(files.len());
    let mut unreadable = Ok(());
    for file in files {
        match read(file.as_ref()) {
            Ok(source) => sources.push(source),
            Err(message) => unreadable = Err(complain(&message)),
        }
    }
    unreadable.map(|()| sources)
}

/// Loads documents; on failure everything that is wrong has been told.
pub(crate) fn load_sources(sources: &[Source], format: Format) -> Result<Program, Exit> {
    load::load(sources).map_err(|diagnostics| {
        match format {
            Format::Text => tell(&text(sources, &diagnostics)),
            Format::Json => {
                print(&json(sources, &diagnostics).to_string());
            }
        }
        Exit::Usage
    })
}

pub(crate) fn validate(arguments: &ValidateArgs, format: Format) -> Exit {
    match read_files(&arguments.files).and_then(|sources| load_sources(&sources, format)) {
        Ok(_) if format == Format::Json => print(&json(&[], &[]).to_string()),
        Ok(_) => Exit::Success,
        Err(exit) => exit,
    }
}

fn read(file: &Path) -> Result<Source, String> {
    // One byte more than accepted tells that there is too much, without reading all of it.
    let most = xml::MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let stdin = file == Path::new("-");
    let name = if stdin { "<stdin>".into() } else { file.display().to_string() };
    let read = match stdin {
        true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|open| open.take(most).read_to_end(&mut bytes)),
    };
    read.map_err(|error| format!("cannot read {name}: {error}"))?;
    if bytes.len() > xml::MAX_BYTES {
        return Err(format!("{name} is larger than {} MiB", xml::MAX_BYTES >> 20));
    }
    let text = xml::decode(&bytes).map_err(|(offset, message)| format!("{name}: byte {offset}: {message}"))?;
    Ok(Source { name: name.into(), text: Arc::from(text) })
}

fn text(sources: &[Source], diagnostics: &[Diagnostic]) -> String {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let lines: Vec<LineIndex> = sources.iter().map(|source| LineIndex::new(&source.text)).collect();
    let mut shown = String::new();
    for found in diagnostics {
        let (source, lines) = (&sources[found.span.source], &lines[found.span.source]);
        // Only the line of the problem: the renderer would scan the whole text for each one.
        let line = lines.line(found.span.bytes.start);
        let start = lines.start_of(line);
        let length = source.text[start..].find('\n').unwrap_or(source.text.len() - start);
        let (content, from, to) = window(
            &source.text[start..start + length],
            found.span.bytes.start - start,
            found.span.bytes.end.saturating_sub(start),
        );
        let snippet = Snippet::source(content)
            .path(&*source.name)
            .line_start(line as usize)
            .annotation(AnnotationKind::Primary.span(from..to));
        let title = Level::ERROR.primary_title(&*found.message).id(found.code);
        let mut group = Group::with_title(title).element(snippet);
        if let Some(help) = &found.help {
            group = group.element(Level::HELP.message(&**help));
        }
        shown.push_str(&renderer.render(&[group]));
        shown.push_str("\n\n");
    }
    let (problems, noun) = (diagnostics.len(), if diagnostics.len() == 1 { "problem" } else { "problems" });
    shown.push_str(&format!("{problems} {noun}\n"));
    shown
}

/// The line and the marked bytes in it, at least one character of it.
fn window(line: &str, from: usize, to: usize) -> (&str, usize, usize) {
    let line = line.trim_end_matches('\r');
    let from = from.min(line.len());
    let next = line[from..].chars().next().map_or(from, |c| from + c.len_utf8());
    (line, from, to.clamp(next, line.len().max(next)))
}

fn json(sources: &[Source], diagnostics: &[Diagnostic]) -> Json {
    let lines: Vec<LineIndex> = sources.iter().map(|source| LineIndex::new(&source.text)).collect();
    let problems: Vec<Json> = diagnostics
        .iter()
        .map(|found| {
            let (source, lines) = (&sources[found.span.source], &lines[found.span.source]);
            json!({
                "file": source.name,
                "start": lines.position(&source.text, found.span.bytes.start),
                "end": lines.position(&source.text, found.span.bytes.end),
                "code": found.code,
                "message": found.message,
                "help": found.help,
            })
        })
        .collect();
    json!({ "valid": problems.is_empty(), "problems": problems })
}
