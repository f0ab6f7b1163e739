//! Names in code: what each means in its scope, whether it may be assigned there, and how its value gets in and out.

use std::collections::{HashMap, HashSet};

use super::grammar::Tag;
use super::names::{Found, Names};
use super::{MOST_CANDIDATES, summary_name};
use crate::definition::{Direction, Input, NodeId, Script, Summary, Target, Variable};
use crate::diagnostic::did_you_mean;
use crate::script::{BUILTINS, Code, Form, MAX_NAMES, NameUse, Port};
use crate::value::SharedKind;

/// Something wrong in a script, at bytes of its text. Advice is computed when asked for.
pub(super) struct Problem<'a> {
    pub code: &'static str,
    pub at: std::ops::Range<usize>,
    pub message: String,
    /// It is about an assignment, so what the script sets is not quite known.
    pub write: bool,
    pub help: Box<dyn FnOnce() -> Option<String> + 'a>,
}

/// Names found without declaring them in the code of processes.
fn is_builtin(name: &str) -> bool {
    BUILTINS.contains(&name) || SharedKind::ALL.iter().any(|kind| kind.type_name() == name)
}

/// Collects what scripts with one set of inputs take in and give out.
pub(super) struct Resolver<'a, N> {
    names: &'a N,
    scope: NodeId,
    form: Form,
    summaries: &'a [Summary],
    inputs: Vec<Input>,
    ports: Vec<Port>,
    outputs: Vec<(Target, Port)>,
    /// Position of a port.
    known: HashMap<(String, Option<String>), usize>,
    /// Ports that are outputs already.
    written: HashSet<usize>,
    complained: HashSet<(String, Option<String>, bool)>,
    /// Elements whose parameters are read.
    pub read: Vec<NodeId>,
}

/// A script is more than it can be.
pub(super) struct TooMuch {
    pub code: &'static str,
    pub message: String,
    pub help: &'static str,
}

type Outcome<'a> = Result<(), Problem<'a>>;

impl<'a, N: Names> Resolver<'a, N> {
    /// For scripts that run in `scope`.
    pub fn new(names: &'a N, scope: NodeId, form: Form, summaries: &'a [Summary]) -> Self {
        Self {
            names,
            scope,
            form,
            summaries,
            inputs: Vec::new(),
            ports: Vec::new(),
            outputs: Vec::new(),
            known: HashMap::new(),
            written: HashSet::new(),
            complained: HashSet::new(),
            read: Vec::new(),
        }
    }

