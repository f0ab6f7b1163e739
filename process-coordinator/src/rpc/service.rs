//! What users, monitors and nodes ask of a coordinator.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};
use tracing::info;
use xavantes_engine::{Action, Rejection, Root};
use xavantes_model::definition::NodeId;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinator;
use xavantes_proto::{Assembler, MAX_LARGE, MAX_PART, connect, pack, question, v1};
use xavantes_repository::{Entry, Error, Store};

use crate::attempt::AttemptKey;
use crate::cache::explain;
use crate::coordinator::{Coordinator, unavailable};
use crate::process::driver::{Incoming, Wanted};
use crate::process::journal::{self, Head, Placement, Summary};
use crate::process::runner::{Handle, MOST_SHOWN, Mail};
use crate::rpc::follow::follow;
use crate::rpc::logs;
use crate::subtrees::hosted::Caller;
use crate::subtrees::parents::Report;
use crate::workers::dispatcher::PoolMail;
use crate::workers::messages::{MoveOutcome, Whereabouts};

/// How a coordinator is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// Its group.
    pub group: String,
    /// Where it is reached.
    pub address: String,
    /// The managers of the group.
    pub managers: Vec<String>,
    /// Groups whose subtrees are taken; none means all.
    pub foreign_groups: Vec<String>,
    /// Activities that a foreign subtree may have out at once.
    pub foreign_slots: u32,
    /// How long ended processes are kept at most.
    pub retention_age: Option<Duration>,
    /// How many bytes ended processes take together at most.
    pub retention_size: Option<u64>,
    /// How many bytes results take together at most that activities may use again.
    pub reuse_size: u64,
    /// Other coordinators use the same repository.
    pub shared: bool,
    /// Files of this node: those that users bring for their processes, and results.
    pub files: Option<xavantes_files::Fetcher>,
    /// Where lines that activities print go, with the paths of their elements.
    pub printed: Option<Printed>,
}

/// Takes lines that activities print. A program that runs a grid for one user shows them; others keep none.
pub type Printed = mpsc::UnboundedSender<(String, String)>;

/// A watcher hears of changes at most so often, and always of the last one.
const WATCH_EVERY: Duration = Duration::from_millis(200);
/// Levels that are shown at most.
const DEEPEST: u32 = 1000;

/// The process coordinator; cheap to clone.
#[derive(Clone)]
pub struct Service {
    coordinator: Arc<Coordinator>,
}

/// A process that somebody asks for.
enum Found {
    Running(Arc<str>, Handle),
    /// It has ended, or another coordinator runs it.
    Kept(Box<Entry>),
}

impl Service {
    /// A coordinator with the processes that it had, without workers yet.
    pub async fn open(options: Options, repository: Store) -> Result<Self, Error> {
        Ok(Self { coordinator: Coordinator::open(options, repository).await? })
    }

    /// The group as its manager knows it now.
    pub fn set_roster(&self, roster: v1::Roster) {
        let _ = self.coordinator.pool.send(PoolMail::Roster(roster));
    }

    /// Processes that run.
    pub fn running(&self) -> u32 {
        self.coordinator.processes.len() as u32
    }

    /// Carries out a parent's orders.
    async fn take(&self, caller: &Caller, stream: u64, hello: &v1::CoordinatorHello, order: v1::WorkOrder) {
        let coordinator = &self.coordinator;
        let parents = &coordinator.parents;
        for program in order.programs {
            // One that is not valid is not known afterwards, and its subtrees are refused.
            let _ = coordinator.programs.add(program.documents);
        }
        for id in &order.acknowledged {
            if let Some(process) = parents.acknowledge(caller, id) {
                coordinator.discard(&process);
            }
        }
        if !order.claims.is_empty() {
            parents.claim(caller, order.claims);
        }
        for job in order.jobs {
            coordinator.foster(caller, stream, hello, job).await;
        }
        for id in &order.cancels {
            coordinator.tell_foster(parents.cancel(caller, id), Incoming::Stopped).await;
        }
        for pause in order.pauses {
            let process = parents.process(caller, &pause.id.unwrap_or_default());
            coordinator.tell_foster(process, Incoming::Paused(pause.paused)).await;
        }
        for reply in order.replies {
            parents.reply(reply);
        }
    }

