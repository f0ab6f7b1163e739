//! What users, monitors and nodes ask of a coordinator.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};
use tracing::info;
use xavantes_engine::{Action, ElementId, Engine, Output, Rejection, Start, Time};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::{LineIndex, Source};
use xavantes_model::load::load;
use xavantes_model::value::Value;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinator;
use xavantes_proto::{v1, value_from};

use crate::convert::start_from;
use crate::foster::{Fosters, Parent, Report};
use crate::link::{self, Context};
use crate::pool::{Pool, PoolMail, Share, key_of};
use crate::process::{Driver, Handle, Mail, Processes, mailbox, unix_ms};

/// How a coordinator is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// Its group.
    pub group: String,
    /// The managers of the group.
    pub managers: Vec<String>,
    /// Groups whose subtrees are taken; none means all.
    pub foreign_groups: Vec<String>,
    /// Activities that a foreign subtree may have out at once.
    pub foreign_slots: u32,
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
    share: watch::Receiver<Share>,
    fosters: Arc<Fosters>,
    memory: Mutex<Memory>,
    random: RandomState,
}

#[derive(Default)]
struct Memory {
    /// Requests that were answered, with the processes that they started.
    requests: HashMap<String, Arc<str>>,
    /// Programs by digest: the same documents are loaded once.
    programs: HashMap<String, (Arc<Program>, Arc<v1::Program>)>,
    /// Digests of programs in the order in which they were submitted.
    submitted: Vec<String>,
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
            life: RandomState::new().hash_one(unix_ms()),
        };
        let managers = options.managers.clone().into();
        let context = Context { hello, processes: processes.clone(), pool: pool.clone(), managers };
        let (task, share) = Pool::new(context);
        tokio::spawn(task.run(mail));
        let (memory, random) = (Mutex::default(), RandomState::new());
        let fosters = Arc::default();
        Self { shared: Arc::new(Shared { options, processes, pool, share, fosters, memory, random }) }
    }

    /// The group as its manager knows it now.
    pub fn set_roster(&self, roster: v1::Roster) {
        let _ = self.shared.pool.send(PoolMail::Roster(roster));
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
        let mut memory = self.memory();
        memory.submitted.push(digest.clone());
        memory.programs.insert(digest, loaded.clone());
        Ok(loaded)
    }

    fn submit_process(&self, request: v1::SubmitRequest) -> Result<Arc<str>, Status> {
        let (program, wire_program) = self.program(request.documents)?;
        let wanted = Some(request.process_type.as_str()).filter(|name| !name.is_empty());
        let process = program.entry(wanted).map_err(Status::invalid_argument)?;
        let parameters = request
            .parameters
            .into_iter()
            .map(|parameter| Ok((parameter.name, value_from(parameter.value.unwrap_or_default())?)))
            .collect::<Result<Vec<(String, Value)>, Status>>()?;
        let process_type = program.processes[process].name.to_string();
        loop {
            let id = self.new_id(&process_type);
            let start = Start::new(id.as_str(), process, parameters.clone());
            if let Some(id) = self.start(program.clone(), wire_program.clone(), start, None)? {
                return Ok(id);
            }
        }
    }

    /// Starts a process; nothing if its id is taken. Bad parameters leave nothing behind.
    fn start(
        &self,
        program: Arc<Program>,
        wire_program: Arc<v1::Program>,
        start: Start,
        parent: Option<Parent>,
    ) -> Result<Option<Arc<str>>, Status> {
        let (id, root) = (start.id.clone(), start.root);
        let mut output = Output::default();
        let process_type = program.processes[root.process].name.to_string();
        let engine = Engine::start(program, start, Time(0), &mut output)
            .map_err(|problems| Status::invalid_argument(problems.join("\n")))?;
        let (mail, receiver) = mailbox();
        let (status, status_reader) = watch::channel(v1::ProcessStatus {
            process: id.to_string(),
            process_type,
            state: v1::ProcessState::Running.into(),
            counts: Some(v1::Counts::default()),
            submitted_ms: unix_ms(),
            node: self.shared.options.node.clone(),
            group: self.shared.options.group.clone(),
            ..v1::ProcessStatus::default()
        });
        let (results, results_reader) = watch::channel(Vec::new());
        let handle = Handle { mail, status: status_reader, results: results_reader };
        if !self.shared.processes.add(id.clone(), handle) {
            return Ok(None);
        }
        let _ = self.shared.pool.send(PoolMail::Began(id.clone()));
        let most = if parent.is_some() { self.shared.options.foreign_slots.into() } else { u64::MAX };
        let driver = Driver {
            engine,
            id: id.clone(),
            wire_program,
            began: Instant::now(),
            pool: self.shared.pool.clone(),
            share: self.shared.share.clone(),
            parent,
            most,
            root,
            mail: receiver,
            status,
            results,
            output,
            printed: self.shared.options.printed.clone(),
            elsewhere: v1::Counts::default(),
        };
        tokio::spawn(driver.run());
        info!(process = %id, "process started");
        self.remember(&id);
        Ok(Some(id))
    }

    /// A subtree of another coordinator's process arrives.
    fn foster(&self, coordinator: &Arc<str>, group: &str, job: v1::Job) {
        let fosters = &self.shared.fosters;
        let (Some(id), Some(subtree)) = (job.id, job.subtree) else { return };
        let (key, path): (_, Arc<str>) = (key_of(&id), job.path.into());
        if !fosters.arrive(coordinator, &key, &path) {
            return;
        }
        let allowed = &self.shared.options.foreign_groups;
        let own = group == self.shared.options.group;
        if !own && !allowed.is_empty() && !allowed.iter().any(|known| known == group) {
            return fosters.refuse(coordinator, &key, "this group takes no work of yours");
        }
        let known = self.memory().programs.get(&job.program).cloned();
        let Some((program, wire_program)) = known else {
            return fosters.refuse(coordinator, &key, "the program is not known here");
        };
        let start = match start_from(&program, path, job.parameters, subtree) {
            Ok(start) => start,
            Err(unfit) => return fosters.refuse(coordinator, &key, unfit.0),
        };
        let parent = Parent { coordinator: coordinator.clone(), key: key.clone(), fosters: fosters.clone() };
        match self.start(program, wire_program, start, Some(parent)) {
            Ok(Some(_)) => {}
            Ok(None) => fosters.refuse(coordinator, &key, "another attempt of this element is here"),
            Err(status) => fosters.refuse(coordinator, &key, status.message()),
        }
    }

    /// Carries out a parent's orders.
    async fn take(&self, coordinator: &Arc<str>, group: &str, order: v1::WorkOrder) {
        let fosters = &self.shared.fosters;
        for program in order.programs {
            // One that is not valid is not known afterwards, and its subtrees are refused.
            let _ = self.program(program.documents);
        }
        for id in &order.acknowledged {
            if let Some(process) = fosters.acknowledge(coordinator, id) {
                self.shared.processes.remove(&process);
            }
        }
        for job in order.jobs {
            self.foster(coordinator, group, job);
        }
        for id in &order.cancels {
            self.steer_foster(fosters.cancel(coordinator, id), Action::Cancel).await;
        }
        for pause in order.pauses {
            let action = if pause.paused { Action::Pause } else { Action::Resume };
            let process = fosters.process(coordinator, &pause.id.unwrap_or_default());
            self.steer_foster(process, action).await;
        }
        for reply in order.replies {
            fosters.reply(reply);
        }
    }

    async fn steer_foster(&self, process: Option<Arc<str>>, action: Action) {
        if let Some(path) = process
            && let Some(handle) = self.shared.processes.find(&path)
        {
            // It may be in that state already; then there is nothing to do.
            let (verdict, _) = oneshot::channel();
            let _ = handle.mail.send(Mail::Steer { path: path.to_string(), action, verdict }).await;
        }
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

    /// The process that a path is in: of those whose ids the path begins with, the innermost.
    #[allow(clippy::result_large_err)] // A status is what gRPC answers with.
    fn find(&self, path: &str) -> Result<(Arc<str>, Handle), Status> {
        let mut id = path;
        loop {
            if let Some(process) = self.shared.processes.find(id) {
                return Ok((id.into(), process));
            }
            match id.rsplit_once('/') {
                Some((shorter, _)) => id = shorter,
                None => return Err(Status::not_found(format!("there is no process {id:?} here"))),
            }
        }
    }

    /// Where a delegated element runs.
    async fn whereabouts(&self, process: Arc<str>, element: ElementId, attempt: u32) -> Option<String> {
        let (places, placed) = oneshot::channel();
        let key = (process, element.bits(), attempt);
        self.shared.pool.send(PoolMail::Where(vec![key], places)).ok()?;
        Some(placed.await.ok()?.pop()??.address)
    }
}

