//! People and programs that reach into a running process: paths, and what can be done at one.

use std::sync::Arc;

use xavantes_model::definition::{NodeId, Program, Script};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_model::load;
use xavantes_model::script::Sandbox;
use xavantes_model::value::{Type, Value};

use crate::engine::{Engine, Output, Task};
use crate::event::{Change, Event};
use crate::flow::count_of;
use crate::id::ElementId;
use crate::input::{Action, Command, Rejection};
use crate::state::{Body, Par, Phase, Range, State, Stop};

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A live element.
    Live(ElementId),
    /// An element of a live scope that has not begun, or has ended.
    Absent { scope: ElementId, element: NodeId },
}

fn no_such(message: String) -> Rejection {
    Rejection::NoSuchElement(message.into())
}

fn not_possible(message: impl Into<Arc<str>>) -> Rejection {
    Rejection::NotPossible(message.into())
}

impl State {
    /// The path of a live element: `FindPrimes-7f3a/parfor/[12]/findPrimes`.
    pub fn path(&self, program: &Program, id: ElementId) -> String {
        let mut segments = Vec::new();
        let mut next = Some(id);
        while let Some(instance) = next.and_then(|id| self.instances.get(id)) {
            segments.push(match instance.parent.and_then(|parent| self.instances.get(parent)) {
                None => self.process.to_string(),
                Some(around) => {
                    let site = program.node(instance.site_process as usize, instance.site);
                    match &around.body {
                        Body::Loop(it) if site.tag == "ITERATE" => format!("[{}]", it.range.counter(instance.ordinal)),
                        _ => site.name.to_string(),
                    }
                }
            });
            next = instance.parent;
        }
        segments.reverse();
        segments.join("/")
    }

    pub(crate) fn find(&self, program: &Program, path: &str) -> Result<Found, Rejection> {
        // The id of a delegated process may be a path itself.
        let rest = path.strip_prefix(&*self.process).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = rest else {
            return Err(no_such(format!("{path:?} is not in process {:?}", self.process)));
        };
        let mut segments = rest.split('/').skip(1).peekable();
        let mut id = self.root.ok_or(Rejection::Ended)?;
        let mut so_far = self.process.to_string();
        while let Some(segment) = segments.next() {
            let instance = self.instances.get(id).ok_or(Rejection::Ended)?;
            if instance.delegated {
                return Err(Rejection::Delegated { element: id, attempt: instance.attempts });
            }
            let node = program.node(instance.process as usize, instance.node);
            let child = match (&instance.body, segment.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))) {
                (Body::Loop(it), Some(counter)) => {
                    let ordinal = counter.parse().ok().and_then(|counter| it.range.ordinal(counter));
                    let live = ordinal.and_then(|ordinal| it.join.live.get(&ordinal).copied());
                    Some(live.ok_or_else(|| no_such(format!("{so_far} has no iteration {segment} now")))?)
                }
                _ => instance.children().find(|child| {
                    let child = self.instances.get(*child);
                    child.is_some_and(|child| {
                        let site = program.node(child.site_process as usize, child.site);
                        *site.name == *segment && site.tag != "ITERATE"
                    })
                }),
            };
            let Some(child) = child else {
                let known = node.elements.iter().map(|element| program.node(instance.process as usize, *element));
                let known = known.filter(|element| element.tag != "ITERATE");
                let element = known.clone().find(|element| *element.name == *segment);
                return match element {
                    Some(element) if segments.peek().is_none() => Ok(Found::Absent { scope: id, element: element.id }),
                    Some(_) => Err(no_such(format!("{so_far}/{segment} has ended or not begun"))),
                    None => {
                        let hint = did_you_mean(segment, known.take(1000).map(|element| &*element.name));
                        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
                        Err(no_such(format!("{so_far} has no element {segment:?}{hint}")))
                    }
                };
            };
            id = child;
            so_far = format!("{so_far}/{segment}");
        }
        Ok(Found::Live(id))
    }
}

impl Engine {
    pub(crate) fn on_steered(
        &mut self,
        sandbox: &mut Sandbox,
        path: &str,
        action: Action,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        if self.state.ended.is_some() {
            return Err(Rejection::Ended);
        }
        let program = self.program.clone();
        match (self.state.find(&program, path)?, action) {
            (Found::Live(id), Action::Cancel) => self.on_cancel(id, path, out),
            (Found::Live(id), Action::Pause) => self.on_pause(id, path, out),
            (Found::Live(id), Action::Resume) => self.on_resume(id, path, out),
            (Found::Live(id), Action::Retry) => self.on_retry(sandbox, id, path, out),
            (Found::Live(id), Action::Set { key, value }) => self.on_set_bound(id, path, &key, &value, out),
            (Found::Absent { scope, element }, Action::Set { key, value }) => {
                self.on_set_parameter(scope, element, path, &key, &value, out)
            }
            (Found::Absent { .. }, _) => Err(no_such(format!("{path} has ended or not begun"))),
        }
    }

