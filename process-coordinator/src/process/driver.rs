//! One process between the world and its engine: what happens goes in, records for the journal and effects come out, and
//! no effect comes out before what it follows from was recorded. Without I/O, clock or threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xavantes_engine::{
    Action, Answer, Command, Delegation, ElementId, Engine, Event, Input, Outcome, Output, Product, Rejection, Root,
    Time,
};
use xavantes_model::digest::Digest;
use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};

use crate::attempt::{AttemptKey, Needs, Task};
use crate::cache::decide::{Found, Keep, Reuse, Sought, Why};
use crate::convert::{answer_from, call_from, element_from, made, subtree};
use crate::data::lineage::{Lineage, Recipe, Repairs, Step, digests, is_repair};
use crate::data::locations::{Need, needs as needed};
use crate::process::history::{Past, Took};
use crate::process::journal::{self, Elsewhere, Kept, Note, Placement, Places};
use crate::workers::messages::Share;

/// A snapshot is worth its while when the journal since the last one is so large, and several times as large as it.
const LARGE_JOURNAL: usize = 1 << 20;
const LARGER: usize = 4;

/// So many activities, for which kept results are looked for, may be out besides those that there is room for: they are
/// nobody's work. What is not found waits for its turn.
const MOST_LOOKED_FOR: u64 = 200;

/// Something that happened. `R` is the way back to where it came from, `V` to whoever waits for a verdict.
#[derive(Debug)]
pub enum Incoming<R, V> {
    /// An attempt was answered.
    Answered {
        /// Which.
        key: AttemptKey,
        /// How.
        outcome: v1::answer::Outcome,
        /// What came with that, if anything did.
        besides: Option<Box<Besides>>,
        /// Who wants to know that it was recorded.
        from: Option<R>,
    },
    /// Results that could be used again were looked for.
    Sought(AttemptKey, Result<Box<Found>, Why>),
    /// Nobody has it any more.
    Lost(AttemptKey),
    /// A delegated attempt has a place to go to.
    Placed(AttemptKey, Placement),
    /// An attempt calls a shared object of this process.
    Called(v1::SharedCall, R),
    /// Somebody steers.
    Steered {
        /// Which element.
        path: String,
        /// What is wanted.
        action: Wanted,
        /// Who wants it.
        verdict: V,
    },
    /// Is an attempt still waited for? That it is not is told when it is recorded why.
    Asked {
        /// Which.
        key: AttemptKey,
        /// Who wants to know.
        verdict: V,
    },
    /// The parent wants it stopped, perhaps not for the first time.
    Stopped,
    /// The parent wants it paused, or to go on.
    Paused(bool),
    /// A deadline was reached.
    TimePassed,
    /// There is more to do, or more room to do it.
    Continued,
}

/// What comes with an answer besides its outcome.
#[derive(Debug, Default)]
pub struct Besides {
    /// Of a subtree: what became of everything in it.
    pub elsewhere: Option<Elsewhere>,
    /// Of a subtree: how the files were made that it gives.
    pub recipes: Vec<v1::Recipe>,
    /// Of a program: what it took.
    pub usage: Option<v1::Usage>,
}

impl Besides {
    /// Takes it out of an answer.
    pub fn take(answer: &mut v1::Answer) -> Option<Box<Self>> {
        if answer.counts.is_none() && answer.usage.is_none() {
            return None;
        }
        let history = answer.history.take().unwrap_or_default();
        let elsewhere = answer.counts.take().map(|counts| Elsewhere::from_wire(counts, *history));
        let (recipes, usage) = (std::mem::take(&mut answer.recipes), answer.usage.take().map(|usage| *usage));
        Some(Box::new(Self { elsewhere, recipes, usage }))
    }
}

/// What a person or program wants.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Of the engine.
    Action(Action),
    /// An attempt that runs elsewhere is given up without waiting for its answer.
    Elsewhere,
}

