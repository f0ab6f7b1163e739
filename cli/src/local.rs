//! Runs a process in this program: one thread interprets, others run its Lua activities.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use xavantes_engine::{
    Action, Answer, Command, ElementId, Engine, Failure, FailureKind, Input, Output, SharedCall, Start, State, Time,
};
use xavantes_model::definition::{ActivityCode, Program};
use xavantes_model::script::{ErrorKind, Limits, RemoteObjects, Sandbox};
use xavantes_model::shared::Method;
use xavantes_model::value::{SharedRef, Value};

/// What one Lua activity may use; its time is bounded by `TIMEOUT` alone.
const ACTIVITY: Limits = Limits { steps: u64::MAX, memory: 512 << 20, time: Duration::MAX };

struct Job {
    element: ElementId,
    attempt: u32,
    activity: usize,
    parameters: Vec<Value>,
    stop: Arc<AtomicBool>,
}

enum Message {
    Answered(ElementId, u32, Answer),
    Called(Box<SharedCall>, Sender<Result<Value, String>>),
    Printed(ElementId, String),
}

/// Who looks on while a process runs.
pub(crate) trait Watcher {
    /// Something has happened.
    fn stepped(&mut self, engine: &Engine);
    /// An activity has printed something.
    fn printed(&mut self, path: &str, line: &str);
}