    /// Asking twice cuts every `FINALLY` in it short.
    fn on_cancel(&mut self, id: ElementId, path: &str, out: &mut Output) -> Result<(), Rejection> {
        let Some(instance) = self.state.instances.get(id) else { return Err(Rejection::Ended) };
        let asked = instance.is_cancelled()
            || matches!(&instance.phase, Phase::Out(attempt) if attempt.stop == Some(Stop::Cancelled));
        if !asked {
            self.cancel(id, out);
            return Ok(());
        }
        if instance.delegated {
            // Its FINALLY runs where it does.
            return Err(Rejection::Delegated { element: id, attempt: instance.attempts });
        }
        let finally: Vec<ElementId> = self.subtree(id).into_iter().filter_map(|id| self.finally_of(id)).collect();
        if finally.is_empty() {
            return Err(not_possible(format!("{path} is being cancelled")));
        }
        finally.into_iter().for_each(|handler| self.cancel(handler, out));
        Ok(())
    }

    /// The `FINALLY` that runs in an element, unless it is being cancelled too.
    fn finally_of(&self, id: ElementId) -> Option<ElementId> {
        let instance = self.state.instances.get(id)?;
        let handler = instance.handler.filter(|_| matches!(instance.phase, Phase::Finishing { .. }))?;
        self.state.instances.get(handler).filter(|handler| !handler.is_cancelled()).map(|_| handler)
    }

    fn on_pause(&mut self, id: ElementId, path: &str, out: &mut Output) -> Result<(), Rejection> {
        let Some(instance) = self.state.instances.get(id) else { return Err(Rejection::Ended) };
        if instance.paused.is_some() {
            return Err(not_possible(format!("{path} is paused")));
        }
        let delegated: Vec<ElementId> = self.subtree(id).into_iter().filter(|id| !self.is_paused(*id)).collect();
        self.emit(out, Event::Paused { id, at: self.now });
        self.tell_delegated(&delegated, true, out);
        Ok(())
    }

    fn on_resume(&mut self, id: ElementId, path: &str, out: &mut Output) -> Result<(), Rejection> {
        let since = self.state.instances.get(id).and_then(|instance| instance.paused);
        let Some(since) = since else { return Err(not_possible(format!("{path} is not paused"))) };
        // Time that an outer pause covers is added when that one ends.
        let mut until = self.now;
        let mut next = self.state.instances.get(id).and_then(|instance| instance.parent);
        while let Some(instance) = next.and_then(|id| self.state.instances.get(id)) {
            until = instance.paused.map_or(until, |outer| until.min(outer));
            next = instance.parent;
        }
        self.emit(out, Event::Resumed { id, shift: until.0.saturating_sub(since.0) });
        self.wake(id, out);
        Ok(())
    }

    /// A pause does not count any more: everything in the element that is not paused otherwise goes on.
    pub(crate) fn wake(&mut self, id: ElementId, out: &mut Output) {
        let awake: Vec<ElementId> = self.subtree(id).into_iter().filter(|id| !self.is_paused(*id)).collect();
        self.tell_delegated(&awake, false, out);
        for id in awake {
            // A clock that rang during the pause was not heard.
            self.arm(id, None);
            self.agenda.push(Task::ChildEnded(id));
            self.stops.push(id);
        }
    }

    fn subtree(&self, id: ElementId) -> Vec<ElementId> {
        let mut all = vec![id];
        let mut next = 0;
        while let Some(id) = all.get(next).copied() {
            all.extend(self.state.instances.get(id).into_iter().flat_map(|instance| instance.children()));
            next += 1;
        }
        all
    }

    fn tell_delegated(&self, elements: &[ElementId], paused: bool, out: &mut Output) {
        for id in elements {
            if let Some(instance) = self.state.instances.get(*id)
                && instance.delegated
                && matches!(instance.phase, Phase::Out(_))
            {
                out.commands.push(Command::Pause { element: *id, attempt: instance.attempts, paused });
            }
        }
    }

    fn on_retry(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        path: &str,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        if self.is_paused(id) {
            return Err(not_possible(format!("{path} is paused: resume it first")));
        }
        let Some(instance) = self.state.instances.get(id) else { return Err(Rejection::Ended) };
        match &instance.phase {
            Phase::Waiting { .. } | Phase::Held(_) => self.restart(sandbox, id, out),
            Phase::Out(attempt) if attempt.stop.is_none() => {
                let attempt = instance.attempts;
                self.emit(out, Event::Stopping { id, stop: Stop::Restart });
                out.commands.push(Command::Cancel { element: id, attempt });
            }
            Phase::Ready => return Err(not_possible(format!("{path} waits to be handed out"))),
            Phase::Out(_) | Phase::Stopping(_) | Phase::Finishing { .. } => {
                return Err(not_possible(format!("{path} is ending")));
            }
            _ => self.stop(id, Stop::Restart, out),
        }
        Ok(())
    }

