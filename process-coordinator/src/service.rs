//! What users, monitors and nodes ask of a coordinator.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};
use tracing::info;
use xavantes_engine::{Action, Engine, Output, Rejection, Start, Time};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::{LineIndex, Source};
use xavantes_model::load::load;
use xavantes_model::value::Value;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinator;
use xavantes_proto::{v1, value_from};

use crate::link::Context;
use crate::pool::{Pool, PoolMail};
use crate::process::{Driver, Handle, Mail, Processes, mailbox, unix_ms};

/// How a coordinator is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// Its group.
    pub group: String,
    /// Where lines that activities print go, with the paths of their elements.
    pub printed: Option<Printed>,
}

/// Takes lines that activities print. A program that runs a grid for one user shows them; others keep none.
pub type Printed = mpsc::UnboundedSender<(String, String)>;

/// Ended processes that are remembered at most; the oldest go first.
const MOST_ENDED: usize = 10_000;
/// A watcher hears of changes at most so often, and always of the last one.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// The process coordinator; cheap to clone.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    processes: Processes,
    pool: mpsc::UnboundedSender<PoolMail>,
    share: watch::Receiver<u64>,
    memory: Mutex<Memory>,
    random: RandomState,
}

#[derive(Default)]
struct Memory {
    /// Requests that were answered, with the processes that they started.
    requests: HashMap<String, Arc<str>>,
    /// Programs by digest: the same documents are loaded once.
    programs: HashMap<String, (Arc<Program>, Arc<v1::Program>)>,
    /// Processes in the order in which they were started.
    order: VecDeque<Arc<str>>,
    number: u64,
}