/// Something to be done, now that it is recorded why.
#[derive(Debug)]
pub enum Effect<R, V> {
    /// An activity for a worker.
    Dispatch(Task),
    /// Results that were kept are to be looked for, before an activity is handed out.
    Look(AttemptKey, Box<Sought>),
    /// Something completed, and gave this; whether that was kept from an earlier time.
    Tell(Product, bool),
    /// A subtree, for which a place is to be found.
    Delegate(Task),
    /// A subtree may go to the place that was found for it.
    Hand(AttemptKey),
    /// An attempt is to be stopped.
    Cancel(AttemptKey),
    /// A subtree is to be paused, or to go on.
    Pause(AttemptKey, bool),
    /// An attempt is of no interest any more.
    Abandon(AttemptKey),
    /// An answer was recorded, or is not wanted.
    Acknowledge(R, AttemptKey),
    /// The answer to a call.
    Reply(R, v1::SharedReply),
    /// What became of steering.
    Decide(V, Result<(), Rejection>),
}

/// Something for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A record that is added.
    Append(Bytes),
    /// One that replaces all before.
    Compact(Bytes),
}

/// A step of the journal, and what may be done when it is durable.
#[derive(Debug)]
pub struct Batch<R, V> {
    /// Nothing if nothing is to be remembered.
    pub entry: Option<Entry>,
    /// What is kept for other processes, not later than the entry.
    pub keeps: Vec<Keep>,
    /// In order.
    pub effects: Vec<Effect<R, V>>,
}

/// The driver of one process.
#[derive(Debug)]
pub struct Driver<R, V> {
    /// What begins the names of attempts. Unlike the id of the engine it is that of no other process, before or after.
    id: Arc<str>,
    engine: Engine,
    root: Root,
    program: Arc<v1::Program>,
    output: Output,
    notes: Vec<Note>,
    effects: Vec<Effect<R, V>>,
    places: Places,
    elsewhere: Elsewhere,
    lineage: Lineage,
    repairs: Repairs,
    reuse: Reuse,
    reused: u64,
    /// What programs took, by activity type; and of that, what is not recorded yet.
    took: BTreeMap<u32, Took>,
    unrecorded: BTreeMap<u32, Took>,
    keeps: Vec<Keep>,
    /// How many activities may be out, and how many more because results are looked for.
    room: u64,
    extra: u64,
    now: Time,
    go_on: bool,
    /// To the call that is being taken.
    reply: Option<Result<Value, String>>,
    /// Bytes since the last snapshot, and how large that was.
    journal: usize,
    snapshot: usize,
    /// How large the first may become.
    large: usize,
    /// Who fetches files for workers that do not reach those that have them.
    relays: Vec<String>,
    /// Where elements failed that are tried again. It is not recorded: it is a hint.
    failed_at: BTreeMap<u64, Arc<str>>,
}

impl<R, V> Driver<R, V> {
    /// A process that begins; the output of its start is to be recorded with its head ([`Self::first`]).
    pub fn new(id: Arc<str>, engine: Engine, root: Root, program: Arc<v1::Program>, output: Output) -> Self {
        Self {
            id,
            engine,
            root,
            program,
            output,
            notes: Vec::new(),
            effects: Vec::new(),
            places: Places::new(),
            elsewhere: Elsewhere::default(),
            lineage: Lineage::default(),
            repairs: Repairs::default(),
            reuse: Reuse::default(),
            reused: 0,
            took: BTreeMap::new(),
            unrecorded: BTreeMap::new(),
            keeps: Vec::new(),
            room: 0,
            extra: 0,
            now: Time(0),
            go_on: true,
            reply: None,
            journal: 0,
            snapshot: 0,
            large: LARGE_JOURNAL,
            relays: Vec::new(),
            failed_at: BTreeMap::new(),
        }
    }

    /// The first record.
    pub fn first(&mut self) -> Bytes {
        journal::record(self.now.0, &mut self.output.events, &mut self.notes)
    }

