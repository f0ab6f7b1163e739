//! The stream of orders and reports between a coordinator and this manager.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};
use xavantes_files::{Fetcher, Sources};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_proto::v1::activity_manager_server::ActivityManager;
use xavantes_proto::{Assembler, MAX_PART_BYTES, MAX_PAYLOAD_BYTES, pack, v1};

use crate::books::Stream;
use crate::desk::Desk;
use crate::staging::Staging;
use crate::{program, reading};

/// How an activity manager is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// Activities of one CPU that run at once.
    pub slots: u32,
    /// Activities that may wait here for a slot.
    pub queue: u32,
    /// Where answers are kept that were not acknowledged; without it they end with the program.
    pub folder: Option<PathBuf>,
    /// Words that activities may require.
    pub tags: BTreeSet<String>,
    /// Gets files for activities, and keeps what they make.
    pub files: Fetcher,
    /// Data outside the grid.
    pub sources: Sources,
    /// Where others reach this node.
    pub address: String,
    /// How programs are run.
    pub programs: program::Options,
}

/// The activity manager; cheap to clone.
#[derive(Clone)]
pub struct Service {
    desk: Arc<Desk>,
}

/// What was stopped ends so soon after its grace, or not at all.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// Names of coordinators and realms are at most so long.
const LONGEST_NAME: usize = 4096;

impl Service {
    /// A manager that waits for orders, opened on the runtime that serves it.
    pub fn open(options: Options) -> std::io::Result<Self> {
        let Options { node, slots, queue, folder, tags, files, sources, address, programs } = options;
        let staging = Staging::new(files, sources, &address);
        Ok(Self { desk: Desk::open(node, staging, slots, queue, tags, folder.as_deref(), programs)? })
    }

    /// What it has, for those who look for a worker.
    pub fn describe(&self, node: v1::NodeDescription) -> v1::NodeDescription {
        let shop = &self.desk.workshop;
        v1::NodeDescription {
            memory: shop.memory,
            gpus: shop.gpus.count,
            interpreters: shop.interpreters.languages(),
            containers: shop.engine.is_some(),
            cgroups: shop.cgroups.iter().flat_map(|groups| groups.controllers()).map(|it| (*it).into()).collect(),
            ..node
        }
    }

    /// Ends all programs at once, without asking them.
    pub fn kill(&self) {
        self.desk.workshop.register.kill_all();
    }

    /// Removes what must not outlive the manager; nothing runs any more.
    pub fn close(&self) {
        self.desk.workshop.close();
    }

    /// Slots in use and attempts that wait, together.
    pub fn busy(&self) -> u32 {
        let (used, waiting) = self.load();
        used + waiting
    }

    /// Attempts that wait for a slot.
    pub fn waiting(&self) -> u32 {
        self.load().1
    }

    /// Slots in use, and attempts that wait for one.
    pub fn load(&self) -> (u32, u32) {
        self.desk.load()
    }

    /// Why answers cannot be kept at the moment, and so are not sent.
    pub fn trouble(&self) -> Option<String> {
        self.desk.trouble()
    }

    /// Takes no new work and hands back what waits; when what runs has ended and its answers are kept, or was stopped after
    /// `patience`, files that processes need are handed over, for as long again at most.
    pub async fn drain(&self, patience: Duration) {
        self.desk.drain();
        if tokio::time::timeout(patience, self.idle()).await.is_err() {
            warn!(busy = self.busy(), "stopping what still runs");
            self.desk.stop_all();
            let _ = tokio::time::timeout(self.desk.workshop.grace + STOPS_WITHIN, self.idle()).await;
        }
        if tokio::time::timeout(patience, self.desk.hand_over()).await.is_err() {
            warn!("not all files that only this node may have were handed over in time");
        }
    }

    /// Returns when nothing runs or waits, and all answers are kept.
    async fn idle(&self) {
        loop {
            let over = self.desk.idle.notified();
            if self.desk.is_idle() {
                return;
            }
            over.await;
        }
    }
}

#[tonic::async_trait]
impl ActivityManager for Service {
    type LogsStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::LogPiece, Status>> + Send>>;
    type WorkStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::WorkReport, Status>> + Send>>;