    /// The process that a path is in: of those whose ids the path begins with, the innermost.
    async fn find(&self, path: &str) -> Result<Found, Status> {
        let mut id = path;
        loop {
            if let Some(process) = self.coordinator.processes.find(id) {
                return Ok(Found::Running(id.into(), process));
            }
            if let Some((process, handle)) = self.coordinator.processes.at(id) {
                return Ok(Found::Running(process, handle));
            }
            let kept = self.coordinator.repository.find(id).await.map_err(|error| unavailable(&error))?;
            if let Some(entry) = kept {
                return Ok(Found::Kept(Box::new(entry)));
            }
            match id.rsplit_once('/') {
                Some((shorter, _)) => id = shorter,
                None => return Err(Status::not_found(format!("there is no process {id:?} here"))),
            }
        }
    }

    /// The same, if it runs here.
    async fn find_running(&self, path: &str) -> Result<(Arc<str>, Handle), Status> {
        match self.find(path).await? {
            Found::Running(id, handle) => Ok((id, handle)),
            Found::Kept(entry) if entry.summary.is_some() => Err(ended()),
            Found::Kept(entry) => Err(not_here(&entry)),
        }
    }

    /// An activity that is not alive any more, if a worker still knows of it.
    async fn ended_activity(&self, path: String) -> Option<v1::Element> {
        let records = logs::records(&self.coordinator, &path).await;
        let Some(last) = records.last() else { return explain::reused(&self.coordinator, path).await };
        let (condition, attempts) = (condition(last.state()).into(), last.attempt);
        let worker = last.usage.as_ref().map_or_else(String::new, |usage| usage.node.clone());
        Some(v1::Element {
            path,
            tag: "ACTIVITY".into(),
            condition,
            attempts,
            worker,
            records,
            ..v1::Element::default()
        })
    }

    /// What became of an element of a process that has ended.
    async fn ended_element(&self, entry: &Entry, path: &str, depth: u32) -> Result<v1::Element, Status> {
        let Some(summary) = &entry.summary else { return Err(not_here(entry)) };
        let lost = |error: journal::Unreadable| Status::data_loss(error.to_string());
        let summary: Summary = journal::read("summary", summary).map_err(lost)?;
        let head: Head = journal::read("head", &entry.head).map_err(lost)?;
        let (status, past) = (summary.status().map_err(lost)?, summary.past().map_err(lost)?);
        let program = self.coordinator.programs.fetch(&head.program).await.map_err(|error| unavailable(&error))?;
        let (program, _) = program.ok_or_else(|| lost(journal::Unreadable("program")))?;
        let root = Root { process: head.root.0 as usize, node: NodeId(head.root.1) };
        let shown = past.element(&program, (root, &entry.process), path, (depth, MOST_SHOWN));
        let mut element = shown.map_err(Status::not_found)?;
        if element.path == entry.process {
            element.set_condition(ended_condition(status.state()));
            (element.runs, element.began_ms, element.ended_ms) = (1, status.submitted_ms, status.ended_ms);
            element.failure = status.failure;
        }
        Ok(element)
    }

    /// The coordinator that an input must go to instead.
    async fn elsewhere(&self, process: Arc<str>, rejection: &Rejection) -> Option<String> {
        let Rejection::Delegated { element, attempt } = rejection else { return None };
        let (places, placed) = oneshot::channel();
        let key = AttemptKey::new(process, element.bits(), *attempt);
        self.coordinator.pool.send(PoolMail::Where(vec![key], places)).ok()?;
        match placed.await.ok()?.pop()?? {
            Whereabouts::At { address, .. } => Some(address),
            Whereabouts::Waits(_) => None,
        }
    }
}

async fn there(address: &str) -> Result<ProcessCoordinatorClient<Channel>, Status> {
    let channel = connect(address).await;
    let channel = channel.map_err(|_| {
        Status::unavailable(format!(
            "the coordinator at {address} does not answer; if it is gone for good, give its part of the process up with \
             `xavantes retry PATH --elsewhere`"
        ))
    })?;
    let most = xavantes_proto::MAX_MESSAGE;
    Ok(ProcessCoordinatorClient::new(channel).max_decoding_message_size(most))
}