    /// A process that was kept, and every attempt that was out then.
    pub fn recover(
        id: Arc<str>,
        program: Arc<xavantes_model::definition::Program>,
        wire: Arc<v1::Program>,
        root: Root,
        kept: Kept,
    ) -> (Self, Vec<Recovered>) {
        let engine = Engine::restore(program, kept.state);
        let mut driver = Self::new(id, engine, root, wire, Output::default());
        (driver.places, driver.elsewhere, driver.now) = (kept.places, kept.elsewhere, Time(kept.at));
        (driver.lineage, driver.reused, driver.took) = (kept.lineage, kept.reused, kept.took);
        let mut out: Vec<Recovered> = Vec::new();
        for command in driver.engine.outstanding() {
            match command {
                Command::Dispatch { element, attempt, activity, parameters, timeout } => {
                    let task = driver.task(element, attempt, activity, &parameters, timeout);
                    out.push(Recovered { task, place: None, stop: false, paused: None });
                }
                Command::Delegate(delegation) => {
                    let task = driver.subtree(&delegation);
                    let place = driver.places.get(&(task.key.element, task.key.attempt)).cloned();
                    // That it is to go on may not have reached it.
                    out.push(Recovered { task, place, stop: false, paused: Some(false) });
                }
                // They follow what they are about.
                Command::Cancel { .. } => out.last_mut().into_iter().for_each(|it| it.stop = true),
                Command::Pause { paused, .. } => out.last_mut().into_iter().for_each(|it| it.paused = Some(paused)),
                Command::Reply { .. } | Command::Continue | Command::Finish { .. } => {}
            }
        }
        // Places of attempts that are over.
        let live: std::collections::BTreeSet<(u64, u32)> =
            out.iter().map(|it| (it.task.key.element, it.task.key.attempt)).collect();
        driver.places.retain(|place, _| live.contains(place));
        (driver, out)
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What completed elements give is told, too.
    pub fn follow(&mut self) {
        self.engine.set_followed(true);
    }

    /// What may be out at once: its share, but not more activities than that.
    pub fn set_share(&mut self, share: Share, most: u64) {
        self.room = share.room.min(most);
        self.engine.set_room(self.room.saturating_add(self.extra));
        self.engine.set_delegations(share.delegations);
        self.engine.set_auto_delegations(share.auto_delegations);
    }

    /// Makes room for those for which results are looked for, or takes it back.
    fn fit_room(&mut self) {
        let extra = self.reuse.looked_for().min(MOST_LOOKED_FOR);
        if extra != self.extra {
            self.go_on |= extra > self.extra;
            self.extra = extra;
            self.engine.set_room(self.room.saturating_add(extra));
        }
    }

    /// Its activities run, whatever was kept of them.
    pub fn refuse_reuse(&mut self) {
        self.reuse.unwanted = true;
    }

    /// Nodes that fetch files for who does not reach those that have them, the nearest first.
    pub fn set_relays(&mut self, relays: Vec<String>) {
        self.relays = relays;
    }

    /// Makes snapshots of smaller journals too.
    pub fn set_large_journal(&mut self, bytes: usize) {
        self.large = bytes;
    }

    /// What it runs.
    pub fn root(&self) -> Root {
        self.root
    }

    /// The engine's clock, when it was last told the time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Has it more to do by itself?
    pub fn wants_to_go_on(&self) -> bool {
        self.go_on
    }

    /// How much there is to be recorded.
    pub fn waiting(&self) -> usize {
        self.output.events.len() + self.effects.len() + self.keeps.len()
    }

    /// Activities here, and of subtrees that ended elsewhere.
    pub fn counts(&self) -> v1::Counts {
        let counts = self.engine.state().counts();
        v1::Counts {
            completed: counts.completed + self.elsewhere.completed,
            failed: counts.failed + self.elsewhere.failed,
            // To the engine it was an attempt, too.
            attempts: counts.attempts.saturating_sub(self.reused) + self.elsewhere.attempts,
            running: counts.out,
            reused: self.reused + self.elsewhere.reused,
        }
    }

    /// What became of everything, here and elsewhere, if the clock began at that time.
    pub fn past(&self, began_ms: u64) -> Past {
        let mut past = Past::of(self.engine.state().history(), began_ms);
        past.add(&self.elsewhere.past);
        self.took.iter().chain(&self.unrecorded).for_each(|(activity, took)| past.add_taken(*activity, took));
        past
    }

    /// Something happened.
    pub fn take(&mut self, sandbox: &mut Sandbox, incoming: Incoming<R, V>, now: Time) {
        self.now = self.now.max(now);
        match incoming {
            Incoming::Answered { key, outcome, from, .. } if is_repair(key.element) => {
                let steps = match outcome {
                    v1::answer::Outcome::Completed(completed) => {
                        let made: Vec<Digest> = completed.results.iter().flat_map(made).collect();
                        self.repairs.made(key.element, key.attempt, &made)
                    }
                    v1::answer::Outcome::Failed(failure) => {
                        self.repairs.failed(&self.lineage, key.element, key.attempt, &failure)
                    }
                    _ => self.repairs.again(key.element).into_iter().collect(),
                };
                self.repair(sandbox, steps);
                self.effects.extend(from.map(|from| Effect::Acknowledge(from, key)));
            }
            Incoming::Answered { key, outcome: v1::answer::Outcome::Failed(failure), from, .. }
                if !failure.gone.is_empty() && self.is_out(&key) =>
            {
                let steps = self.repairs.lack(&self.lineage, key.clone(), failure);
                self.repair(sandbox, steps);
                self.effects.extend(from.map(|from| Effect::Acknowledge(from, key)));
            }
            Incoming::Answered { key, outcome, besides, from } => {
                let keep = self.keepable(&key, &outcome);
                let activity = besides.as_ref().and_then(|_| self.engine.activity(element_from(key.element)));
                let activity = activity.map(|(number, _)| number as u32);
                // Late or repeated answers are rejected, and acknowledged all the same: they are of no use to anyone.
                if let Some(completed) = self.answer(sandbox, &key, outcome) {
                    self.places.remove(&(key.element, key.attempt));
                    let besides = besides.unwrap_or_default();
                    if let Some(elsewhere) = besides.elsewhere {
                        self.note(Note::Elsewhere(elsewhere));
                        self.inherit(besides.recipes);
                    }
                    if let (Some(activity), Some(usage)) = (activity, besides.usage) {
                        self.unrecorded.entry(activity).or_default().add(&Took::once(&usage));
                    }
                    self.keeps.extend(keep.filter(|(_, success)| *success == completed).map(|(keep, _)| keep));
                }
                self.effects.extend(from.map(|from| Effect::Acknowledge(from, key)));
            }
            Incoming::Sought(key, found) => self.on_sought(sandbox, &key, found),
            Incoming::Lost(key) => self.lose(sandbox, &key),
            Incoming::Placed(key, place) => {
                self.note(Note::Placed(key.element, key.attempt, place));
                self.effects.push(Effect::Hand(key));
            }
            Incoming::Called(call, from) => self.on_called(sandbox, call, from),
            Incoming::Steered { path, action: Wanted::Action(action), verdict } => {
                let wanted = action.to_string();
                let decided = self.step(sandbox, Input::Steered { path: path.clone(), action });
                self.note_steered(&decided, path, wanted);
                self.effects.push(Effect::Decide(verdict, decided));
            }
            Incoming::Steered { path, action: Wanted::Elsewhere, verdict } => {
                let decided = self.give_up(sandbox, &path);
                self.note_steered(&decided, path, "retry --elsewhere".into());
                self.effects.push(Effect::Decide(verdict, decided));
            }
            Incoming::Asked { key, verdict } => {
                let view = self.engine.view(element_from(key.element));
                let waits = view.is_some_and(|view| view.out && view.attempts == key.attempt);
                let decided = if waits { Ok(()) } else { Err(Rejection::Ended) };
                self.effects.push(Effect::Decide(verdict, decided));
            }
            Incoming::Stopped if self.engine.is_cancelled() => {}
            Incoming::Stopped => self.steer(sandbox, Action::Cancel),
            Incoming::Paused(paused) => self.steer(sandbox, if paused { Action::Pause } else { Action::Resume }),
            Incoming::TimePassed => drop(self.step(sandbox, Input::TimePassed)),
            Incoming::Continued => drop(self.step(sandbox, Input::Continued)),
        }
    }

    fn note_steered(&mut self, decided: &Result<(), Rejection>, path: String, wanted: String) {
        if decided.is_ok() {
            self.engine.note_steered(path, wanted, &mut self.output);
        }
    }

    /// The parent's wish. The process may be as it is wished already; then there is nothing to do.
    fn steer(&mut self, sandbox: &mut Sandbox, action: Action) {
        let _ = self.step(sandbox, Input::Steered { path: self.engine.id().to_string(), action });
    }

    fn step(&mut self, sandbox: &mut Sandbox, input: Input) -> Result<(), Rejection> {
        self.go_on = false;
        let mut waited = Vec::new();
        let verdict = self.engine.step(sandbox, input, self.now, &mut self.output);
        for command in std::mem::take(&mut self.output.commands) {
            let key = |element: ElementId, attempt| AttemptKey::new(self.id.clone(), element.bits(), attempt);
            let effect = match command {
                Command::Dispatch { element, attempt, activity, parameters, timeout } => {
                    let task = self.task(element, attempt, activity, &parameters, timeout);
                    self.seek(task, activity, &parameters)
                }
                Command::Delegate(delegation) => Effect::Delegate(self.subtree(&delegation)),
                Command::Cancel { element, attempt } => {
                    let key = key(element, attempt);
                    if self.repairs.waits(&key) || self.reuse.end(&key).is_some() {
                        waited.push(key);
                        continue;
                    }
                    Effect::Cancel(key)
                }
                Command::Pause { element, attempt, paused } => Effect::Pause(key(element, attempt), paused),
                Command::Continue => {
                    self.go_on = true;
                    continue;
                }
                // There is one for each call, in the step that takes it.
                Command::Reply { result, .. } => {
                    self.reply = Some(result);
                    continue;
                }
                // Seen in the state.
                Command::Finish { .. } => continue,
            };
            self.effects.push(effect);
        }
        self.effects.extend(self.output.products.drain(..).map(|product| Effect::Tell(product, false)));
        // Nobody has them, so nobody else answers.
        for key in waited {
            self.repairs.leave(&key);
            let answer = Answer::Cancelled;
            let go_on = self.go_on;
            let _ = self
                .step(sandbox, Input::Answered { element: element_from(key.element), attempt: key.attempt, answer });
            self.go_on |= go_on;
        }
        self.fit_room();
        verdict
    }

    /// Takes the answer to an attempt; nothing if it is not out, otherwise whether it completed.
    fn answer(&mut self, sandbox: &mut Sandbox, key: &AttemptKey, outcome: v1::answer::Outcome) -> Option<bool> {
        // Before what follows from it: subtrees that begin now are told.
        if self.is_out(key)
            && let Some((recipe, made)) = self.recipe(key, &outcome)
        {
            self.note(Note::Made(recipe, made));
        }
        let failed_at = match &outcome {
            v1::answer::Outcome::Failed(failure) => failure.worker.as_deref().map(Arc::from),
            _ => None,
        };
        match failed_at {
            Some(worker) => drop(self.failed_at.insert(key.element, worker)),
            None => drop(self.failed_at.remove(&key.element)),
        }
        let (element, before) = (element_from(key.element), self.output.events.len());
        let input = Input::Answered { element, attempt: key.attempt, answer: answer_from(outcome) };
        let taken = self.step(sandbox, input);
        if taken.is_err() || self.engine.view(element).is_none() {
            self.failed_at.remove(&key.element);
        }
        taken.ok()?;
        let ended =
            |event: &Event| matches!(event, Event::Ended { id, outcome: Outcome::Completed, .. } if *id == element);
        Some(self.output.events[before..].iter().any(ended))
    }

    /// An activity is handed out, unless results may have been kept for it: then they are looked for first.
    fn seek(&mut self, task: Task, activity: usize, parameters: &[Value]) -> Effect<R, V> {
        let program = self.engine.program().clone();
        match self.reuse.seek(activity, &program.activities[activity], parameters, || task.job.path.clone()) {
            None => Effect::Dispatch(task),
            Some(Ok(sought)) if !self.reuse.unwanted => {
                let key = task.key.clone();
                self.reuse.begin(task, sought.clone());
                Effect::Look(key, Box::new(sought))
            }
            Some(decided) => {
                let verdict = decided.map_or_else(|verdict| verdict, |it| Box::new(it.verdict(Err(Why::NotWanted))));
                self.keeps.push(Keep::Verdict(verdict));
                Effect::Dispatch(task)
            }
        }
    }

    fn on_sought(&mut self, sandbox: &mut Sandbox, key: &AttemptKey, found: Result<Box<Found>, Why>) {
        let Some((task, sought)) = self.reuse.end(key) else { return };
        match found {
            Ok(found) => {
                let Found { earlier, completed } = *found;
                let told = self.effects.len();
                if self.answer(sandbox, key, v1::answer::Outcome::Completed(completed)).is_none() {
                    return;
                }
                self.note(Note::Reused);
                self.keeps.extend([Keep::Used(sought.key), Keep::Verdict(Box::new(sought.verdict(Ok(earlier))))]);
                for effect in &mut self.effects[told..] {
                    if let Effect::Tell(product, reused) = effect {
                        *reused |= product.path == sought.path;
                    }
                }
            }
            Err(why) => {
                // What was decided for its first try counts.
                let again = matches!(&why, Why::Failed(earlier) if earlier.path == sought.path && key.attempt > 1);
                self.keeps.extend((!again).then(|| Keep::Verdict(Box::new(sought.verdict(Err(why))))));
                self.effects.push(Effect::Dispatch(task));
                self.fit_room();
            }
        }
    }

    /// What is to be kept of an answer for other activities, if it is right: whether that means that it completed.
    fn keepable(&mut self, key: &AttemptKey, outcome: &v1::answer::Outcome) -> Option<(Keep, bool)> {
        let element = element_from(key.element);
        let (number, parameters) = self.engine.activity(element)?;
        let activity = &self.engine.program().activities[number];
        let sought = self.reuse.seek(number, activity, parameters, || self.engine.path(element))?.ok()?;
        match outcome {
            v1::answer::Outcome::Completed(completed) => Some((sought.completed(completed), true)),
            v1::answer::Outcome::Failed(_) => Some((sought.failed(), false)),
            _ => None,
        }
    }

    /// Is this the attempt that is out?
    fn is_out(&self, key: &AttemptKey) -> bool {
        self.engine.view(element_from(key.element)).is_some_and(|view| view.out && view.attempts == key.attempt)
    }

    /// How files were made, if an attempt made some, and which.
    fn recipe(&self, key: &AttemptKey, outcome: &v1::answer::Outcome) -> Option<(Arc<Recipe>, Vec<Digest>)> {
        let v1::answer::Outcome::Completed(completed) = outcome else { return None };
        let made: Vec<Digest> = completed.results.iter().flat_map(made).collect();
        if made.is_empty() {
            return None;
        }
        let element = element_from(key.element);
        let (activity, parameters) = self.engine.activity(element)?;
        let path = self.engine.path(element);
        Some((Arc::new(Recipe { activity: activity as u32, parameters: parameters.to_vec(), path }), made))
    }

    /// Files that others made can be made again here.
    pub fn inherit(&mut self, recipes: Vec<v1::Recipe>) {
        let activities = self.engine.program().activities.len();
        for (recipe, made) in recipes.into_iter().filter_map(|told| Recipe::from_wire(told, activities)) {
            self.note(Note::Made(recipe, made));
        }
    }

    /// How the files among values were made.
    pub fn recipes<'a>(&self, values: impl Iterator<Item = &'a Value>) -> Vec<v1::Recipe> {
        match self.lineage.is_empty() {
            true => Vec::new(),
            false => self.lineage.tell(values.flat_map(digests).collect()),
        }
    }

