//! Resolves the names of a script: the meaning of each in its scope, whether the script may assign it, and which
//! argument or result carries its value.

use std::collections::{HashMap, HashSet};

use super::forwards::hidden;
use super::scope::{CodePlace, NameMeaning, Names, element_around};
use crate::definition::{DefinitionNodeId, Direction, LoopSummary, Script, ScriptInput, ScriptTarget, Variable};
use crate::diagnostic::did_you_mean;
use crate::load::code_limits::{check_code, check_count};
use crate::load::grammar::Tag;
use crate::load::problem::{CodeTooLarge, LoadProblem};
use crate::load::report::MAX_CANDIDATES;
use crate::script::{BUILTINS, Code, Form, NameUse, Port};
use crate::value::SharedKind;

/// True for names that the code of processes can use without a declaration.
fn is_builtin(name: &str) -> bool {
    BUILTINS.contains(&name) || SharedKind::ALL.iter().any(|kind| kind.type_name() == name)
}

/// Collects the inputs and outputs of scripts that share one set of inputs.
pub(super) struct Resolver<'a, N> {
    names: &'a N,
    scope: DefinitionNodeId,
    form: Form,
    summaries: &'a [LoopSummary],
    place: CodePlace,
    inputs: Vec<ScriptInput>,
    ports: Vec<Port>,
    outputs: Vec<(ScriptTarget, Port)>,
    /// Positions of the ports.
    known: HashMap<(String, Option<String>), usize>,
    /// Ports that are outputs.
    written: HashSet<usize>,
    /// Names that a problem was already found with.
    complained: HashSet<(String, Option<String>, bool)>,
    /// The warning about the name that is being resolved.
    warning: Option<LoadProblem<'a>>,
    /// Elements whose parameters the scripts read.
    pub read: Vec<DefinitionNodeId>,
}

type Resolution<'a> = Result<(), LoadProblem<'a>>;

impl<'a, N: Names> Resolver<'a, N> {
    /// Makes a resolver for scripts that run in `scope`.
    pub fn new(
        names: &'a N,
        scope: DefinitionNodeId,
        form: Form,
        summaries: &'a [LoopSummary],
        place: CodePlace,
    ) -> Self {
        Self {
            names,
            scope,
            form,
            summaries,
            place,
            inputs: Vec::new(),
            ports: Vec::new(),
            outputs: Vec::new(),
            known: HashMap::new(),
            written: HashSet::new(),
            complained: HashSet::new(),
            warning: None,
            read: Vec::new(),
        }
    }