    async fn work(&self, request: Request<Streaming<v1::WorkOrder>>) -> Result<Response<Self::WorkStream>, Status> {
        let mut orders =
            Orders { stream: request.into_inner(), parts: Assembler::new(MAX_PAYLOAD_BYTES + MAX_PART_BYTES) };
        let mut first = orders.next().await?.ok_or_else(|| Status::invalid_argument("no first order"))?;
        let hello = first.hello.take().ok_or_else(|| Status::invalid_argument("the first order has no hello"))?;
        if [&hello.group, &hello.node, &hello.realm].iter().any(|name| name.len() > LONGEST_NAME) {
            return Err(Status::invalid_argument("a name is too long"));
        }
        // Names are unique in a group only.
        let coordinator: Arc<str> = format!("{}/{}", hello.group, hello.node).into();
        let (stream, mut outgoing) = self.desk.connect(&coordinator, &hello.realm.into(), hello.address);
        info!(%coordinator, realm = %stream.realm, "coordinator connected");
        let (sender, receiver) = mpsc::channel(4);
        let for_problems = sender.downgrade();
        let (desk, written, level) = (self.desk.clone(), stream.clone(), outgoing.level.clone());
        tokio::spawn(async move {
            'open: loop {
                let message = tokio::select! {
                    message = outgoing.next() => message,
                    () = sender.closed() => break,
                };
                // There is none when the coordinator has connected again.
                let Some(message) = message else { break };
                for part in pack(message) {
                    if sender.send(Ok(part)).await.is_err() {
                        break 'open;
                    }
                }
            }
            desk.disconnect(&written);
        });
        let desk = self.desk.clone();
        tokio::spawn(async move {
            let mut next = Ok(Some(first));
            while let Ok(Some(order)) = next {
                // Whoever does not read what is answered is not listened to.
                level.room().await;
                if !take(&desk, &stream, order) {
                    return;
                }
                next = orders.next().await;
            }
            // When the stream breaks what runs goes on; the coordinator will ask for it.
            info!(%coordinator, "coordinator disconnected");
            if let Err(status) = next {
                if let Some(sender) = for_problems.upgrade() {
                    let _ = sender.try_send(Err(status));
                }
                desk.disconnect(&stream);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn attempts(&self, request: Request<v1::AttemptsRequest>) -> Result<Response<v1::AttemptsResponse>, Status> {
        let v1::AttemptsRequest { realm, path } = request.into_inner();
        let attempts = self.desk.workshop.shelf.attempts(&realm, &path);
        Ok(Response::new(v1::AttemptsResponse { attempts }))
    }

    async fn logs(&self, request: Request<v1::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        let found = self.desk.workshop.shelf.find(&request.realm, &request.path, request.attempt);
        let found = found.ok_or_else(|| Status::not_found(format!("nothing is known of {} here", request.path)))?;
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(reading::send(found, request, self.desk.node.clone(), sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// Orders as they were before they were cut into parts.
struct Orders {
    stream: Streaming<v1::WorkOrder>,
    parts: Assembler<v1::WorkOrder>,
}

impl Orders {
    async fn next(&mut self) -> Result<Option<v1::WorkOrder>, Status> {
        while let Some(message) = self.stream.message().await? {
            if let Some(order) = self.parts.unpack(message)? {
                return Ok(Some(order));
            }
        }
        Ok(None)
    }
}

fn take(desk: &Arc<Desk>, stream: &Stream, mut order: v1::WorkOrder) -> bool {
    for program in order.programs.drain(..).filter(|program| !program.digest.is_empty()) {
        if desk.program(&program.digest).is_some() {
            continue;
        }
        let sources: Vec<Source> =
            program.documents.into_iter().map(|document| Source::new(document.name, document.text)).collect();
        match load(&sources) {
            Ok(loaded) => desk.add_program(program.digest, Arc::new(loaded)),
            // Its jobs will be refused, with the reason that the program is not known.
            Err(problems) => {
                warn!(coordinator = %stream.coordinator, problems = problems.len(), "a program is not valid");
            }
        }
    }
    desk.take(stream, order)
}