    /// Does what the repair of files needs.
    fn repair(&mut self, sandbox: &mut Sandbox, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Follow(element, attempt, recipe) => {
                    let mut task =
                        self.task(element_from(element), attempt, recipe.activity as usize, &recipe.parameters, None);
                    task.job.path.clone_from(&recipe.path);
                    self.effects.push(Effect::Dispatch(task));
                }
                Step::GoOn(key) => self.lose(sandbox, &key),
                Step::Fail(key, mut failure) => {
                    failure.gone.clear();
                    let answer = answer_from(v1::answer::Outcome::Failed(failure));
                    let _ = self.step(
                        sandbox,
                        Input::Answered { element: element_from(key.element), attempt: key.attempt, answer },
                    );
                }
            }
        }
    }

    fn lose(&mut self, sandbox: &mut Sandbox, key: &AttemptKey) {
        if is_repair(key.element) {
            let again = self.repairs.again(key.element);
            return self.repair(sandbox, again.into_iter().collect());
        }
        self.repairs.leave(key);
        self.reuse.end(key);
        let input = Input::Answered { element: element_from(key.element), attempt: key.attempt, answer: Answer::Lost };
        if self.step(sandbox, input).is_ok() {
            self.places.remove(&(key.element, key.attempt));
        }
    }

    fn give_up(&mut self, sandbox: &mut Sandbox, path: &str) -> Result<(), Rejection> {
        let nothing = || Rejection::NotPossible(format!("{path} does not run elsewhere").into());
        let element = self.engine.find(path)?.ok_or_else(nothing)?;
        let view = self.engine.view(element).ok_or_else(nothing)?;
        if !view.out {
            return Err(nothing());
        }
        let key = AttemptKey::new(self.id.clone(), element.bits(), view.attempts);
        self.effects.push(Effect::Abandon(key.clone()));
        self.lose(sandbox, &key);
        Ok(())
    }

    fn on_called(&mut self, sandbox: &mut Sandbox, call: v1::SharedCall, from: R) {
        let ticket = call.ticket;
        let result = match call_from(call) {
            Ok(call) => match (self.step(sandbox, Input::Called(Box::new(call))), self.reply.take()) {
                (Ok(()), Some(result)) => result,
                (Err(rejection), _) => Err(rejection.to_string()),
                (Ok(()), None) => Err("the call was not answered".into()),
            },
            Err(unfit) => Err(unfit.0.to_owned()),
        };
        let result = Some(match result {
            Ok(answer) => v1::shared_reply::Result::Value(value(&answer)),
            Err(message) => v1::shared_reply::Result::Error(message),
        });
        self.effects.push(Effect::Reply(from, v1::SharedReply { ticket, result }));
    }

    fn note(&mut self, note: Note) {
        match &note {
            Note::Placed(element, attempt, place) => drop(self.places.insert((*element, *attempt), place.clone())),
            Note::Elsewhere(more) => self.elsewhere.add(more),
            Note::Made(recipe, made) => self.lineage.add(recipe, made),
            Note::Reused => self.reused += 1,
            Note::Took(activity, took) => self.took.entry(*activity).or_default().add(took),
        }
        self.notes.push(note);
    }

    /// What is to be recorded, and may be done then; nothing if nothing happened.
    pub fn record(&mut self) -> Option<Batch<R, V>> {
        let (effects, keeps) = (std::mem::take(&mut self.effects), std::mem::take(&mut self.keeps));
        if self.output.events.is_empty() && self.notes.is_empty() {
            return (!effects.is_empty() || !keeps.is_empty()).then_some(Batch { entry: None, keeps, effects });
        }
        // Summed up, so that it is not a line for each program.
        for (activity, took) in std::mem::take(&mut self.unrecorded) {
            self.note(Note::Took(activity, took));
        }
        let large = self.journal > self.large && self.journal > LARGER * self.snapshot;
        let entry = if large {
            self.output.events.clear();
            self.notes.clear();
            let snapshot = self.snapshot();
            (self.journal, self.snapshot) = (0, snapshot.len());
            Entry::Compact(snapshot)
        } else {
            let record = journal::record(self.now.0, &mut self.output.events, &mut self.notes);
            self.journal += record.len();
            Entry::Append(record)
        };
        Some(Batch { entry: Some(entry), keeps, effects })
    }

    /// The whole process as it is.
    fn snapshot(&mut self) -> Bytes {
        if !self.lineage.is_empty() {
            self.lineage.keep_known(&journal::write(self.engine.state()));
        }
        // The fields of `Kept`, in order.
        let rest = (&self.lineage, self.reused, &self.took);
        journal::write(&(self.now.0, self.engine.state(), &self.places, &self.elsewhere, rest))
    }

    /// Did any activity here make files?
    pub fn made_files(&self) -> bool {
        self.lineage.is_used()
    }

    fn task(
        &self,
        element: ElementId,
        attempt: u32,
        activity: usize,
        parameters: &[Value],
        timeout: Option<Duration>,
    ) -> Task {
        let needs = Needs::of(&self.engine.program().activities[activity]);
        let mut job = v1::Job {
            activity: activity as u32,
            parameters: parameters.iter().map(value).collect(),
            timeout_ms: timeout.map(|timeout| timeout.as_millis().try_into().unwrap_or(u64::MAX)),
            ..self.job(element, attempt)
        };
        let (key, program) = (AttemptKey::new(self.id.clone(), element.bits(), attempt), self.program.clone());
        let files: Vec<Need> = parameters.iter().flat_map(needed).collect();
        if !files.is_empty() {
            job.relays.clone_from(&self.relays);
        }
        let avoid = self.failed_at.get(&key.element).cloned();
        Task { key, program, needs, files, avoid, job }
    }

    fn subtree(&self, delegation: &Delegation) -> Task {
        let Delegation { element, attempt, .. } = *delegation;
        let job = v1::Job {
            parameters: delegation.variables.iter().map(value).collect(),
            subtree: Some(v1::Subtree { no_reuse: self.reuse.unwanted, ..subtree(delegation) }),
            relays: self.relays.clone(),
            recipes: self.recipes(delegation.variables.iter().chain(delegation.captured.iter().map(|it| &it.1))),
            ..self.job(element, attempt)
        };
        let key = AttemptKey::new(self.id.clone(), element.bits(), attempt);
        Task { key, program: self.program.clone(), needs: Needs::default(), files: Vec::new(), avoid: None, job }
    }

    fn job(&self, element: ElementId, attempt: u32) -> v1::Job {
        v1::Job {
            id: Some(v1::AttemptId { process: self.id.to_string(), element: element.bits(), attempt }),
            program: self.program.digest.clone(),
            path: self.engine.path(element),
            ..v1::Job::default()
        }
    }
}

/// An attempt that was out when a process was last recorded.
#[derive(Debug)]
pub struct Recovered {
    /// The attempt.
    pub task: Task,
    /// Of a subtree: where it went, if it did.
    pub place: Option<Placement>,
    /// It is to be stopped.
    pub stop: bool,
    /// Of a subtree: the last that was said.
    pub paused: Option<bool>,
}