    /// Resolves the names of a text. Returns each problem once.
    pub fn resolve_all(&mut self, uses: &[NameUse]) -> Vec<LoadProblem<'a>> {
        let replaced: HashSet<&str> =
            uses.iter().filter(|it| it.write && it.field.is_none()).map(|it| it.name.as_str()).collect();
        let mut problems = Vec::new();
        for name_use in uses {
            let wrong = self.resolve(name_use, replaced.contains(name_use.name.as_str())).err();
            for problem in wrong.into_iter().chain(self.warning.take()) {
                let field = name_use.field.as_ref().map(|(field, _)| field.clone());
                if self.complained.insert((name_use.name.clone(), field, name_use.write)) {
                    problems.push(problem);
                }
            }
        }
        problems
    }

    fn resolve(&mut self, it: &NameUse, replaced: bool) -> Resolution<'a> {
        let name = it.name.as_str();
        if it.write && self.form == Form::Expression {
            return problem("bad-assignment", it, "an expression cannot assign anything".into(), || {
                Some("assign in PRE_CODE or POST_CODE".into())
            });
        }
        if let Some(summary) = self.summaries.iter().find(|summary| summary.name() == name) {
            if it.write {
                return problem(
                    "bad-assignment",
                    it,
                    format!("the controller counts {name:?}, so code cannot assign it"),
                    || Some("declare a variable with another name".into()),
                );
            }
            self.port(name, None, ScriptInput::LoopSummary(*summary));
            return Ok(());
        }
        match self.names.find(name) {
            Some(NameMeaning::Variable { node, slot }) => self.variable(it, node, slot, replaced),
            Some(NameMeaning::Element { scope, element }) => self.element(it, scope, element),
            None if is_builtin(name) && !it.write => Ok(()),
            None => self.unknown(it),
        }
    }

    fn port(&mut self, name: &str, field: Option<&str>, input: ScriptInput) -> usize {
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

    fn output(&mut self, port: usize, target: ScriptTarget) {
        if self.written.insert(port) {
            self.outputs.push((target, self.ports[port].clone()));
        }
    }

    fn variable(&mut self, it: &NameUse, node: DefinitionNodeId, slot: u32, replaced: bool) -> Resolution<'a> {
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
        let port = self.port(&it.name, None, ScriptInput::Variable { node, slot });
        if it.write {
            self.output(port, ScriptTarget::Variable { node, slot });
        }
        Ok(())
    }

    fn tag(&self, node: DefinitionNodeId) -> Option<Tag> {
        Tag::from_name(self.names.nodes()[node.index()].tag)
    }

    fn may_assign(&self, it: &NameUse, node: DefinitionNodeId, slot: u32) -> Resolution<'a> {
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
        let message = format!("{name:?} belongs to the {owner} around this code and cannot be assigned here");
        let help = match outer {
            Some(Tag::ParFor | Tag::ParWhile) if parent == Some(node) => {
                "iterations run in parallel: use COLLECT or a shared object"
            }
            Some(Tag::ParSwitch) if parent == Some(node) => "cases run in parallel: use a shared object",
            _ => {
                "code can assign the variables of its own scope and the parameters of the elements in it: \
                 declare an OUT_PARAMETER here, and read it in the POST_CODE around"
            }
        };
        problem("bad-assignment", it, message, move || Some(help.into()))
    }

    fn element(&mut self, it: &NameUse, scope: DefinitionNodeId, element: DefinitionNodeId) -> Resolution<'a> {
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
        // An unknown type was already reported where the element names it.
        let Some(signature) = signature else { return Ok(()) };
        let Some(slot) = self.names.slot(element, field) else {
            if let Some(inner) = self.step(element, field).filter(|_| !it.write) {
                return self.nested(it, scope, element, inner);
            }
            if let Some(problem) = self.unreachable(it, element, name, field) {
                return Err(problem);
            }
            let message = format!("{name:?} has no parameter {field:?}");
            let (field, at) = (field.clone(), at.clone());
            let help = move || parameter_help(&field, signature.iter());
            return Err(LoadProblem {
                code: "unknown-parameter",
                at,
                message,
                write: it.write,
                warning: false,
                help: Box::new(help),
            });
        };
        if it.write {
            let direction = signature[slot as usize].direction;
            if scope != self.scope {
                let owner = self.names.nodes()[scope.index()].tag;
                let message =
                    format!("{name:?} belongs to the {owner} around this code: its parameters cannot be assigned here");
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
        if it.read && signature[slot as usize].direction == Direction::Out {
            self.check_order(it, scope, element);
        }
        let port = self.port(name, Some(field), ScriptInput::Element { scope, element, slot });
        if it.write {
            self.output(port, ScriptTarget::Element { element, slot });
        }
        if it.read {
            self.read.push(element);
        }
        Ok(())
    }

    /// Resolves `name.inner.result`: a result of an element in a controller, at any depth.
    fn nested(
        &mut self,
        it: &NameUse,
        scope: DefinitionNodeId,
        element: DefinitionNodeId,
        inner: DefinitionNodeId,
    ) -> Resolution<'a> {
        let names = self.names;
        let mut path = vec![element, inner];
        let mut written = it.field.as_ref().map_or_else(String::new, |(field, _)| field.clone());
        let mut fields = it.inner.iter();
        let (slot, variable) = loop {
            let at = path[path.len() - 1];
            let shown = format!("{}.{written}", it.name);
            let Some((field, span)) = fields.next() else {
                let signature = names.signature(at);
                let example = signature.and_then(|known| known.iter().find(|it| it.direction == Direction::Out));
                let example = format!("{shown}.{}", example.map_or("parameter", |variable| &variable.name));
                let message = format!("{shown:?} is an element, and an element is not a value");
                return problem("element-as-value", it, message, move || Some(format!("write {example}")));
            };
            let Some(signature) = names.signature(at) else { return Ok(()) };
            if let Some(slot) = names.slot(at, field) {
                written = format!("{written}.{field}");
                break (slot, &signature[slot as usize]);
            }
            let Some(next) = self.step(at, field) else {
                if let Some(problem) = self.unreachable(it, at, &shown, field) {
                    return Err(problem);
                }
                let (message, field) = (format!("{shown:?} has no parameter {field:?}"), field.clone());
                let help: Box<dyn FnOnce() -> Option<String>> =
                    Box::new(move || parameter_help(&field, signature.iter()));
                return Err(LoadProblem {
                    code: "unknown-parameter",
                    at: span.clone(),
                    message,
                    write: false,
                    warning: false,
                    help,
                });
            };
            written = format!("{written}.{field}");
            path.push(next);
        };
        if it.writes_inside {
            let message = format!(
                "\"{}.{written}\" belongs to an element inside {:?} and cannot be assigned here",
                it.name, it.name
            );
            let help = format!(
                "assign it in the PRE_CODE of the {} around that element",
                names.nodes()[path[path.len() - 2].index()].tag
            );
            return problem("bad-assignment", it, message, move || Some(help));
        }
        self.check_order(it, scope, element);
        let (mut from, mut variable) = ((path[path.len() - 1], slot), variable.clone());
        for controller in path[..path.len() - 1].iter().rev() {
            let Some(slot) = names.forward(*controller, from, &variable) else {
                let message = format!("the results of \"{}.{written}\" are not kept", it.name);
                return problem("unknown-name", it, message, || {
                    Some("a running process keeps only the results that its definition reads".into())
                });
            };
            variable = hidden(names.nodes(), from.0, &variable);
            from = (*controller, slot);
        }
        self.port(&it.name, Some(&written), ScriptInput::Element { scope, element, slot: from.1 });
        self.read.extend(path);
        Ok(())
    }

    /// Returns the element with this name in a controller that runs each of its elements at most once.
    fn step(&self, controller: DefinitionNodeId, name: &str) -> Option<DefinitionNodeId> {
        let repeats = self.tag(controller).is_none_or(Tag::is_loop);
        if repeats { None } else { self.names.inner(controller, name) }
    }

    /// Explains why code outside of a loop cannot read what is inside; `None` for other elements.
    fn unreachable(
        &self,
        it: &NameUse,
        element: DefinitionNodeId,
        shown: &str,
        field: &str,
    ) -> Option<LoadProblem<'a>> {
        let nodes = self.names.nodes();
        let (message, help) = match self.tag(element)? {
            tag if tag.is_loop() => {
                let iterate = nodes[element.index()].elements.first()?;
                let inner = self.names.inner(*iterate, field)?;
                let result = self
                    .names
                    .signature(inner)
                    .and_then(|known| known.iter().find(|it| it.direction == Direction::Out));
                let result = format!("{field}.{}", result.map_or("result", |variable| &variable.name));
                (
                    format!("{field:?} runs once per iteration of {shown:?}, so it has no single result"),
                    format!(
                        "collect the results: write COLLECT=\"{result}\" on the loop, and read the list {shown}.results"
                    ),
                )
            }
            _ => return None,
        };
        problem("unknown-parameter", it, message, move || Some(help)).err()
    }

    /// Warns of the result of an element that cannot have ended when the script runs: it is always `nil`.
    fn check_order(&mut self, it: &NameUse, scope: DefinitionNodeId, element: DefinitionNodeId) {
        let nodes = self.names.nodes();
        let reader = match self.place {
            CodePlace::Attributes(reader) if scope == self.scope => Some(reader),
            CodePlace::PreCode if scope == self.scope => None,
            _ if scope == self.scope => return,
            // `CATCH` and `FINALLY` are not elements: they run after all of them.
            _ => match element_around(nodes, &nodes[scope.index()], self.scope) {
                Some(reader) => Some(reader),
                None => return,
            },
        };
        let name = it.name.clone();
        let in_order = Tag::from_name(nodes[scope.index()].tag).is_some_and(Tag::is_sequence);
        let (message, help) = match reader {
            None => (
                format!("{name:?} has no results yet: PRE_CODE runs before the elements"),
                "read it in POST_CODE, or in an attribute of an element that comes after it".to_owned(),
            ),
            Some(reader) if reader == element => (
                format!("{name:?} has no results yet: it has not ended when this runs"),
                "inside an element, use its own variables and the elements in it by their names".to_owned(),
            ),
            Some(reader) if in_order && nodes[reader.index()].position < nodes[element.index()].position => (
                format!("{name:?} has no results yet: it runs after {:?}", nodes[reader.index()].name),
                "change the order of the elements, or put them into a PAR, which starts them in the order of their data".to_owned(),
            ),
            Some(_) => return,
        };
        let found = problem("too-early", it, message, move || Some(help)).err();
        self.warning = found.map(|found| LoadProblem { warning: true, ..found });
    }

    fn unknown(&self, it: &NameUse) -> Resolution<'a> {
        let name = it.name.clone();
        if it.write {
            let message = match is_builtin(&name) {
                true => format!("{name:?} is built in and cannot be assigned"),
                false => format!("{name:?} is not declared, so it cannot be assigned"),
            };
            let names = self.names;
            return problem("unknown-name", it, message, move || {
                did_you_mean(&name, names.candidates())
                    .or_else(|| Some(format!("declare it as a parameter, or make it local: local {name} = …")))
            });
        }
        let (names, summaries) = (self.names, self.summaries);
        problem("unknown-name", it, format!("there is no {name:?} here"), move || {
            if LoopSummary::ALL.iter().any(|known| known.name() == name) {
                return Some(summary_help(&name));
            }
            let shared = SharedKind::ALL.iter().map(|kind| kind.type_name());
            let counted = summaries.iter().map(|summary| summary.name());
            did_you_mean(&name, names.candidates().into_iter().chain(BUILTINS).chain(shared).chain(counted))
                .or_else(|| Some("declare it as a parameter, or make it local".into()))
        })
    }

    fn count_locals(&self) -> usize {
        let tables: HashSet<&str> =
            self.ports.iter().filter(|port| port.field.is_some()).map(|port| &*port.name).collect();
        self.ports.len() + tables.len()
    }

    /// Compiles expressions after their names are resolved.
    pub fn expressions<T: AsRef<str>>(self, texts: &[T], line: u32) -> Result<Script, CodeTooLarge> {
        check_count(self.ports.len(), self.count_locals(), texts.len())?;
        let code = Code::expressions(texts, line, &self.ports);
        check_code(&code)?;
        Ok(Script { code, inputs: self.inputs, outputs: Vec::new(), line })
    }

    /// Compiles statements after their names are resolved.
    pub fn statements(self, text: &str, line: u32) -> Result<Script, CodeTooLarge> {
        check_count(self.ports.len(), self.count_locals(), self.outputs.len())?;
        let (outputs, ports): (Vec<ScriptTarget>, Vec<Port>) = self.outputs.into_iter().unzip();
        let code = Code::statements(text, line, &self.ports, &ports);
        check_code(&code)?;
        Ok(Script { code, inputs: self.inputs, outputs, line })
    }
}