    fn on_set_parameter(
        &mut self,
        scope: ElementId,
        element: NodeId,
        path: &str,
        key: &str,
        text: &str,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(scope) else { return Err(Rejection::Ended) };
        let node = program.node(instance.process as usize, element);
        let (begun, never) = match &instance.body {
            Body::Sequence { next, .. } => (node.position < *next, false),
            Body::Par(it) => {
                let waits = it.waits_for.get(node.position as usize).copied().unwrap_or(0);
                (waits == 0 && !it.ready.contains(&node.position), waits == Par::NEVER)
            }
            _ => (true, false),
        };
        if begun {
            return Err(not_possible(format!("{path} has begun: its parameters are set")));
        }
        if never || !matches!(instance.phase, Phase::Entered | Phase::Prepared | Phase::Running) {
            return Err(not_possible(format!("{path} will not begin")));
        }
        let signature = program.signature(node);
        let Some(slot) = signature.iter().position(|variable| *variable.name == *key && variable.direction.is_in())
        else {
            let hint = did_you_mean(key, signature.iter().map(|variable| &*variable.name));
            let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
            return Err(not_possible(format!("{path} has no IN parameter {key:?}{hint}")));
        };
        let value = match signature[slot].ty {
            Some(ty) => ty.parse(text).map_err(|problem| not_possible(format!("{key}: {problem}")))?,
            None => Value::from(text),
        };
        self.emit(out, Event::Changed { id: scope, change: Change::Parameter(element, slot as u32, value) });
        Ok(())
    }

    fn on_set_bound(
        &mut self,
        id: ElementId,
        path: &str,
        key: &str,
        text: &str,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        let Some(instance) = self.state.instances.get(id) else { return Err(Rejection::Ended) };
        match (&instance.phase, &instance.body) {
            (Phase::Out(_), _) if instance.delegated => {
                return Err(Rejection::Delegated { element: id, attempt: instance.attempts });
            }
            (_, Body::Leaf) => return Err(not_possible(format!("{path} has begun: its parameters are set"))),
            (Phase::Running, _) => {}
            _ => return Err(not_possible(format!("{path} is not running"))),
        }
        let parallel = self.state.node(&self.program, instance).kind.parallel().is_some();
        let whole = || match Type::Int.parse(text) {
            Ok(Value::Int(number)) => Ok(number),
            _ => Err(not_possible(format!("{key}: expected int, got {text:?}"))),
        };
        let at_least_one = || match whole()? {
            number @ 1.. => Ok(number as u64),
            number => Err(not_possible(format!("{key} must be at least 1, got {number}"))),
        };
        let change = match key {
            "TO" => match &instance.body {
                Body::Loop(it) => match it.range {
                    Range::Count { begin, step, .. } => {
                        // What was begun stays begun.
                        Change::Total(count_of(begin, whole()?, step).unwrap_or(0).max(it.next))
                    }
                    _ => return Err(not_possible(format!("{path} does not count to a number"))),
                },
                _ => return Err(not_possible(format!("{path} is not a loop"))),
            },
            "MAX_PARALLEL" | "JOIN" | "EXIT_CONDITION" if !parallel => {
                return Err(not_possible(format!("{path} is not a parallel controller")));
            }
            "MAX_PARALLEL" => Change::MaxParallel(at_least_one()?),
            "JOIN" => Change::Join(at_least_one()?),
            "EXIT_CONDITION" => {
                self.exit_condition(id, text).map_err(|problem| not_possible(format!("EXIT_CONDITION: {problem}")))?;
                Change::ExitCondition(text.into())
            }
            _ => {
                return Err(not_possible(format!(
                    "{path} has begun: TO, MAX_PARALLEL, JOIN and EXIT_CONDITION can be set, {key:?} cannot"
                )));
            }
        };
        self.emit(out, Event::Changed { id, change });
        self.agenda.push(Task::ChildEnded(id));
        Ok(())
    }

    /// An exit condition given from outside, compiled once.
    pub(crate) fn exit_condition(&mut self, id: ElementId, text: &str) -> Result<Script, String> {
        let Some(instance) = self.state.instances.get(id) else { return Err("the process has ended".into()) };
        let key = (instance.process, instance.node, Arc::from(text));
        if let Some(script) = self.conditions.get(&key) {
            return Ok(script.clone());
        }
        let script = load::compile_exit_condition(&self.program, instance.process as usize, instance.node, text)?;
        self.conditions.insert(key, script.clone());
        Ok(script)
    }
}