fn not_here(entry: &Entry) -> Status {
    let Entry { process, owner, .. } = entry;
    Status::failed_precondition(format!("process {process:?} is not run by this coordinator, but by {owner:?}"))
}

fn ended_condition(state: v1::ProcessState) -> v1::Condition {
    match state {
        v1::ProcessState::Completed => v1::Condition::Completed,
        v1::ProcessState::Cancelled => v1::Condition::Cancelled,
        _ => v1::Condition::Failed,
    }
}

fn condition(state: v1::AttemptState) -> v1::Condition {
    match state {
        v1::AttemptState::Running => v1::Condition::Running,
        v1::AttemptState::Completed => v1::Condition::Completed,
        v1::AttemptState::Failed => v1::Condition::Failed,
        v1::AttemptState::Cancelled => v1::Condition::Cancelled,
        v1::AttemptState::Unspecified => v1::Condition::Unspecified,
    }
}

fn ended() -> Status {
    Status::failed_precondition("the process has ended")
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
    type LogsStream = logs::Pieces;
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::ProcessStatus, Status>> + Send>>;
    type OutputsStream = Pin<Box<dyn Stream<Item = Result<v1::Part, Status>> + Send>>;
    type ResultsStream = Pin<Box<dyn Stream<Item = Result<v1::Part, Status>> + Send>>;
    type DelegateStream = Pin<Box<dyn Stream<Item = Result<v1::WorkReport, Status>> + Send>>;

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitResponse>, Status> {
        let process = self.coordinator.submit(request.into_inner()).await?;
        Ok(Response::new(v1::SubmitResponse { process: process.to_string() }))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let processes = self.coordinator.list().await.map_err(|error| unavailable(&error))?;
        Ok(Response::new(v1::ListResponse { processes }))
    }

    async fn show(&self, request: Request<v1::ShowRequest>) -> Result<Response<v1::ShowResponse>, Status> {
        let request = request.into_inner();
        let depth = request.depth.min(DEEPEST);
        let (id, process) = match self.find(&request.path).await? {
            Found::Running(id, process) => (id, process),
            Found::Kept(entry) => {
                let element = match self.ended_activity(request.path.clone()).await {
                    Some(element) => element,
                    None => self.ended_element(&entry, &request.path, depth).await?,
                };
                return Ok(Response::new(v1::ShowResponse { element: Some(element) }));
            }
        };
        let (answer, answered) = oneshot::channel();
        let mail = Mail::Show { path: request.path.clone(), depth, answer };
        process.mail.send(mail).await.map_err(|_| ended())?;
        match answered.await.map_err(|_| ended())? {
            Ok(mut element) => {
                if depth == 0 && element.tag == "ACTIVITY" {
                    element.records = logs::records(&self.coordinator, &request.path).await;
                }
                Ok(Response::new(v1::ShowResponse { element: Some(element) }))
            }
            Err(rejection) => match self.elsewhere(id, &rejection).await {
                Some(address) => question(there(&address).await?.show(request)).await.map(Response::new),
                None => match self.ended_activity(request.path).await {
                    Some(element) => Ok(Response::new(v1::ShowResponse { element: Some(element) })),
                    None => Err(refuse(&rejection)),
                },
            },
        }
    }

    async fn logs(&self, request: Request<v1::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        Ok(Response::new(logs::logs(&self.coordinator, request.into_inner()).await?))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let mut status = match self.find(&request.into_inner().process).await? {
            Found::Running(_, handle) => handle.status,
            Found::Kept(entry) => {
                let last = tokio_stream::once(Ok(self.coordinator.describe(&entry)));
                return Ok(Response::new(Box::pin(last)));
            }
        };
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let now = status.borrow_and_update().clone();
                let ended = now.ended_ms > 0;
                if sender.send(Ok(now)).await.is_err() || ended {
                    return;
                }
                // Many may watch: none of them is woken for every change.
                tokio::select! {
                    over = status.wait_for(|status| status.ended_ms > 0) => if over.is_err() { return },
                    () = tokio::time::sleep(WATCH_EVERY) => {}
                    () = sender.closed() => return,
                }
                // Nothing new is not told.
                while !status.has_changed().unwrap_or(true) {
                    tokio::select! {
                        changed = status.changed() => {
                            if changed.is_err() {
                                return;
                            }
                            status.mark_changed();
                        }
                        () = sender.closed() => return,
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn results(&self, request: Request<v1::ResultsRequest>) -> Result<Response<Self::ResultsStream>, Status> {
        let (status, results) = match self.find(&request.into_inner().process).await? {
            Found::Running(_, handle) => (handle.status.borrow().clone(), Vec::new()),
            Found::Kept(entry) => {
                let results = entry
                    .summary
                    .as_deref()
                    .map(|summary| journal::read("summary", summary).and_then(|summary: Summary| summary.results()));
                let results = results.transpose().map_err(|error| Status::data_loss(error.to_string()))?;
                let mut results = results.unwrap_or_default();
                self.coordinator.name_holders(&mut results).await;
                (self.coordinator.describe(&entry), results)
            }
        };
        let parts = xavantes_proto::split(&v1::ResultsResponse { status: Some(status), results });
        Ok(Response::new(Box::pin(tokio_stream::iter(parts.map(Ok)))))
    }

    async fn outputs(&self, request: Request<v1::OutputsRequest>) -> Result<Response<Self::OutputsStream>, Status> {
        let v1::OutputsRequest { process, exact } = request.into_inner();
        let (id, handle) = match self.find(&process).await? {
            Found::Running(id, handle) if !exact || *handle.path == *process => (id, handle),
            _ if exact => return Err(Status::not_found(format!("{process:?} does not run here"))),
            _ => return Ok(Response::new(Box::pin(tokio_stream::empty()))),
        };
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(follow(self.coordinator.pool.clone(), id, handle, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        explain::explain(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> Result<Response<v1::ForgetResponse>, Status> {
        let v1::ForgetRequest { processes, reusable } = request.into_inner();
        for process in &processes {
            if self.coordinator.processes.find(process).is_some() {
                return Err(Status::failed_precondition(format!(
                    "process {process:?} runs: cancel it first, or wait for its end"
                )));
            }
            let known = self.coordinator.repository.find(process).await.map_err(|error| unavailable(&error))?;
            if known.is_none() {
                return Err(Status::not_found(format!("there is no process {process:?} here")));
            }
        }
        self.coordinator.forget(&processes).await.map_err(|error| unavailable(&error))?;
        if reusable {
            self.coordinator.shelf.clear().await.map_err(|error| unavailable(&error))?;
        }
        Ok(Response::new(v1::ForgetResponse {}))
    }

    async fn steer(&self, request: Request<v1::SteerRequest>) -> Result<Response<v1::SteerResponse>, Status> {
        use v1::steer_request::Action as Asked;
        let request = request.into_inner();
        let (id, process) = self.find_running(&request.path).await?;
        let action = match request.action.clone().ok_or_else(|| Status::invalid_argument("no action"))? {
            Asked::Cancel(_) => Wanted::Action(Action::Cancel),
            Asked::Pause(_) => Wanted::Action(Action::Pause),
            Asked::Resume(_) => Wanted::Action(Action::Resume),
            Asked::Retry(v1::Retry { elsewhere: false }) => Wanted::Action(Action::Retry),
            Asked::Retry(v1::Retry { elsewhere: true }) => Wanted::Elsewhere,
            Asked::Set(setting) => Wanted::Action(Action::Set { key: setting.key, value: setting.value }),
        };
        let (verdict, decided) = oneshot::channel();
        let steered = Incoming::Steered { path: request.path.clone(), action, verdict };
        process.mail.send(steered.into()).await.map_err(|_| ended())?;
        match decided.await.map_err(|_| ended())? {
            Ok(()) => Ok(Response::new(v1::SteerResponse {})),
            Err(rejection) => match self.elsewhere(id, &rejection).await {
                Some(address) => question(there(&address).await?.steer(request)).await.map(Response::new),
                None => Err(refuse(&rejection)),
            },
        }
    }

    async fn list_types(&self, _: Request<v1::ListTypesRequest>) -> Result<Response<v1::ListTypesResponse>, Status> {
        let mut types = Vec::new();
        for (digest, program) in self.coordinator.programs.all() {
            let describe = |name: &Arc<str>, kind: v1::TypeKind, source: usize| v1::TypeDescription {
                name: name.to_string(),
                kind: kind.into(),
                digest: digest.clone(),
                document: program.sources.get(source).map_or_else(String::new, |name| name.to_string()),
            };
            types.extend(program.processes.iter().map(|it| describe(&it.name, v1::TypeKind::Process, it.source)));
            types.extend(program.activities.iter().map(|it| describe(&it.name, v1::TypeKind::Activity, it.source)));
        }
        types.sort_by(|a, b| (b.kind, &a.name, &a.digest).cmp(&(a.kind, &b.name, &b.digest)));
        Ok(Response::new(v1::ListTypesResponse { types }))
    }

    async fn find_types(
        &self,
        request: Request<v1::FindTypesRequest>,
    ) -> Result<Response<v1::FindTypesResponse>, Status> {
        let mut documents: Vec<v1::Document> = Vec::new();
        for name in request.into_inner().names {
            let program = self.coordinator.programs.defining(&name);
            for document in program.iter().flat_map(|program| &program.documents) {
                if !documents.contains(document) {
                    documents.push(document.clone());
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
        let caller = first.hello.clone().ok_or_else(|| Status::invalid_argument("the first order has no hello"))?;
        let coordinator =
            Caller { node: format!("{}/{}", caller.group, caller.node).into(), realm: caller.realm.as_str().into() };
        for (process, runs) in self.coordinator.parents.retire(&coordinator) {
            if runs {
                self.coordinator.tell_foster(Some(process), Incoming::Stopped).await;
            } else {
                self.coordinator.discard(&process);
            }
        }
        info!(%coordinator, "a coordinator hands over subtrees");
        let (number, mut hello, mut reports) = self.coordinator.parents.connect(&coordinator);
        hello.node.clone_from(&self.coordinator.options.node);
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
                    for part in pack(message(batch.drain(..count))) {
                        if sender.send(Ok(part)).await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        let service = self.clone();
        tokio::spawn(async move {
            service.take(&coordinator, number, &caller, first).await;
            let mut assembler = Assembler::new(MAX_LARGE + MAX_PART);
            // When the stream breaks the subtrees go on; the parent will ask for them.
            while let Some(Ok(order)) = orders.next().await {
                let Ok(order) = assembler.unpack(order) else { return };
                if !service.coordinator.parents.is_current(&coordinator, number) {
                    return;
                }
                if let Some(order) = order {
                    service.take(&coordinator, number, &caller, order).await;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn moved(&self, request: Request<v1::MovedRequest>) -> Result<Response<v1::MovedResponse>, Status> {
        let v1::MovedRequest { attempt, node, address, epoch } = request.into_inner();
        let key = AttemptKey::from(&attempt.ok_or_else(|| Status::invalid_argument("no attempt"))?);
        let place = Placement { node, address, epoch };
        let moved = self.coordinator.moved(key, place).await.map_err(|error| unavailable(&error))?;
        let (unwanted, settled) = (moved == MoveOutcome::Unwanted, moved == MoveOutcome::Recorded);
        Ok(Response::new(v1::MovedResponse { unwanted, settled }))
    }
}

fn message(reports: impl Iterator<Item = Report>) -> v1::WorkReport {
    let mut message = v1::WorkReport::default();
    for report in reports {
        match report {
            Report::Answer(answer) => message.answers.push(*answer),
            Report::Call(call) => message.calls.push(call),
            // Each was asked for by itself.
            Report::Known(mut known) => match &mut message.known {
                None => message.known = Some(known),
                Some(before) => {
                    before.processes.append(&mut known.processes);
                    before.running.append(&mut known.running);
                    before.answered.append(&mut known.answered);
                }
            },
        }
    }
    message
}
