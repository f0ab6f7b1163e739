//! How other tasks talk to the task of one process.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot, watch};
use xavantes_engine::Rejection;
use xavantes_proto::v1;

use crate::process::driver_input::{ProcessInput, Steering};
use crate::process::outputs::Outputs;
use crate::process::printing::{PrintDecision, PrintLimit};
use crate::workers::handle::Orders;
use crate::workers::worker_messages::PoolLoad;
use xavantes_proto::AttemptKey;

/// Upper bound on the mail of a process; senders wait beyond it.
const MAX_MAIL: usize = 1024;
/// Upper bound on the requests of users to a process; senders wait beyond it.
const MAX_REQUESTS: usize = 64;

/// Receives the decision about steering.
pub(crate) type DecisionSender = oneshot::Sender<Result<v1::SteerEffect, Rejection>>;
/// Receives an element.
pub(crate) type ElementSender = oneshot::Sender<Result<v1::Element, Rejection>>;
/// An input of a process that runs here.
pub(crate) type LiveInput = ProcessInput<Orders, DecisionSender>;

/// A message to the task of a process.
#[derive(Debug)]
pub(crate) enum ProcessMail {
    Inputs(Vec<LiveInput>),
    /// An attempt calls a shared object of this process, or of one that it is part of.
    Called(v1::SharedCall, Orders),
    /// An activity, named by its element, printed a line. The number counts the lines before it that were left out.
    Printed {
        element: u64,
        line: String,
        left_out: u64,
    },
    Show {
        path: String,
        depth: u32,
        /// Number of coordinators that passed the request on.
        forwards: u32,
        answer: ElementSender,
    },
    /// Another coordinator runs the process.
    TakenOver,
}

impl ProcessMail {
    /// The answers in it, with the connections that wait for an acknowledgement.
    pub fn into_unacknowledged(self) -> impl Iterator<Item = (Orders, AttemptKey)> {
        let inputs = match self {
            Self::Inputs(inputs) => inputs,
            _ => Vec::new(),
        };
        inputs.into_iter().filter_map(ProcessInput::into_unacknowledged)
    }
}

/// The process has ended, so its task answers no questions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessEnded;

/// A process that runs here, as other tasks use it; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ProcessHandle {
    /// Path with which the paths of its elements begin: its id, or the path of a subtree.
    pub path: Arc<str>,
    pub status: watch::Receiver<v1::ProcessStatus>,
    pub outputs: Outputs,
    mail: mpsc::Sender<ProcessMail>,
    /// Requests of users, which the process handles before its mail.
    requests: mpsc::Sender<ProcessMail>,
    load: Arc<watch::Sender<PoolLoad>>,
    /// Bounds the lines that are logged; without it all printed lines are passed on.
    print_limit: Option<PrintLimit>,
}

/// The receiving ends of a handle.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub mail: mpsc::Receiver<ProcessMail>,
    pub requests: mpsc::Receiver<ProcessMail>,
    /// Where the activities of the process are.
    pub load: watch::Receiver<PoolLoad>,
}

impl ProcessHandle {
    /// The handle, and the mail for the task of the process. `logs_printed` says that printed lines go to the log.
    pub fn new(
        path: Arc<str>,
        status: watch::Receiver<v1::ProcessStatus>,
        outputs: Outputs,
        logs_printed: bool,
    ) -> (Self, Mailbox) {
        let (mail, mails) = mpsc::channel(MAX_MAIL);
        let (requests, requested) = mpsc::channel(MAX_REQUESTS);
        let (load, loads) = watch::channel(PoolLoad::default());
        let print_limit = logs_printed.then(PrintLimit::default);
        let handle = Self { path, status, outputs, mail, requests, load: load.into(), print_limit };
        (handle, Mailbox { mail: mails, requests: requested, load: loads })
    }

    /// The pool tells where the activities of the process are.
    pub fn set_load(&self, load: PoolLoad) {
        self.load.send_replace(load);
    }

    /// Sends an input. A process that has ended ignores it.
    pub async fn notify(&self, input: LiveInput) {
        let _ = self.mail.send(ProcessMail::Inputs(vec![input])).await;
    }

    /// Sends inputs; gives them back if the process has ended.
    pub async fn deliver(&self, inputs: Vec<LiveInput>) -> Vec<LiveInput> {
        match self.mail.send(ProcessMail::Inputs(inputs)).await {
            Err(mpsc::error::SendError(ProcessMail::Inputs(inputs))) => inputs,
            _ => Vec::new(),
        }
    }

    /// Passes on a call of a shared object. False if the process has ended.
    pub async fn call(&self, call: v1::SharedCall, orders: Orders) -> bool {
        self.mail.send(ProcessMail::Called(call, orders)).await.is_ok()
    }

    /// Passes on a line that an activity printed. A line for the log is left out if there are too many, or if the process
    /// has much mail: nothing waits for it.
    pub async fn print(&self, element: u64, line: String) {
        let Some(limit) = &self.print_limit else {
            return drop(self.mail.send(ProcessMail::Printed { element, line, left_out: 0 }).await);
        };
        if let PrintDecision::Log { left_out } = limit.on_line(Instant::now()) {
            let _ = self.mail.try_send(ProcessMail::Printed { element, line, left_out });
        }
    }

    /// Another coordinator runs the process. False if it has ended here.
    pub async fn taken_over(&self) -> bool {
        self.requests.send(ProcessMail::TakenOver).await.is_ok()
    }

    /// The element at a path, with this many levels below it, for a request that this many coordinators passed on.
    pub async fn show(
        &self,
        path: String,
        depth: u32,
        forwards: u32,
    ) -> Result<Result<v1::Element, Rejection>, ProcessEnded> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(ProcessMail::Show { path, depth, forwards, answer }).await.map_err(|_| ProcessEnded)?;
        answered.await.map_err(|_| ProcessEnded)
    }

    /// Steers an element, and waits for the recorded decision.
    pub async fn steer(
        &self,
        path: String,
        steering: Steering,
        by: String,
    ) -> Result<Result<v1::SteerEffect, Rejection>, ProcessEnded> {
        let (asker, decided) = oneshot::channel();
        let input = ProcessInput::Steered { path, steering, by, asker };
        self.requests.send(ProcessMail::Inputs(vec![input])).await.map_err(|_| ProcessEnded)?;
        decided.await.map_err(|_| ProcessEnded)
    }

    /// Does the process still wait for an attempt? Also true if the process ended before it could say.
    pub async fn still_wants(&self, key: AttemptKey) -> bool {
        let (asker, decided) = oneshot::channel();
        self.notify(ProcessInput::StillWanted { key, asker }).await;
        !matches!(decided.await, Ok(Err(_)))
    }
}
