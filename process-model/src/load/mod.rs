//! From documents to a checked [`Program`], or everything that is wrong with them.
//!
//! Types may be used before they are defined and across documents, so all signatures are collected first. Then each
//! type is built in two steps: its nodes with their variables, and after that their code, which can name any of them.

mod activity;
mod after;
mod attributes;
mod bindings;
mod compile;
mod elements;
mod files;
mod grammar;
mod literals;
mod names;
mod parameters;
mod scope;
mod scripts;
mod template;

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::definition::{NodeId, ProcessType, Program, Script, Summary};
use crate::diagnostic::{Diagnostic, LineIndex, Source, Span, did_you_mean};
use crate::script::{self, Form, NameUse, SyntaxError};
use crate::xml;
use attributes::PolicyParts;
use grammar::Tag;
pub use literals::duration;
use parameters::Parameters;

/// More findings than this help nobody.
const MOST_FINDINGS: usize = 200;
/// Most pieces of code in one document, without those that are just a name. It bounds time: each of them takes some
/// ten microseconds to check, although it may be written with only four bytes.
const MOST_CODE: usize = 200_000;
/// So many names are looked through for one that was meant.
const MOST_CANDIDATES: usize = 1000;

/// Reads and checks documents that belong together. The error is everything that is wrong with them, in order.
pub fn load(sources: &[Source]) -> Result<Program, Vec<Diagnostic>> {
    let mut report = Report::default();
    let mut types = Types { complete: true, ..Types::default() };
    let mut documents = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        match xml::parse(index, &source.text) {
            Ok(tree) => {
                let (lines, code) = (LineIndex::new(&source.text), Cell::new(0));
                documents.push(Document { index, tree, lines, code });
            }
            Err(found) => {
                types.complete = false;
                found.into_iter().for_each(|diagnostic| report.take(diagnostic));
            }
        }
    }
    for (position, document) in documents.iter().enumerate() {
        match grammar::check(document, &mut report) {
            true => types.collect(document, position, &mut report),
            false => types.complete = false,
        }
    }
    let mut program =
        Program { sources: sources.iter().map(|source| source.name.clone()).collect(), ..Program::default() };
    for info in &types.activities {
        let document = &documents[info.document];
        program.activities.extend(activity::build(document, info, &mut report));
    }
    for info in &types.processes {
        let document = &documents[info.document];
        if let Some(body) = grammar::child(document, info.node, Tag::Body) {
            let skeleton = elements::build(document, &types, info, body, &mut report);
            let nodes = scripts::link(document, &types, skeleton, &mut report);
            let parameters = info.parameters.variables.len();
            let (name, source, line) = (info.name.clone(), document.index, info.line);
            program.processes.push(ProcessType { name, source, line, parameters, nodes });
        }
        if report.is_full() {
            break;
        }
    }
    report.finish().map(|()| program)
}

/// Compiles another `EXIT_CONDITION` for a parallel controller; it sees the same names as one in the document.
pub fn condition_override(program: &Program, process: usize, node: NodeId, text: &str) -> Result<Script, String> {
    let nodes = program.processes.get(process).map_or(&[][..], |process| &process.nodes);
    let Some(controller) = nodes.get(node.index()).filter(|node| node.kind.parallel().is_some()) else {
        return Err("only parallel controllers have an exit condition".into());
    };
    let finished = names::Finished { program, process, scope: node };
    let summaries = names::summaries(
        Tag::from_name(controller.tag).unwrap_or(Tag::Par),
        controller.kind.collect().is_some(),
        names::Moment::Exit,
    );
    let uses = script::check(text, Form::Expression).map_err(|error| error.message)?;
    let mut resolver = scope::Resolver::new(&finished, node, Form::Expression, &summaries);
    if let Some(problem) = resolver.take(&uses).into_iter().next() {
        return Err(match (problem.help)() {
            Some(help) => format!("{}: {help}", problem.message),
            None => problem.message,
        });
    }
    resolver.expressions(&[text], controller.line).map_err(|too_much| too_much.message)
}

/// What is wrong so far.
#[derive(Default)]
struct Report {
    found: Vec<Diagnostic>,
    left_out: Option<Diagnostic>,
}

impl Report {
    fn is_full(&self) -> bool {
        self.left_out.is_some()
    }

    fn take(&mut self, mut diagnostic: Diagnostic) {
        if self.found.len() < MOST_FINDINGS {
            diagnostic.message = presentable(diagnostic.message);
            diagnostic.help = diagnostic.help.map(presentable);
            self.found.push(diagnostic);
        } else if self.left_out.is_none() {
            let message = format!("there are more than {MOST_FINDINGS} problems; the others are not shown");
            self.left_out = Some(
                Diagnostic::new("too-many", diagnostic.span, message).help("correct some of these and check again"),
            );
        }
    }

    /// Advice is only thought about when it will be seen.
    fn add(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl FnOnce() -> Option<String>,
    ) {
        let help = if self.found.len() < MOST_FINDINGS { help() } else { None };
        self.take(Diagnostic { help, ..Diagnostic::new(code, span, message) });
    }

