//! The plan of a rerun: what it takes over, what it runs, and what waits for that. The engine interprets the process as far
//! as the results of the former process lead. Without I/O, clock or threads.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use xavantes_engine::{Answer, Command, ElementId, Engine, Input, Start, StepOutput, Time};
use xavantes_model::definition::Program;
use xavantes_model::digest::Digest;
use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;
use xavantes_proto::v1;
use xavantes_proto::v1::reuse_reason::Kind as ReasonKind;

use crate::cache::cache_entry::MissReason;
use crate::cache::decide::{code_digest, lookup};
use crate::cache::explain::{not_reused, reused};
use crate::engine_messages::{answer_from, references};
use crate::memo::former_activities::FormerActivities;
use crate::memo::memo_entry::element_path;
use crate::process::unreached_places::unreached_activities;

/// Upper bound on the activities that will run in one plan.
const MAX_RUNNING: u64 = 20_000;
/// Activities that are looked up together.
const LOOKUPS_AT_ONCE: u64 = 1000;
/// Upper bound on the activities that a plan lists for each type, of each sort.
const MAX_LISTED: usize = 20;

/// The rerun to plan.
pub struct PlannedRerun {
    /// Definitions of the new process.
    pub program: Arc<Program>,
    /// Its start.
    pub start: Start,
    /// Upper bound on the bytes of its state.
    pub max_bytes: u64,
    /// What the former process completed.
    pub former: FormerActivities,
    /// Files of results that no node has any more.
    pub gone: HashSet<Digest>,
}

/// A plan that is being made.
struct RerunPlanner {
    program: Arc<Program>,
    former: FormerActivities,
    gone: HashSet<Digest>,
    codes: Vec<Digest>,
    types: Vec<v1::RerunType>,
    running: HashMap<ElementId, ActivityToRun>,
    /// Number of activities that were looked up.
    lookups: u64,
}

/// An activity that will run.
struct ActivityToRun {
    /// Number of its lookup, for the order.
    order: u64,
    /// Number of its type.
    activity: usize,
    path: String,
    reason: v1::ReuseReason,
}