    /// Resolves the names of a text. Each thing that is wrong is told once.
    pub fn take(&mut self, uses: &[NameUse]) -> Vec<Problem<'a>> {
        let replaced: HashSet<&str> =
            uses.iter().filter(|it| it.write && it.field.is_none()).map(|it| it.name.as_str()).collect();
        let mut problems = Vec::new();
        for name_use in uses {
            if let Err(problem) = self.resolve(name_use, replaced.contains(name_use.name.as_str())) {
                let field = name_use.field.as_ref().map(|(field, _)| field.clone());
                if self.complained.insert((name_use.name.clone(), field, name_use.write)) {
                    problems.push(problem);
                }
            }
        }
        problems
    }

    fn resolve(&mut self, it: &NameUse, replaced: bool) -> Outcome<'a> {
        let name = it.name.as_str();
        if it.write && self.form == Form::Expression {
            return problem("bad-assignment", it, "an expression cannot assign anything".into(), || {
                Some("assign in PRE_CODE or POST_CODE".into())
            });
        }
        if let Some(summary) = self.summaries.iter().find(|summary| summary_name(**summary) == name) {
            if it.write {
                return problem("bad-assignment", it, format!("{name:?} is counted, not assigned"), || {
                    Some("declare a variable of another name".into())
                });
            }
            self.port(name, None, Input::Summary(*summary));
            return Ok(());
        }
        match self.names.find(name) {
            Some(Found::Variable { node, slot }) => self.variable(it, node, slot, replaced),
            Some(Found::Element { scope, element }) => self.element(it, scope, element),
            None if is_builtin(name) && !it.write => Ok(()),
            None => self.unknown(it),
        }
    }

    fn port(&mut self, name: &str, field: Option<&str>, input: Input) -> usize {
        let key = (name.to_owned(), field.map(str::to_owned));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let position = self.ports.len();
        self.ports.push(Port { name: name.into(), field: field.map(Into::into) });
        self.inputs.push(input);
        self.known.insert(key, position);
        position
    }

    fn output(&mut self, port: usize, target: Target) {
        if self.written.insert(port) {
            self.outputs.push((target, self.ports[port].clone()));
        }
    }

    fn variable(&mut self, it: &NameUse, node: NodeId, slot: u32, replaced: bool) -> Outcome<'a> {
        if it.write {
            self.may_assign(it, node, slot)?;
            if it.field.is_some() && !replaced {
                let name = it.name.clone();
                return problem(
                    "bad-assignment",
                    it,
                    format!("the value of {name:?} cannot be changed in place"),
                    move || Some(format!("make a copy first: {name} = table.clone({name})")),
                );
            }
        }
        let port = self.port(&it.name, None, Input::Variable { node, slot });
        if it.write {
            self.output(port, Target::Variable { node, slot });
        }
        Ok(())
    }

    fn tag(&self, node: NodeId) -> Option<Tag> {
        Tag::from_name(self.names.nodes()[node.index()].tag)
    }

    fn may_assign(&self, it: &NameUse, node: NodeId, slot: u32) -> Outcome<'a> {
        let nodes = self.names.nodes();
        let variable = &nodes[node.index()].variables[slot as usize];
        let name = &it.name;
        if variable.direction == Direction::Local {
            return problem(
                "bad-assignment",
                it,
                format!("{name:?} is set by the engine and can only be read"),
                || Some("copy it: local copy = …".into()),
            );
        }
        let parent = nodes[self.scope.index()].parent;
        let outer = parent.and_then(|parent| self.tag(parent));
        let body = matches!(
            (self.tag(self.scope), outer),
            (Some(Tag::Catch | Tag::Finally), _)
                | (Some(Tag::Iterate), Some(Tag::For | Tag::While))
                | (Some(Tag::Case | Tag::Default), Some(Tag::Switch))
        );
        if node == self.scope || (body && parent == Some(node)) {
            return Ok(());
        }
        let owner = nodes[node.index()].tag;
        let message = format!("{name:?} belongs to the {owner} around and cannot be assigned here");
        let help = match outer {
            Some(Tag::ParFor | Tag::ParWhile) if parent == Some(node) => {
                "iterations run in parallel: use COLLECT or a shared object"
            }
            Some(Tag::ParSwitch) if parent == Some(node) => "cases run in parallel: use a shared object",
            _ => {
                "code assigns to what its own scope declares and to parameters of the elements in it: \
                 declare an OUT_PARAMETER here, and take it over in the POST_CODE around"
            }
        };
        problem("bad-assignment", it, message, move || Some(help.into()))
    }

    fn element(&mut self, it: &NameUse, scope: NodeId, element: NodeId) -> Outcome<'a> {
        let name = it.name.as_str();
        let signature = self.names.signature(element);
        let Some((field, at)) = &it.field else {
            let code = if it.write { "bad-assignment" } else { "element-as-value" };
            let wanted = if it.write { Direction::In } else { Direction::Out };
            let example = signature.and_then(|signature| signature.iter().find(|known| known.direction == wanted));
            let example = format!("{name}.{}", example.map_or("parameter", |variable| &variable.name));
            return problem(code, it, format!("{name:?} is an element, and an element is not a value"), move || {
                Some(format!("write {example}"))
            });
        };
        // What is wrong with its type was said where it is used.
        let Some(signature) = signature else { return Ok(()) };
        let Some(slot) = self.names.slot(element, field) else {
            let message = format!("{name:?} has no parameter {field:?}");
            let (field, at) = (field.clone(), at.clone());
            let help = move || parameter_help(&field, signature.iter());
            return Err(Problem { code: "unknown-parameter", at, message, write: it.write, help: Box::new(help) });
        };
        if it.write {
            let direction = signature[slot as usize].direction;
            if scope != self.scope {
                let owner = self.names.nodes()[scope.index()].tag;
                let message = format!("{name:?} belongs to the {owner} around: its parameters cannot be assigned here");
                return problem("bad-assignment", it, message, move || {
                    Some(format!("assign them in the PRE_CODE of that {owner}"))
                });
            }
            if !direction.is_in() {
                let message = format!("{field:?} is a result of {name:?} and cannot be assigned");
                return problem("bad-assignment", it, message, || {
                    Some("only IN and INOUT parameters are given to an element".into())
                });
            }
        }
        let port = self.port(name, Some(field), Input::Element { scope, element, slot });
        if it.write {
            self.output(port, Target::Element { element, slot });
        }
        if it.read {
            self.read.push(element);
        }
        Ok(())
    }

    fn unknown(&self, it: &NameUse) -> Outcome<'a> {
        let name = it.name.clone();
        if it.write {
            let message = match is_builtin(&name) {
                true => format!("{name:?} is built in and cannot be assigned"),
                false => format!("{name:?} is not declared, so it cannot be assigned"),
            };
            let names = self.names;
            return problem("unknown-name", it, message, move || {
                did_you_mean(&name, names.some())
                    .or_else(|| Some(format!("declare it as a parameter, or make it local: local {name} = …")))
            });
        }
        let (names, summaries) = (self.names, self.summaries);
        problem("unknown-name", it, format!("there is no {name:?} here"), move || {
            if Summary::ALL.iter().any(|(known, _)| *known == name) {
                return Some(summary_help(&name));
            }
            let shared = SharedKind::ALL.iter().map(|kind| kind.type_name());
            let counted = summaries.iter().map(|summary| summary_name(*summary));
            did_you_mean(&name, names.some().into_iter().chain(BUILTINS).chain(shared).chain(counted))
                .or_else(|| Some("declare it as a parameter, or make it local".into()))
        })
    }

    fn count_locals(&self) -> usize {
        let tables: HashSet<&str> =
            self.ports.iter().filter(|port| port.field.is_some()).map(|port| &*port.name).collect();
        self.ports.len() + tables.len()
    }

    /// Expressions with their names resolved.
    pub fn expressions<T: AsRef<str>>(self, texts: &[T], line: u32) -> Result<Script, TooMuch> {
        check_count(self.ports.len(), self.count_locals(), texts.len())?;
        let code = Code::expressions(texts, line, &self.ports);
        check_code(&code)?;
        Ok(Script { code, inputs: self.inputs, outputs: Vec::new(), line })
    }

    /// Statements with their names resolved.
    pub fn statements(self, text: &str, line: u32) -> Result<Script, TooMuch> {
        check_count(self.ports.len(), self.count_locals(), self.outputs.len())?;
        let (outputs, ports): (Vec<Target>, Vec<Port>) = self.outputs.into_iter().unzip();
        let code = Code::statements(text, line, &self.ports, &ports);
        check_code(&code)?;
        Ok(Script { code, inputs: self.inputs, outputs, line })
    }
}