/// Runs a process to its end, or to the time-out, after which it is cancelled. Gives its last state and whether time
/// ran out; `Err` tells what is wrong with the parameters.
pub(crate) fn run(
    program: &Arc<Program>,
    start: Start,
    workers: u16,
    timeout: Option<Duration>,
    watcher: &mut impl Watcher,
) -> Result<(State, bool), Vec<String>> {
    let began = Instant::now();
    let now = || Time(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    let process = start.id.to_string();
    let mut out = Output::default();
    let mut engine = Engine::start(program.clone(), start, now(), &mut out)?;
    let mut sandbox = Sandbox::new(Limits::CONTROL, false).map_err(|error| vec![error.to_string()])?;
    engine.set_room(u64::from(workers));
    let (to_workers, jobs) = channel::<Job>();
    let jobs = Arc::new(Mutex::new(jobs));
    let (to_me, messages) = channel::<Message>();
    for _ in 0..workers {
        let (program, jobs, to_me) = (program.clone(), jobs.clone(), to_me.clone());
        std::thread::spawn(move || work(&program, &jobs, &to_me));
    }
    let mut stops: HashMap<ElementId, Arc<AtomicBool>> = HashMap::new();
    let mut waiting: HashMap<(ElementId, u64), Sender<Result<Value, String>>> = HashMap::new();
    let mut timed_out = false;
    let mut input = Some(Input::Continued);
    loop {
        if let Some(input) = input.take() {
            // A rejected input changed nothing, and nobody waits for it: it was late.
            let _ = engine.step(&mut sandbox, input, now(), &mut out);
        }
        out.events.clear();
        let mut go_on = false;
        for command in out.commands.drain(..) {
            match command {
                Command::Dispatch { element, attempt, activity, parameters } => {
                    let stop = Arc::new(AtomicBool::new(false));
                    stops.insert(element, stop.clone());
                    // The workers live as long as this function.
                    let _ = to_workers.send(Job { element, attempt, activity, parameters, stop });
                }
                Command::Cancel { element, .. } => {
                    if let Some(stop) = stops.get(&element) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                Command::Reply { element, sequence, result, .. } => {
                    if let Some(caller) = waiting.remove(&(element, sequence)) {
                        let _ = caller.send(result);
                    }
                }
                Command::Continue => go_on = true,
                // Nothing is delegated: the engine was not told that there is anyone.
                Command::Finish { .. } | Command::Delegate(_) | Command::Pause { .. } => {}
            }
        }
        watcher.stepped(&engine);
        if engine.state().ended().is_some() {
            return Ok((engine.state().clone(), timed_out));
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        if left == Some(Duration::ZERO) && !timed_out {
            timed_out = true;
            input = Some(Input::Steered { path: process.clone(), action: Action::Cancel });
            continue;
        }
        let due = engine.next_deadline().map(|deadline| Duration::from_millis(deadline.0.saturating_sub(now().0)));
        let wait = match (go_on, due, left.filter(|_| !timed_out)) {
            (true, ..) => Duration::ZERO,
            (_, Some(due), Some(left)) => due.min(left),
            (_, due, left) => due.or(left).unwrap_or(Duration::from_secs(3600)),
        };
        input = match messages.recv_timeout(wait) {
            Ok(Message::Answered(element, attempt, answer)) => {
                stops.remove(&element);
                Some(Input::Answered { element, attempt, answer })
            }
            Ok(Message::Called(call, caller)) => {
                waiting.insert((call.element, call.sequence), caller);
                Some(Input::Called(call))
            }
            Ok(Message::Printed(element, line)) => {
                watcher.printed(&engine.path(element), &line);
                None
            }
            Err(RecvTimeoutError::Timeout) if go_on => Some(Input::Continued),
            Err(_) => Some(Input::TimePassed),
        };
    }
}

fn work(program: &Program, jobs: &Mutex<Receiver<Job>>, to_me: &Sender<Message>) {
    let mut sandbox = Sandbox::new(ACTIVITY, true);
    loop {
        let next = jobs.lock().map(|jobs| jobs.recv());
        let Ok(Ok(job)) = next else { return };
        let (element, attempt) = (job.element, job.attempt);
        let answer = match &mut sandbox {
            Ok(sandbox) => attempt_job(program, sandbox, job, to_me),
            Err(error) => Answer::Failed(Box::new(Failure::new(FailureKind::Worker, error.to_string()))),
        };
        if to_me.send(Message::Answered(element, attempt, answer)).is_err() {
            return;
        }
    }
}

fn attempt_job(program: &Program, sandbox: &mut Sandbox, job: Job, to_me: &Sender<Message>) -> Answer {
    let activity = &program.activities[job.activity];
    let ActivityCode::Lua { code, .. } = &activity.code else {
        let message = format!("activity type {:?} is not Lua, which is all that runs here", activity.name);
        return Answer::Failed(Box::new(Failure::new(FailureKind::Worker, message)));
    };
    let mut arguments = job.parameters;
    arguments.resize(activity.parameters.len(), Value::Null);
    arguments.push(Value::Int(job.attempt.into()));
    let (element, attempt) = (job.element, job.attempt);
    let link = Link { element, attempt, sequence: 0, stop: job.stop, to_me: to_me.clone() };
    match sandbox.run_activity(code, &arguments, Box::new(link)) {
        Ok(results) => Answer::Completed(results),
        Err(error) if error.kind == ErrorKind::Stopped => Answer::Cancelled,
        Err(error) => {
            let kind = if error.kind == ErrorKind::Code { FailureKind::Code } else { FailureKind::Limit };
            Answer::Failed(Box::new(Failure::new(kind, error.message).at_line(error.line)))
        }
    }
}

/// What a running activity has of the world: shared objects, and a place to print to.
struct Link {
    element: ElementId,
    attempt: u32,
    sequence: u64,
    stop: Arc<AtomicBool>,
    to_me: Sender<Message>,
}

impl RemoteObjects for Link {
    fn call(&mut self, object: &SharedRef, method: Method, arguments: Vec<Value>) -> Result<Value, String> {
        let acknowledged = self.sequence;
        if method.changes() {
            self.sequence += 1;
        }
        let call = SharedCall {
            element: self.element,
            attempt: self.attempt,
            caller: 0,
            sequence: self.sequence,
            acknowledged,
            object: object.clone(),
            method,
            arguments,
        };
        let (answer, answered) = channel();
        let gone = || "the process has ended".to_owned();
        self.to_me.send(Message::Called(Box::new(call), answer)).map_err(|_| gone())?;
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }

    fn print(&mut self, line: &str) {
        let _ = self.to_me.send(Message::Printed(self.element, line.to_owned()));
    }

    fn stopped(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