impl PlannedRerun {
    /// Makes the plan. It ends early when `is_over` says so. The error says what is wrong with the parameters.
    pub fn plan(self, sandbox: &mut Sandbox, is_over: impl Fn() -> bool) -> Result<v1::RerunPlan, Vec<String>> {
        let Self { program, start, max_bytes, former, gone } = self;
        let (root, mut out) = (start.root, StepOutput::default());
        let mut engine = Engine::start(program.clone(), start, Time(0), &mut out)?;
        engine.set_max_bytes(max_bytes);
        let codes = program.activities.iter().map(code_digest).collect();
        let types =
            program.activities.iter().map(|it| v1::RerunType { r#type: it.name.to_string(), ..Default::default() });
        let types = types.collect();
        let mut planner = RerunPlanner { program, former, gone, codes, types, running: HashMap::new(), lookups: 0 };
        let mut inputs = VecDeque::from([Input::Continued]);
        let (mut now, mut stopped) = (Time(0), v1::RerunStop::Unspecified);
        while engine.state().ended().is_none() {
            let running = planner.running.len() as u64;
            engine.set_capacity((running + LOOKUPS_AT_ONCE).min(MAX_RUNNING));
            let input = match inputs.pop_front() {
                Some(input) => input,
                None if running >= MAX_RUNNING => {
                    stopped = v1::RerunStop::Activities;
                    break;
                }
                // Delays pass at once, unless the time of activities that will run would pass with them.
                None => match engine.next_deadline().filter(|_| running == 0) {
                    Some(deadline) => {
                        now = now.max(deadline);
                        Input::TimePassed
                    }
                    None => break,
                },
            };
            if is_over() {
                stopped = v1::RerunStop::Time;
                break;
            }
            // An answer to an element that was cancelled meanwhile is rejected.
            let _ = engine.step(sandbox, input, now, &mut out);
            (out.events, out.bytes) = (Vec::new(), 0);
            for command in std::mem::take(&mut out.commands) {
                inputs.extend(planner.on_command(&engine, command));
            }
            // The step left free capacity, because it was a lookup that ran.
            if inputs.is_empty() && planner.running.len() as u64 > running {
                inputs.push_back(Input::Continued);
            }
        }
        planner.list_running();
        let later = unreached_activities(&engine, root);
        Ok(planner.finish(later, stopped))
    }
}

impl RerunPlanner {
    /// What happens next because of a command.
    fn on_command(&mut self, engine: &Engine, command: Command) -> Option<Input> {
        match command {
            Command::Dispatch { element, attempt, activity, parameters, .. } => {
                let answer = self.take(engine.path(element), element, activity, &parameters)?;
                Some(Input::Answered { element, attempt, answer })
            }
            Command::Cancel { element, attempt } => {
                self.running.remove(&element);
                Some(Input::Answered { element, attempt, answer: Answer::Cancelled })
            }
            Command::Continue => Some(Input::Continued),
            _ => None,
        }
    }

    /// Takes over the results of an activity; nothing if it will run.
    fn take(&mut self, path: String, element: ElementId, number: usize, values: &[Value]) -> Option<Answer> {
        let code = self.codes[number];
        let found = lookup(&self.program.activities[number], code, values, path.clone());
        let found = found.and_then(|lookup| self.former.take(&lookup));
        let found = found.and_then(|taken| {
            let gone = taken.hit.completed.results.iter().flat_map(references).find(|file| self.is_gone(file));
            match gone {
                Some(file) => Err(MissReason::FileGone(taken.hit.earlier.clone(), file.uri.clone())),
                None => Ok(taken.hit),
            }
        });
        let path = element_path(&path).to_owned();
        self.lookups += 1;
        match found {
            Ok(hit) => {
                let listed = &mut self.types[number];
                listed.taken_over += 1;
                if listed.taken.len() < MAX_LISTED {
                    listed.taken.push(activity(path, reused(hit.earlier)));
                }
                Some(answer_from(v1::answer::Outcome::Completed(hit.completed)))
            }
            Err(reason) => {
                let (order, reason) = (self.lookups, not_reused(reason, &code).into());
                self.running.insert(element, ActivityToRun { order, activity: number, path, reason });
                None
            }
        }
    }

    fn is_gone(&self, file: &v1::FileReference) -> bool {
        let digest = file.content.as_ref().and_then(|content| Digest::from_bytes(&content.digest));
        digest.is_some_and(|digest| self.gone.contains(&digest))
    }

    /// Lists the activities that will run, in the order in which they began.
    fn list_running(&mut self) {
        let mut running: Vec<_> = std::mem::take(&mut self.running).into_values().collect();
        running.sort_by_key(|it| it.order);
        for ActivityToRun { activity, path, reason, .. } in running {
            let listed = &mut self.types[activity];
            listed.will_run += 1;
            if listed.running.len() < MAX_LISTED {
                listed.running.push(v1::RerunActivity { path, reason: Some(reason) });
            }
        }
    }

    fn finish(self, later: Vec<(usize, String)>, stopped: v1::RerunStop) -> v1::RerunPlan {
        let mut types = self.types;
        for (number, path) in later {
            let listed = &mut types[number];
            listed.later += 1;
            if listed.waiting.len() < MAX_LISTED {
                listed.waiting.push(path);
            }
        }
        types.retain(|it| it.taken_over + it.will_run + it.later > 0);
        let sum = |count: fn(&v1::RerunType) -> u64| types.iter().map(count).sum();
        v1::RerunPlan {
            former: self.former.id().to_string(),
            taken_over: sum(|it| it.taken_over),
            will_run: sum(|it| it.will_run),
            later: sum(|it| it.later),
            not_used: self.former.untaken(),
            left_out: self.former.left_out(),
            stopped: stopped.into(),
            types,
        }
    }
}

fn activity(path: String, reason: ReasonKind) -> v1::RerunActivity {
    v1::RerunActivity { path, reason: Some(reason.into()) }
}