impl Service {
    /// A coordinator without workers yet.
    pub fn new(options: Options) -> Self {
        let (pool, mail) = mpsc::unbounded_channel();
        let processes = Processes::default();
        let hello = v1::CoordinatorHello {
            node: options.node.clone(),
            group: options.group.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let context = Context { hello, processes: processes.clone(), pool: pool.clone() };
        let (task, share) = Pool::new(context);
        tokio::spawn(task.run(mail));
        let (memory, random) = (Mutex::default(), RandomState::new());
        Self { shared: Arc::new(Shared { options, processes, pool, share, memory, random }) }
    }

    /// These workers take work now.
    pub fn set_workers(&self, workers: Vec<v1::NodeDescription>) {
        let _ = self.shared.pool.send(PoolMail::Roster(workers));
    }

    /// Processes that run.
    pub fn running(&self) -> u32 {
        let running = v1::ProcessState::Running as i32;
        self.shared.processes.all().iter().filter(|process| process.status.borrow().state == running).count() as u32
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        // Every change of it is one statement, so a poisoned lock is as good as another.
        self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads documents, or finds that it has.
    fn program(&self, documents: Vec<v1::Document>) -> Result<(Arc<Program>, Arc<v1::Program>), Status> {
        let mut hasher = blake3::Hasher::new();
        for document in &documents {
            for part in [&document.name, &document.text] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        let digest = hasher.finalize().to_hex().to_string();
        if let Some(known) = self.memory().programs.get(&digest) {
            return Ok(known.clone());
        }
        let sources: Vec<Source> =
            documents.iter().map(|document| Source::new(document.name.as_str(), document.text.as_str())).collect();
        let program = load(&sources).map_err(|problems| {
            let first = problems.iter().take(20).map(|problem| {
                let source = &sources[problem.span.source];
                let at = LineIndex::new(&source.text).position(&source.text, problem.span.bytes.start);
                format!("{}:{}:{}: {}", source.name, at.line, at.column, problem.message)
            });
            Status::invalid_argument(first.collect::<Vec<_>>().join("\n"))
        })?;
        let loaded = (Arc::new(program), Arc::new(v1::Program { digest: digest.clone(), documents }));
        self.memory().programs.insert(digest, loaded.clone());
        Ok(loaded)
    }

    fn start(&self, request: v1::SubmitRequest) -> Result<Arc<str>, Status> {
        let (program, wire_program) = self.program(request.documents)?;
        let wanted = Some(request.process_type.as_str()).filter(|name| !name.is_empty());
        let process = program.entry(wanted).map_err(Status::invalid_argument)?;
        let parameters = request
            .parameters
            .into_iter()
            .map(|parameter| Ok((parameter.name, value_from(parameter.value.unwrap_or_default())?)))
            .collect::<Result<Vec<(String, Value)>, Status>>()?;
        let process_type = program.processes[process].name.to_string();
        let (mail, receiver) = mailbox();
        let (status, status_reader) = watch::channel(v1::ProcessStatus {
            process_type: process_type.clone(),
            state: v1::ProcessState::Running.into(),
            counts: Some(v1::Counts::default()),
            submitted_ms: unix_ms(),
            node: self.shared.options.node.clone(),
            group: self.shared.options.group.clone(),
            ..v1::ProcessStatus::default()
        });
        let (results, results_reader) = watch::channel(Vec::new());
        let handle = Handle { mail, status: status_reader, results: results_reader };
        // Checked before the process exists, so that bad parameters leave nothing.
        let mut output = Output::default();
        let check = Start::new("check", process, parameters.clone());
        Engine::start(program.clone(), check, Time(0), &mut output)
            .map_err(|problems| Status::invalid_argument(problems.join("\n")))?;
        let id: Arc<str> = loop {
            let id: Arc<str> = self.new_id(&process_type).into();
            status.send_modify(|status| status.process = id.to_string());
            if self.shared.processes.add(id.clone(), handle.clone()) {
                break id;
            }
        };
        let mut output = Output::default();
        let start = Start::new(id.clone(), process, parameters);
        let engine = Engine::start(program, start, Time(0), &mut output)
            .map_err(|problems| Status::invalid_argument(problems.join("\n")))?;
        let _ = self.shared.pool.send(PoolMail::Began(id.clone()));
        let driver = Driver {
            engine,
            id: id.clone(),
            wire_program,
            began: Instant::now(),
            pool: self.shared.pool.clone(),
            share: self.shared.share.clone(),
            mail: receiver,
            status,
            results,
            output,
            printed: self.shared.options.printed.clone(),
        };
        tokio::spawn(driver.run());
        info!(process = %id, "process started");
        self.remember(&id);
        Ok(id)
    }

    /// `FindPrimes-7f3a`: short enough to type; longer when short ones run out.
    fn new_id(&self, process_type: &str) -> String {
        let number = {
            let mut memory = self.memory();
            memory.number += 1;
            memory.number
        };
        let digits = if number > 10_000 { 8 } else { 4 };
        let random = self.shared.random.hash_one(number);
        format!("{process_type}-{:0digits$x}", random & ((1u64 << (4 * digits)) - 1))
    }

    /// Forgets the oldest of the ended processes when there are too many.
    fn remember(&self, id: &Arc<str>) {
        let mut memory = self.memory();
        memory.order.push_back(id.clone());
        let mut looks = memory.order.len().saturating_sub(MOST_ENDED);
        while looks > 0
            && let Some(oldest) = memory.order.pop_front()
        {
            looks -= 1;
            let ended = self.shared.processes.find(&oldest).is_none_or(|process| process.status.borrow().ended_ms > 0);
            if ended {
                self.shared.processes.remove(&oldest);
            } else {
                memory.order.push_back(oldest);
            }
        }
    }

    #[allow(clippy::result_large_err)] // A status is what gRPC answers with.
    fn find(&self, path: &str) -> Result<Handle, Status> {
        let id = path.split('/').next().unwrap_or_default();
        self.shared.processes.find(id).ok_or_else(|| Status::not_found(format!("there is no process {id:?} here")))
    }
}

fn refuse(rejection: &Rejection) -> Status {
    let code = match rejection {
        Rejection::NoSuchElement(_) => Code::NotFound,
        _ => Code::FailedPrecondition,
    };
    Status::new(code, rejection.to_string())
}

#[tonic::async_trait]
impl ProcessCoordinator for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::ProcessStatus, Status>> + Send>>;

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitResponse>, Status> {
        let request = request.into_inner();
        let request_id = request.request_id.clone();
        if let Some(process) = self.memory().requests.get(&request_id).filter(|_| !request_id.is_empty()) {
            return Ok(Response::new(v1::SubmitResponse { process: process.to_string() }));
        }
        let id = self.start(request)?;
        if !request_id.is_empty() {
            self.memory().requests.insert(request_id, id.clone());
        }
        Ok(Response::new(v1::SubmitResponse { process: id.to_string() }))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let mut processes: Vec<v1::ProcessStatus> =
            self.shared.processes.all().iter().map(|process| process.status.borrow().clone()).collect();
        processes.sort_by(|a, b| (a.submitted_ms, &a.process).cmp(&(b.submitted_ms, &b.process)));
        Ok(Response::new(v1::ListResponse { processes }))
    }

    async fn show(&self, request: Request<v1::ShowRequest>) -> Result<Response<v1::ShowResponse>, Status> {
        let request = request.into_inner();
        let process = self.find(&request.path)?;
        let (answer, answered) = oneshot::channel();
        let depth = request.depth.min(1000);
        let mail = Mail::Show { path: request.path, depth, answer };
        let ended = || Status::failed_precondition("the process has ended");
        process.mail.send(mail).await.map_err(|_| ended())?;
        let element = answered.await.map_err(|_| ended())?.map_err(|rejection| refuse(&rejection))?;
        Ok(Response::new(v1::ShowResponse { element: Some(element) }))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let mut status = self.find(&request.into_inner().process)?.status;
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let now = status.borrow_and_update().clone();
                let ended = now.ended_ms > 0;
                if sender.send(Ok(now)).await.is_err() || ended {
                    return;
                }
                tokio::select! {
                    changed = status.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
                // Waits for more, unless that was the end.
                let over = status.wait_for(|status| status.ended_ms > 0);
                let _ = tokio::time::timeout(WATCH_EVERY, over).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn results(&self, request: Request<v1::ResultsRequest>) -> Result<Response<v1::ResultsResponse>, Status> {
        let process = self.find(&request.into_inner().process)?;
        let status = process.status.borrow().clone();
        let results = process.results.borrow().clone();
        Ok(Response::new(v1::ResultsResponse { status: Some(status), results }))
    }

    async fn steer(&self, request: Request<v1::SteerRequest>) -> Result<Response<v1::SteerResponse>, Status> {
        use v1::steer_request::Action as Wanted;
        let request = request.into_inner();
        let process = self.find(&request.path)?;
        let action = match request.action.ok_or_else(|| Status::invalid_argument("no action"))? {
            Wanted::Cancel(_) => Action::Cancel,
            Wanted::Pause(_) => Action::Pause,
            Wanted::Resume(_) => Action::Resume,
            Wanted::Retry(_) => Action::Retry,
            Wanted::Set(setting) => Action::Set { key: setting.key, value: setting.value },
        };
        let (verdict, decided) = oneshot::channel();
        let mail = Mail::Steer { path: request.path, action, verdict };
        let ended = || Status::failed_precondition("the process has ended");
        process.mail.send(mail).await.map_err(|_| ended())?;
        decided.await.map_err(|_| ended())?.map_err(|rejection| refuse(&rejection))?;
        Ok(Response::new(v1::SteerResponse {}))
    }
}