    fn finish(mut self) -> Result<(), Vec<Diagnostic>> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|diagnostic| (diagnostic.span.source, diagnostic.span.bytes.start));
        self.found.extend(self.left_out);
        Err(self.found)
    }
}

/// What is told may quote what an author wrote: it may be long, and contain characters that move the cursor or turn
/// the direction of a line.
fn presentable(text: String) -> String {
    const LONGEST: usize = 500;
    let unseen = |c: char| {
        c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    if text.len() <= LONGEST && !text.contains(unseen) {
        return text;
    }
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        match c {
            _ if index == LONGEST => {
                shown.push('…');
                break;
            }
            c if unseen(c) => shown.extend(c.escape_debug()),
            c => shown.push(c),
        }
    }
    shown
}

/// A well-formed document.
struct Document {
    /// Its position among the sources.
    index: usize,
    tree: xml::Tree,
    lines: LineIndex,
    /// How many pieces of code were checked so far.
    code: Cell<usize>,
}

impl Document {
    fn span(&self, bytes: &Range<usize>) -> Span {
        Span::new(self.index, bytes.clone())
    }

    fn line(&self, node: xml::ElementId) -> u32 {
        self.lines.line(self.tree.element(node).span.start)
    }

    /// The free names of a piece of code. Most expressions are one name, for which no parser is needed.
    fn uses(&self, text: &str, form: Form) -> Result<Vec<NameUse>, SyntaxError> {
        if let (Form::Expression, Some(single)) = (form, names::single_name(text)) {
            return Ok(vec![single]);
        }
        self.code.set(self.code.get() + 1);
        if self.code.get() > MOST_CODE {
            let message = format!("the document has more than {MOST_CODE} pieces of code");
            return Err(SyntaxError { message, at: 0..text.len() });
        }
        script::check(text, form)
    }
}

/// What is known of a type before it is built.
struct TypeInfo {
    name: Arc<str>,
    /// Position among the documents that could be read.
    document: usize,
    node: xml::ElementId,
    line: u32,
    parameters: Parameters,
    policy: PolicyParts,
}

/// The types of all documents.
#[derive(Default)]
struct Types {
    processes: Vec<TypeInfo>,
    activities: Vec<TypeInfo>,
    process_names: HashMap<Arc<str>, usize>,
    activity_names: HashMap<Arc<str>, usize>,
    /// Every document could be read, so a type that is not here does not exist.
    complete: bool,
}

impl Types {
    fn collect(&mut self, document: &Document, position: usize, report: &mut Report) {
        for (tag, node) in grammar::children(document, document.tree.root(), Tag::Xavantes) {
            let element = document.tree.element(node);
            let name: Arc<str> = element.attribute("NAME").map_or("", |name| &name.value.value).into();
            let (infos, names) = match tag {
                Tag::ProcessType => (&mut self.processes, &mut self.process_names),
                _ => (&mut self.activities, &mut self.activity_names),
            };
            if let Some(attribute) = element.attribute("NAME") {
                let span = document.span(&attribute.value_span);
                if let Err((message, help)) = literals::check_type_name(&name) {
                    report.add("bad-name", span, message, || Some(help.into()));
                } else if names.contains_key(&name) {
                    let message = format!("there are two {}s {name:?}", tag.name());
                    report.add("duplicate-name", span, message, || Some("rename one of them".into()));
                } else {
                    names.insert(name.clone(), infos.len());
                }
            }
            let mut parameters = Parameters::default();
            parameters.read(document, node, tag, report);
            if tag == Tag::ActivityType {
                parameters.reserve("attempt", "the number of the attempt in every activity", document, report);
            }
            let policy = PolicyParts::read(document, node, report);
            let line = document.line(node);
            infos.push(TypeInfo { name, document: position, node, line, parameters, policy });
        }
    }

    /// The type that an `ACTIVITY` or `PROCESS` names.
    fn find(&self, document: &Document, node: xml::ElementId, tag: Tag, report: &mut Report) -> Option<usize> {
        let attribute = document.tree.element(node).attribute("TYPE")?;
        let wanted = attribute.value.value.as_str();
        let activity = tag == Tag::Activity;
        let (names, others) = match activity {
            true => (&self.activity_names, &self.process_names),
            false => (&self.process_names, &self.activity_names),
        };
        let found = names.get(wanted).copied();
        if found.is_none() && self.complete {
            let (kind, other) =
                if activity { ("activity type", Tag::Process) } else { ("process type", Tag::Activity) };
            let message = format!("there is no {kind} {wanted:?}");
            report.add("unknown-type", document.span(&attribute.value_span), message, || {
                if others.contains_key(wanted) {
                    return Some(format!("it is started by {}", other.name()));
                }
                // In the order of the documents, so that the same error always gets the same advice.
                let infos = if activity { &self.activities } else { &self.processes };
                did_you_mean(wanted, infos.iter().take(MOST_CANDIDATES).map(|info| &*info.name))
            });
        }
        found
    }
}

/// All that code may ask in `summaries` has a name.
fn summary_name(summary: Summary) -> &'static str {
    Summary::ALL.iter().find(|(_, known)| *known == summary).map_or("", |(name, _)| name)
}