/// Luau functions have at most 200 locals and 255 registers; some are left for computing.
const MAX_LOCALS: usize = 190;
const MAX_REGISTERS: usize = 230;

/// Checks that a script does not take and give more than it can hold. An element takes a local besides those for its
/// parameters.
pub(super) fn check_count(ports: usize, locals: usize, results: usize) -> Result<(), TooMuch> {
    match ports > MAX_NAMES || locals > MAX_LOCALS || locals + results > MAX_REGISTERS {
        true => Err(TooMuch {
            code: "too-many-names",
            message: format!(
                "the code takes {ports} names from outside and gives {results} values, which is more than it can hold"
            ),
            help: "keep values that belong together in one list or map",
        }),
        false => Ok(()),
    }
}

/// Checks that code in which nothing is wrong is not more than Luau can hold, with all that we write around it.
pub(super) fn check_code(code: &Code) -> Result<(), TooMuch> {
    let verdict = if code.is_large() { code.verify() } else { Ok(()) };
    verdict.map_err(|message| TooMuch { code: "lua-syntax", message, help: "do less in one piece of code" })
}

fn problem<'a>(
    code: &'static str,
    it: &NameUse,
    message: String,
    help: impl FnOnce() -> Option<String> + 'a,
) -> Outcome<'a> {
    let end = it.field.as_ref().map_or(it.at.end, |(_, at)| if it.write { at.end } else { it.at.end });
    Err(Problem { code, at: it.at.start..end, message, write: it.write, help: Box::new(help) })
}

/// Which parameter was meant, or which there are.
pub(super) fn parameter_help<'v>(
    written: &str,
    parameters: impl Iterator<Item = &'v Variable> + Clone,
) -> Option<String> {
    const SHOWN: usize = 12;
    let meant = did_you_mean(written, parameters.clone().take(MOST_CANDIDATES).map(|variable| &*variable.name));
    meant.or_else(|| {
        let names: Vec<&str> = parameters.take(SHOWN + 1).map(|variable| &*variable.name).collect();
        match names.len() {
            0 => Some("it has no parameters".into()),
            1..=SHOWN => Some(format!("it has {}", names.join(", "))),
            _ => Some(format!("it has {}, …", names[..SHOWN].join(", "))),
        }
    })
}

fn summary_help(name: &str) -> String {
    match name {
        "results" => "only the EXIT_CONDITION, CONDITION and POST_CODE of a loop with COLLECT can use it".into(),
        "counter" => "only an ITERATE, and the CONDITION of a WHILE or PARWHILE, can use it".into(),
        "running" => "only the EXIT_CONDITION and CONDITION of a loop or parallel controller can use it".into(),
        _ => "only the EXIT_CONDITION, CONDITION and POST_CODE of a loop or parallel controller can use it".into(),
    }
}