async fn there(address: &str) -> Result<ProcessCoordinatorClient<Channel>, Status> {
    let channel = link::connect(address).await;
    let channel = channel.map_err(|_| Status::unavailable(format!("the coordinator at {address} does not answer")))?;
    let most = xavantes_proto::MAX_MESSAGE;
    Ok(ProcessCoordinatorClient::new(channel).max_decoding_message_size(most))
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
    type DelegateStream = Pin<Box<dyn Stream<Item = Result<v1::WorkReport, Status>> + Send>>;

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitResponse>, Status> {
        let request = request.into_inner();
        let request_id = request.request_id.clone();
        if let Some(process) = self.memory().requests.get(&request_id).filter(|_| !request_id.is_empty()) {
            return Ok(Response::new(v1::SubmitResponse { process: process.to_string() }));
        }
        let id = self.submit_process(request)?;
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
        let (id, process) = self.find(&request.path)?;
        let (answer, answered) = oneshot::channel();
        let depth = request.depth.min(1000);
        let mail = Mail::Show { path: request.path.clone(), depth, answer };
        let ended = || Status::failed_precondition("the process has ended");
        process.mail.send(mail).await.map_err(|_| ended())?;
        match answered.await.map_err(|_| ended())? {
            Ok(element) => Ok(Response::new(v1::ShowResponse { element: Some(element) })),
            Err(rejection) => match self.elsewhere(id, &rejection).await {
                Some(address) => there(&address).await?.show(request).await,
                None => Err(refuse(&rejection)),
            },
        }
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let mut status = self.find(&request.into_inner().process)?.1.status;
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
        let (_, process) = self.find(&request.into_inner().process)?;
        let status = process.status.borrow().clone();
        let results = process.results.borrow().clone();
        Ok(Response::new(v1::ResultsResponse { status: Some(status), results }))
    }

    async fn steer(&self, request: Request<v1::SteerRequest>) -> Result<Response<v1::SteerResponse>, Status> {
        use v1::steer_request::Action as Wanted;
        let request = request.into_inner();
        let (id, process) = self.find(&request.path)?;
        let action = match request.action.clone().ok_or_else(|| Status::invalid_argument("no action"))? {
            Wanted::Cancel(_) => Action::Cancel,
            Wanted::Pause(_) => Action::Pause,
            Wanted::Resume(_) => Action::Resume,
            Wanted::Retry(_) => Action::Retry,
            Wanted::Set(setting) => Action::Set { key: setting.key, value: setting.value },
        };
        let (verdict, decided) = oneshot::channel();
        let mail = Mail::Steer { path: request.path.clone(), action, verdict };
        let ended = || Status::failed_precondition("the process has ended");
        process.mail.send(mail).await.map_err(|_| ended())?;
        match decided.await.map_err(|_| ended())? {
            Ok(()) => Ok(Response::new(v1::SteerResponse {})),
            Err(rejection) => match self.elsewhere(id, &rejection).await {
                Some(address) => there(&address).await?.steer(request).await,
                None => Err(refuse(&rejection)),
            },
        }
    }

    async fn list_types(&self, _: Request<v1::ListTypesRequest>) -> Result<Response<v1::ListTypesResponse>, Status> {
        let mut types = Vec::new();
        for (digest, (program, _)) in &self.memory().programs {
            let describe = |name: &Arc<str>, kind: &str, source: usize| v1::TypeDescription {
                name: name.to_string(),
                kind: kind.into(),
                digest: digest.clone(),
                document: program.sources.get(source).map_or_else(String::new, |name| name.to_string()),
            };
            types.extend(program.processes.iter().map(|it| describe(&it.name, "process", it.source)));
            types.extend(program.activities.iter().map(|it| describe(&it.name, "activity", it.source)));
        }
        types.sort_by(|a, b| (&a.kind, &a.name, &a.digest).cmp(&(&b.kind, &b.name, &b.digest)));
        Ok(Response::new(v1::ListTypesResponse { types }))
    }

    async fn find_types(
        &self,
        request: Request<v1::FindTypesRequest>,
    ) -> Result<Response<v1::FindTypesResponse>, Status> {
        let mut documents: Vec<v1::Document> = Vec::new();
        let memory = self.memory();
        for name in request.into_inner().names {
            let defines = |program: &Program| {
                program.processes.iter().any(|it| *it.name == *name)
                    || program.activities.iter().any(|it| *it.name == *name)
            };
            let latest = memory.submitted.iter().rev().filter_map(|digest| memory.programs.get(digest));
            if let Some((_, wire)) = latest.into_iter().find(|(program, _)| defines(program)) {
                for document in &wire.documents {
                    if !documents.contains(document) {
                        documents.push(document.clone());
                    }
                }
            }
        }
        Ok(Response::new(v1::FindTypesResponse { documents }))
    }

    async fn delegate(
        &self,
        request: Request<Streaming<v1::WorkOrder>>,
    ) -> Result<Response<Self::DelegateStream>, Status> {
        let mut orders = request.into_inner();
        let first = orders.message().await?.ok_or_else(|| Status::invalid_argument("no first order"))?;
        let hello = first.hello.clone().ok_or_else(|| Status::invalid_argument("the first order has no hello"))?;
        let name = format!("{}/{}#", hello.group, hello.node);
        let (coordinator, group): (Arc<str>, _) = (format!("{name}{:x}", hello.life).into(), hello.group);
        for process in self.shared.fosters.retire(&name, &coordinator) {
            self.steer_foster(Some(process), Action::Cancel).await;
        }
        info!(%coordinator, "a coordinator hands over subtrees");
        let (mut hello, mut reports) = self.shared.fosters.connect(&coordinator);
        hello.node.clone_from(&self.shared.options.node);
        hello.version = env!("CARGO_PKG_VERSION").into();
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            let first = v1::WorkReport { hello: Some(hello), ..v1::WorkReport::default() };
            if sender.send(Ok(first)).await.is_err() {
                return;
            }
            let mut batch = Vec::new();
            while reports.recv_many(&mut batch, 256).await > 0 {
                while !batch.is_empty() {
                    let count = xavantes_proto::fitting(batch.iter().map(Report::size));
                    let mut message = v1::WorkReport::default();
                    for report in batch.drain(..count) {
                        match report {
                            Report::Answer(answer) => message.answers.push(answer),
                            Report::Call(call) => message.calls.push(call),
                        }
                    }
                    if sender.send(Ok(message)).await.is_err() {
                        return;
                    }
                }
            }
        });
        let service = self.clone();
        tokio::spawn(async move {
            service.take(&coordinator, &group, first).await;
            // When the stream breaks the subtrees go on; the parent will ask for them.
            while let Some(Ok(order)) = orders.next().await {
                service.take(&coordinator, &group, order).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

impl Service {
    /// The coordinator that an input must go to instead.
    async fn elsewhere(&self, process: Arc<str>, rejection: &Rejection) -> Option<String> {
        match rejection {
            Rejection::Delegated { element, attempt } => self.whereabouts(process, *element, *attempt).await,
            _ => None,
        }
    }
}
