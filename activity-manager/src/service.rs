//! The stream of orders and reports between a coordinator and this manager.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_proto::v1;
use xavantes_proto::v1::activity_manager_server::ActivityManager;

use crate::desk::{Desk, Report};

/// How an activity manager is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// Activities of one CPU that run at once.
    pub slots: u32,
    /// Activities that may wait here for a slot.
    pub queue: u32,
    /// Words that activities may require.
    pub tags: BTreeSet<String>,
}

/// The activity manager; cheap to clone.
#[derive(Clone)]
pub struct Service {
    desk: Arc<Desk>,
}

/// Reports in one message at most.
const BATCH: usize = 256;

impl Service {
    /// A manager that waits for orders.
    pub fn new(options: Options) -> Self {
        Self { desk: Desk::new(options.node, options.slots, options.queue, options.tags) }
    }

    /// Attempts that run or wait.
    pub fn busy(&self) -> u32 {
        self.desk.load().0
    }

    /// Takes no new work and hands back what waits; returns when what runs has ended, or after `patience`, when it is
    /// stopped.
    pub async fn drain(&self, patience: Duration) {
        self.desk.drain();
        let idle = async {
            loop {
                let over = self.desk.idle.notified();
                if self.desk.load().0 == 0 {
                    return;
                }
                // The ring may come between the two lines above: look again after a while.
                let _ = tokio::time::timeout(Duration::from_millis(200), over).await;
            }
        };
        if tokio::time::timeout(patience, idle).await.is_err() {
            warn!(busy = self.busy(), "stopping what still runs");
            self.desk.stop_all();
        }
    }
}

#[tonic::async_trait]
impl ActivityManager for Service {
    type WorkStream = Pin<Box<dyn Stream<Item = Result<v1::WorkReport, Status>> + Send>>;

    async fn work(&self, request: Request<Streaming<v1::WorkOrder>>) -> Result<Response<Self::WorkStream>, Status> {
        let mut orders = request.into_inner();
        let first = orders.message().await?.ok_or_else(|| Status::invalid_argument("no first order"))?;
        let hello = first.hello.clone().ok_or_else(|| Status::invalid_argument("the first order has no hello"))?;
        // Names are unique in a group only.
        let name = format!("{}/{}#", hello.group, hello.node);
        let coordinator: Arc<str> = format!("{name}{:x}", hello.life).into();
        self.desk.retire(&name, &coordinator);
        info!(%coordinator, "coordinator connected");
        let (hello, mut reports) = self.desk.connect(&coordinator);
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            let first = v1::WorkReport { hello: Some(hello), ..v1::WorkReport::default() };
            if sender.send(Ok(first)).await.is_err() {
                return;
            }
            let mut batch = Vec::with_capacity(BATCH);
            while reports.recv_many(&mut batch, BATCH).await > 0 {
                while !batch.is_empty() {
                    let count = xavantes_proto::fitting(batch.iter().map(Report::size));
                    if sender.send(Ok(message(batch.drain(..count)))).await.is_err() {
                        return;
                    }
                }
            }
        });
        let desk = self.desk.clone();
        tokio::spawn(async move {
            take(&desk, &coordinator, first);
            // When the stream breaks what runs goes on; the coordinator will ask for it.
            while let Some(Ok(order)) = orders.next().await {
                take(&desk, &coordinator, order);
            }
            info!(%coordinator, "coordinator disconnected");
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

fn message(reports: impl Iterator<Item = Report>) -> v1::WorkReport {
    let mut message = v1::WorkReport::default();
    for report in reports {
        match report {
            Report::Answer(answer) => message.answers.push(answer),
            Report::Call(call) => message.calls.push(call),
            Report::Printed(printed) => message.printed.push(printed),
            Report::Draining => message.draining = true,
        }
    }
    message
}

fn take(desk: &Arc<Desk>, coordinator: &Arc<str>, order: v1::WorkOrder) {
    for program in order.programs.into_iter().filter(|program| !program.digest.is_empty()) {
        if desk.has_program(&program.digest) {
            continue;
        }
        let sources: Vec<Source> =
            program.documents.into_iter().map(|document| Source::new(document.name, document.text)).collect();
        match load(&sources) {
            Ok(loaded) => desk.add_program(program.digest, Arc::new(loaded)),
            // Its jobs will be refused, with the reason that the program is not known.
            Err(problems) => warn!(%coordinator, problems = problems.len(), "a program is not valid"),
        }
    }
    for id in &order.acknowledged {
        desk.acknowledge(coordinator, id);
    }
    for job in order.jobs {
        desk.arrive(coordinator, job);
    }
    for id in &order.cancels {
        desk.cancel(coordinator, id);
    }
    for reply in order.replies {
        desk.reply(reply);
    }
}