fn problem<'a>(
    code: &'static str,
    it: &NameUse,
    message: String,
    help: impl FnOnce() -> Option<String> + 'a,
) -> Resolution<'a> {
    let end = it.field.as_ref().map_or(it.at.end, |(_, at)| if it.write { at.end } else { it.at.end });
    Err(LoadProblem { code, at: it.at.start..end, message, write: it.write, warning: false, help: Box::new(help) })
}

/// Suggests the parameter that was meant, or lists the parameters.
pub(super) fn parameter_help<'v>(
    written: &str,
    parameters: impl Iterator<Item = &'v Variable> + Clone,
) -> Option<String> {
    const MAX_SHOWN: usize = 12;
    let meant = did_you_mean(written, parameters.clone().take(MAX_CANDIDATES).map(|variable| &*variable.name));
    meant.or_else(|| {
        let names: Vec<&str> = parameters.take(MAX_SHOWN + 1).map(|variable| &*variable.name).collect();
        match names.len() {
            0 => Some("it has no parameters".into()),
            1..=MAX_SHOWN => Some(format!("it has {}", names.join(", "))),
            _ => Some(format!("it has {}, …", names[..MAX_SHOWN].join(", "))),
        }
    })
}

/// Explains where code can read a figure about a controller.
fn summary_help(name: &str) -> String {
    match name {
        "results" => "only the EXIT_CONDITION, CONDITION and POST_CODE of a loop with COLLECT can use it".into(),
        "counter" => "only an ITERATE, and the CONDITION of a WHILE or PARWHILE, can use it".into(),
        "running" => "only the EXIT_CONDITION and CONDITION of a loop or parallel controller can use it".into(),
        _ => "only the EXIT_CONDITION, CONDITION and POST_CODE of a loop or parallel controller can use it".into(),
    }
}
