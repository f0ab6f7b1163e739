//! Processes from their beginning to their removal: submitted, handed over by others, recovered, taken over, forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};
use tonic::Status;
use tracing::{error, info, warn};
use xavantes_engine::{Engine, Output, Root, Start, Time};
use xavantes_model::definition::NodeId;
use xavantes_model::digest::Digest;
use xavantes_model::value::Value;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{connect, question, v1, value_from};
use xavantes_repository::{Claimed, Entry, Error, Journal, Store};

use crate::attempt::AttemptKey;
use crate::cache::store::Shelf;
use crate::convert::{add_holders, made, start_from};
use crate::data::pinning::Keeping;
use crate::definitions::{Loaded, Programs};
use crate::process::driver::{Driver, Incoming};
use crate::process::journal::{self, Head, Origin, Placement, Summary};
use crate::process::outputs::Outputs;
use crate::process::runner::{Handle, Mail, Processes, Runner, Verdict, discard, mailbox, unix_ms};
use crate::rpc::service::Options;
use crate::subtrees::hosted::{self as foster, Caller};
use crate::subtrees::parents::{Parent, Parents};
use crate::workers::connection::{Context, Orders, owner};
use crate::workers::dispatcher::{BORROWED, Dispatcher, PoolMail, PoolSender};
use crate::workers::messages::{MoveOutcome, Order, Share};

/// How often processes of coordinators that died are looked for.
const TAKE_OVER: Duration = Duration::from_secs(2);
/// How often processes that ended long ago are looked for.
const SWEEP: Duration = Duration::from_secs(60);
/// A parent that cannot be told where a subtree is now is told again after so long.
const TELL_AGAIN: Duration = Duration::from_secs(2);
/// A parent is asked so often whether it still waits for a subtree.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Coordinators around a subtree that are asked for its files: deeper ones do not turn to those further out.
const MOST_RELAYS: usize = 4;

/// Documents under this kind are [`Word`]s for whoever has the parents of subtrees.
const MOVED: &str = "moved";

/// Where a subtree is; or that nobody waits for it.
#[derive(Debug, Serialize, Deserialize)]
struct Word {
    process: String,
    element: u64,
    attempt: u32,
    place: Option<Placement>,
}

/// All that a coordinator has.
pub(crate) struct Coordinator {
    pub options: Options,
    pub repository: Store,
    pub programs: Programs,
    pub shelf: Arc<Shelf>,
    keeping: Arc<Keeping>,
    pub processes: Processes,
    pub parents: Arc<Parents>,
    pub pool: PoolSender,
    share: watch::Receiver<Share>,
    random: RandomState,
    number: AtomicU64,
}

/// The status for a failure of the repository.
pub(crate) fn unavailable(error: &Error) -> Status {
    match error {
        Error::Unavailable(_) => Status::unavailable(error.to_string()),
        _ => Status::internal(error.to_string()),
    }
}

impl Coordinator {
    /// With everything that was kept.
    pub async fn open(options: Options, repository: Store) -> Result<Arc<Self>, Error> {
        let (pool, mail) = tokio::sync::mpsc::unbounded_channel();
        let processes = Processes::default();
        let context = Context {
            hello: v1::CoordinatorHello {
                node: options.node.clone(),
                group: options.group.clone(),
                version: env!("CARGO_PKG_VERSION").into(),
                realm: repository.realm().to_owned(),
                address: options.address.clone(),
            },
            processes: processes.clone(),
            pool: pool.clone(),
            repository: repository.clone(),
            managers: options.managers.clone().into(),
            files: options.files.clone(),
        };
        let keeping = Arc::new(Keeping {
            pool: pool.clone(),
            files: options.files.clone(),
            address: options.address.clone(),
            realm: repository.realm().to_owned(),
        });
        let (dispatcher, share) = Dispatcher::new(context);
        let coordinator = Arc::new(Self {
            programs: Programs::open(repository.clone()).await?,
            shelf: Arc::new(Shelf::open(repository.clone(), keeping.clone(), &options).await?),
            keeping,
            options,
            processes,
            parents: Arc::default(),
            pool,
            share,
            random: RandomState::new(),
            number: AtomicU64::new(0),
            repository,
        });
        for (name, address) in coordinator.repository.documents(BORROWED).await? {
            let address = String::from_utf8_lossy(&address).into_owned();
            let _ = coordinator.pool.send(PoolMail::Recall(name.into(), address));
        }
        coordinator.take_over().await?;
        for entry in coordinator.repository.list().await? {
            // Their answers are for those who run them.
            if entry.summary.is_none() && coordinator.processes.find(&entry.process).is_none() {
                coordinator.give_up(&entry);
            }
        }
        tokio::spawn(dispatcher.run(mail));
        let (taking, sweeping) = (Arc::downgrade(&coordinator), Arc::downgrade(&coordinator));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(TAKE_OVER).await;
                let Some(coordinator) = taking.upgrade() else { return };
                if let Err(error) = coordinator.take_over().await {
                    warn!(%error, "cannot look for processes of others");
                }
                if let Err(error) = coordinator.hear_of_moves().await {
                    warn!(%error, "cannot look for where subtrees are");
                }
                if let Err(error) = coordinator.answer_late().await {
                    warn!(%error, "cannot look for what others have");
                }
            }
        });
        tokio::spawn(async move {
            loop {
                {
                    let Some(coordinator) = sweeping.upgrade() else { return };
                    if let Err(error) = coordinator.sweep().await {
                        warn!(%error, "cannot look for what is old");
                    }
                }
                tokio::time::sleep(SWEEP).await;
            }
        });
        Ok(coordinator)
    }

    /// Another coordinator has taken a process over that ran here.
    async fn lose(self: &Arc<Self>, process: &str) -> Result<(), Error> {
        let Some(handle) = self.processes.find(process) else { return Ok(()) };
        if handle.mail.send(Mail::Taken).await.is_ok() {
            return Ok(());
        }
        // It is over, and its parent did not hear of that here.
        match self.repository.find(process).await? {
            Some(entry) => self.give_up(&entry),
            None => self.processes.remove(process),
        }
        Ok(())
    }

    /// A process that another coordinator has, or that cannot be read.
    fn give_up(self: &Arc<Self>, entry: &Entry) {
        let process: Arc<str> = entry.process.as_str().into();
        let head = journal::read::<Head>("head", &entry.head).ok();
        if let Some(parent) = head.and_then(|head| self.parent(&head)) {
            parent.leave(&process);
        }
        self.processes.give_up(process.clone());
        let _ = self.pool.send(PoolMail::Lost(process));
    }

    fn parent(&self, head: &Head) -> Option<Parent> {
        let (caller, key) = head.parent.as_ref()?.names()?;
        Some(Parent { caller, key, parents: self.parents.clone() })
    }

    /// Goes on with processes that this coordinator had before it died, or that another one had.
    async fn take_over(self: &Arc<Self>) -> Result<(), Error> {
        let Claimed { gained, lost } = self.repository.claim().await?;
        for process in lost {
            self.lose(&process).await?;
        }
        for process in gained {
            if let Err(problem) = self.recover(&process).await {
                error!(process, problem, "the process cannot be continued");
                let process: Arc<str> = process.into();
                self.processes.give_up(process.clone());
                let _ = self.pool.send(PoolMail::Lost(process));
            }
        }
        Ok(())
    }

    async fn recover(self: &Arc<Self>, process: &str) -> Result<(), String> {
        let kept = self.repository.load(process).await.map_err(|error| error.to_string())?;
        let unreadable = |error: journal::Unreadable| error.to_string();
        let head: Head = journal::read("head", &kept.head).map_err(unreadable)?;
        let loaded = self.programs.fetch(&head.program).await.map_err(|error| error.to_string())?;
        let (program, wire) = loaded.ok_or("its program is not there, or not valid in this version")?;
        let restored =
            journal::restore(&program, &head, kept.snapshot.as_deref(), &kept.records).map_err(unreadable)?;
        let kept = Journal { snapshot: None, records: Vec::new(), ..kept };
        let id: Arc<str> = process.into();
        let root = Root { process: head.root.0 as usize, node: NodeId(head.root.1) };
        let process_type = program.processes.get(root.process);
        if process_type.is_none_or(|process| root.node.index() >= process.nodes.len()) {
            return Err("its journal is of another program".into());
        }
        let at_least = Time(restored.at);
        let (driver, out) = Driver::recover(id.clone(), program, wire, root, restored);
        let parent = self.parent(&head);
        if let (Some(parent), Some(origin)) = (&parent, &head.parent) {
            parent.restore(&id);
            self.tell_parent(parent.clone(), origin.address.clone(), kept.epoch, false);
        }
        info!(process, out = out.len(), "process continued");
        let _ = self.pool.send(PoolMail::Recovered(id.clone(), kept.epoch, out));
        self.run(&id, driver, &head, at_least, parent);
        Ok(())
    }

    /// The parent of a subtree hears where it is, until it has recorded that, and then now and then: it may have given up
    /// the subtree, and crashed before it could say so.
    fn tell_parent(self: &Arc<Self>, parent: Parent, address: String, epoch: u64, mut told: bool) {
        let request = v1::MovedRequest {
            attempt: Some(parent.key().to_wire()),
            node: self.options.node.clone(),
            address: self.options.address.clone(),
            epoch,
        };
        let coordinator = Arc::downgrade(self);
        let mut pause = Duration::ZERO;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(if told { ASK_AGAIN } else { pause }).await;
                pause = TELL_AGAIN;
                if !parent.waits() {
                    return;
                }
                if let Ok(channel) = connect(&address).await
                    && let Ok(moved) = question(ProcessCoordinatorClient::new(channel).moved(request.clone())).await
                {
                    told = moved.settled;
                    if moved.unwanted {
                        let Some(coordinator) = coordinator.upgrade() else { return };
                        return coordinator.stop_unwanted(&parent).await;
                    }
                }
            }
        });
    }

    /// Nobody waits for a subtree that runs here, or ran.
    async fn stop_unwanted(&self, parent: &Parent) {
        let process = parent.process();
        info!(?process, "nobody waits for this subtree any more");
        match parent.forget() {
            Some(over) => self.discard(&over),
            None => self.tell_foster(process, Incoming::Stopped).await,
        }
    }

    /// Removes a subtree that is over.
    pub fn discard(&self, process: &Arc<str>) {
        discard(&self.repository, &self.pool, &self.processes, process);
    }

    /// A subtree is at another coordinator now. If its parent is not here, whoever has that finds word of it in the
    /// repository, and leaves word there if nobody waits for the subtree.
    pub async fn moved(&self, key: AttemptKey, place: Placement) -> Result<MoveOutcome, Error> {
        if let Some(process) = self.processes.find(&key.process) {
            return Ok(self.note_move(&process, key, place).await);
        }
        if !self.is_kept_running(&key.process).await? {
            return Ok(MoveOutcome::Unwanted);
        }
        let name = format!("{}/{}/{}", key.element, key.attempt, key.process);
        for (other, word) in self.repository.documents(MOVED).await? {
            if other == name && matches!(journal::read("word of a move", &word), Ok(Word { place: None, .. })) {
                self.repository.remove(MOVED, &name).await?;
                return Ok(MoveOutcome::Unwanted);
            }
        }
        let word =
            Word { process: key.process.to_string(), element: key.element, attempt: key.attempt, place: Some(place) };
        self.repository.put(MOVED, &name, journal::write(&word)).await?;
        Ok(MoveOutcome::Recording)
    }

    async fn note_move(&self, parent: &Handle, key: AttemptKey, place: Placement) -> MoveOutcome {
        let (answer, answered) = oneshot::channel();
        let _ = self.pool.send(PoolMail::Moved(key.clone(), place, answer));
        let moved = answered.await.unwrap_or(MoveOutcome::Recording);
        if moved != MoveOutcome::Unwanted {
            return moved;
        }
        // An answer that has come may not be recorded yet.
        let (verdict, decided) = oneshot::channel();
        let _ = parent.mail.send(Incoming::Asked { key, verdict }.into()).await;
        if let Ok(Err(_)) = decided.await { MoveOutcome::Unwanted } else { MoveOutcome::Recording }
    }

    /// Word of moves that others heard of. Whoever has moved tells it again until it is recorded.
    async fn hear_of_moves(&self) -> Result<(), Error> {
        for (name, word) in self.repository.documents(MOVED).await? {
            if let Ok(Word { process, element, attempt, place }) = journal::read("word of a move", &word) {
                let key: AttemptKey = AttemptKey::new(&*process, element, attempt);
                match (self.processes.find(&process), place) {
                    (Some(parent), Some(place)) => {
                        if self.note_move(&parent, key, place).await == MoveOutcome::Unwanted {
                            let word = Word { process, element, attempt, place: None };
                            self.repository.put(MOVED, &name, journal::write(&word)).await?;
                            continue;
                        }
                    }
                    (Some(_), None) => continue,
                    (None, _) if self.is_kept_running(&process).await? => continue,
                    (None, _) => {}
                }
            }
            self.repository.remove(MOVED, &name).await?;
        }
        Ok(())
    }

    /// Is there a process that has not ended, whoever has it? One that is damaged has not.
    async fn is_kept_running(&self, process: &str) -> Result<bool, Error> {
        match self.repository.find(process).await {
            Ok(entry) => Ok(entry.is_some_and(|entry| entry.summary.is_none())),
            Err(Error::Damaged { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Answers that came for processes of others are acknowledged when those are over: nobody else will.
    async fn answer_late(&self) -> Result<(), Error> {
        for process in self.processes.answered() {
            if !self.is_kept_running(&process).await? {
                for (key, orders) in self.processes.forget_foreign(&process) {
                    let _ = orders.send(Order::Acknowledge(key));
                }
            }
        }
        Ok(())
    }

    /// Starts the task of a process.
    fn run(
        self: &Arc<Self>,
        id: &Arc<str>,
        mut driver: Driver<Orders, Verdict>,
        head: &Head,
        at_least: Time,
        parent: Option<Parent>,
    ) {
        let (mail, receiver) = mailbox();
        let (status, reader) = watch::channel(v1::ProcessStatus {
            counts: Some(driver.counts()),
            paused: driver.engine().state().counts().paused > 0,
            ..self.status(id, head, &self.options.node)
        });
        let (path, outputs) = (driver.engine().id().clone(), Outputs::default());
        driver.follow();
        if head.no_reuse {
            driver.refuse_reuse();
        }
        driver.set_relays([&self.options.address].into_iter().chain(&head.relays).cloned().collect());
        self.processes.add(id.clone(), Handle { path, mail, status: reader, outputs: outputs.clone() });
        // The engine's clock goes on while nobody runs it.
        let passed = Duration::from_millis(unix_ms().saturating_sub(head.submitted_ms));
        let now = Instant::now();
        let runner = Runner {
            id: id.clone(),
            driver,
            began: now.checked_sub(passed).unwrap_or(now),
            at_least,
            repository: self.repository.clone(),
            shelf: self.shelf.clone(),
            keeping: self.keeping.clone(),
            outputs,
            processes: self.processes.clone(),
            pool: self.pool.clone(),
            share: self.share.clone(),
            most: if parent.is_some() { self.options.foreign_slots.into() } else { u64::MAX },
            parent,
            mail: receiver,
            status,
            printed: self.options.printed.clone(),
        };
        tokio::spawn(runner.run());
    }

    /// A process that runs, as far as its head tells.
    fn status(&self, id: &str, head: &Head, node: &str) -> v1::ProcessStatus {
        v1::ProcessStatus {
            process: id.to_owned(),
            path: foster::path(id, head.parent.is_some()).to_owned(),
            process_type: head.process_type.clone(),
            state: v1::ProcessState::Running.into(),
            submitted_ms: head.submitted_ms,
            node: node.to_owned(),
            group: self.options.group.clone(),
            ..v1::ProcessStatus::default()
        }
    }

    /// Checks everything, keeps the process, and starts it. The same request is answered with the same process.
    pub async fn submit(self: &Arc<Self>, request: v1::SubmitRequest) -> Result<Arc<str>, Status> {
        let loaded = self.programs.add(request.documents)?;
        let wanted = Some(request.process_type.as_str()).filter(|name| !name.is_empty());
        let process = loaded.0.entry(wanted).map_err(Status::invalid_argument)?;
        let parameters = request
            .parameters
            .into_iter()
            .map(|parameter| Ok((parameter.name, value_from(parameter.value.unwrap_or_default())?)))
            .collect::<Result<Vec<(String, Value)>, Status>>()?;
        let process_type = loaded.0.processes[process].name.to_string();
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let random = match request.request_id.as_str() {
            "" => self.random.hash_one((number, unix_ms())),
            id => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&blake3::hash(id.as_bytes()).as_bytes()[..8]);
                u64::from_le_bytes(bytes)
            }
        };
        // `FindPrimes-7f3a`: short enough to type; longer when short ones are taken.
        for digits in [4, 6, 8, 12, 16] {
            let mask = u64::MAX >> (64 - 4 * digits);
            let id: Arc<str> = format!("{process_type}-{:0digits$x}", random & mask).into();
            let start = Start::new(id.clone(), process, parameters.clone());
            let wish = Wish { request: &request.request_id, no_reuse: request.no_reuse, ..Wish::default() };
            match self.start(id.clone(), loaded.clone(), start, wish, None).await {
                Ok(_) => return Ok(id),
                Err(Unstarted::Taken) if request.request_id.is_empty() => {}
                Err(Unstarted::Taken) => {
                    let known = self.repository.find(&id).await.map_err(|error| unavailable(&error))?;
                    let head = known.and_then(|entry| journal::read::<Head>("head", &entry.head).ok());
                    if head.is_some_and(|head| head.request == request.request_id) {
                        return Ok(id);
                    }
                }
                Err(Unstarted::Bad(problems)) => return Err(Status::invalid_argument(problems)),
                Err(Unstarted::NotKept(error)) => return Err(unavailable(&error)),
            }
        }
        Err(Status::resource_exhausted("there is no free id for the process"))
    }

    /// Keeps a process and starts it; gives its epoch. Bad parameters leave nothing behind.
    async fn start(
        self: &Arc<Self>,
        id: Arc<str>,
        (program, wire): Loaded,
        start: Start,
        wish: Wish<'_>,
        origin: Option<(Origin, Parent)>,
    ) -> Result<u64, Unstarted> {
        let (root, given) = (start.root, start.parameters.clone());
        let process_type = program.processes[root.process].name.to_string();
        let mut output = Output::default();
        let engine = Engine::start(program, start, Time(0), &mut output)
            .map_err(|problems| Unstarted::Bad(problems.join("\n")))?;
        self.programs.keep(&wire).await.map_err(Unstarted::NotKept)?;
        let mut driver = Driver::new(id.clone(), engine, root, wire.clone(), output);
        driver.inherit(wish.recipes);
        let (origin, parent) = origin.unzip();
        let head = Head {
            program: wire.digest.clone(),
            process_type,
            root: (root.process as u32, root.node.0),
            submitted_ms: unix_ms(),
            request: wish.request.to_owned(),
            parent: origin,
            no_reuse: wish.no_reuse,
            relays: wish.relays,
            first: driver.first().into(),
        };
        let epoch = self.repository.create(&id, journal::write(&head)).await.map_err(|error| match error {
            Error::Exists(_) => Unstarted::Taken,
            error => Unstarted::NotKept(error),
        })?;
        // Before it begins, for it may end at once.
        self.keep_files(&id, &given);
        info!(process = %id, "process started");
        let _ = self.pool.send(PoolMail::Began(id.clone(), epoch));
        self.run(&id, driver, &head, Time(0), parent);
        Ok(epoch)
    }

    /// A subtree of another coordinator's process arrives.
    pub async fn foster(self: &Arc<Self>, caller: &Caller, stream: u64, hello: &v1::CoordinatorHello, job: v1::Job) {
        use v1::refusal_reason::Kind as Reason;
        let parents = &self.parents;
        let (Some(id), Some(subtree)) = (job.id, job.subtree) else { return };
        let (key, path): (_, Arc<str>) = (AttemptKey::from(&id), job.path.into());
        let name = foster::name(caller, &key, &path);
        if !parents.arrive(caller, stream, &key, &name, job.epoch) {
            return;
        }
        let allowed = &self.options.foreign_groups;
        let own = hello.group == self.options.group;
        if !own && !allowed.is_empty() && !allowed.contains(&hello.group) {
            return parents.refuse(caller, &key, Reason::GroupNotAccepted(v1::Nothing {}));
        }
        let Some(loaded) = self.programs.find(&job.program) else {
            return parents.refuse(caller, &key, Reason::UnknownProgram(v1::Nothing {}));
        };
        let (no_reuse, recipes) = (subtree.no_reuse, job.recipes);
        let relays = job.relays.into_iter().take(MOST_RELAYS).collect();
        let wish = Wish { no_reuse, recipes, relays, ..Wish::default() };
        let start = match start_from(&loaded.0, path, job.parameters, subtree) {
            Ok(start) => start,
            Err(unfit) => return parents.refuse(caller, &key, Reason::InvalidJob(unfit.0.to_owned())),
        };
        let origin = Origin {
            coordinator: caller.to_string(),
            address: hello.address.clone(),
            process: id.process,
            element: id.element,
            attempt: id.attempt,
        };
        let parent = Parent { caller: caller.clone(), key: key.clone(), parents: parents.clone() };
        let (address, asking) = (origin.address.clone(), parent.clone());
        match self.start(name, loaded, start, wish, Some((origin, parent))).await {
            Ok(epoch) => self.tell_parent(asking, address, epoch, true),
            Err(Unstarted::Taken) => parents.refuse(caller, &key, Reason::TakenElsewhere(v1::Nothing {})),
            Err(Unstarted::Bad(problems)) => parents.refuse(caller, &key, Reason::InvalidJob(problems)),
            Err(Unstarted::NotKept(error)) => parents.refuse(caller, &key, Reason::NotRecorded(error.to_string())),
        }
    }

    /// Tells a process that runs for a parent something.
    pub async fn tell_foster(&self, process: Option<Arc<str>>, what: Incoming<Orders, Verdict>) {
        if let Some(handle) = process.and_then(|process| self.processes.find(&process)) {
            let _ = handle.mail.send(what.into()).await;
        }
    }

    /// All processes that run and ran, in the order in which they were submitted.
    pub async fn list(&self) -> Result<Vec<v1::ProcessStatus>, Error> {
        let entries = self.repository.list().await?;
        let mut all: Vec<v1::ProcessStatus> = entries.iter().map(|entry| self.describe(entry)).collect();
        all.sort_by(|a, b| (a.submitted_ms, &a.process).cmp(&(b.submitted_ms, &b.process)));
        Ok(all)
    }

    /// A process as the repository and its task know it.
    pub fn describe(&self, entry: &Entry) -> v1::ProcessStatus {
        if let Some(handle) = self.processes.find(&entry.process) {
            return handle.status.borrow().clone();
        }
        let status = match &entry.summary {
            Some(summary) => journal::read("summary", summary).and_then(|summary: Summary| summary.status()),
            None => journal::read("head", &entry.head).map(|head| v1::ProcessStatus {
                stalled: (entry.owner == self.options.node)
                    .then(|| v1::stall_reason::Kind::NotRecovered("the log of its coordinator says why".into()).into()),
                ..self.status(&entry.process, &head, &entry.owner)
            }),
        };
        status.unwrap_or_else(|error| v1::ProcessStatus {
            process: entry.process.clone(),
            stalled: Some(v1::stall_reason::Kind::Unreadable(error.to_string()).into()),
            ..v1::ProcessStatus::default()
        })
    }

    /// Removes ended processes for good, and lets the files go that were kept for them.
    pub async fn forget(&self, processes: &[String]) -> Result<(), Error> {
        self.repository.forget(processes).await?;
        for process in processes {
            let release = v1::Release { process: process.clone(), ..v1::Release::default() };
            let _ = self.pool.send(PoolMail::Release(release.into(), true));
        }
        Ok(())
    }

    /// Files that users brought for a process stay at least until it has ended.
    fn keep_files(&self, process: &str, parameters: &[(String, Value)]) {
        let Some(store) = self.options.files.as_ref().map(|files| files.store()) else { return };
        let mut needed: Vec<Digest> = Vec::new();
        for (_, value) in parameters {
            value.each_file(&mut |file| {
                let Some(content) = file.content.as_ref().filter(|content| store.has(&content.digest)) else { return };
                needed.push(content.digest);
                if file.directory
                    && let Ok(manifest) = store.manifest(&content.digest)
                {
                    needed.extend(manifest.files().map(|(digest, _)| digest));
                }
            });
        }
        if let Err(error) = store.pin(&owner(self.repository.realm(), process), &needed) {
            warn!(process, %error, "files may go before they are used");
        }
    }

    /// Adds to references of files who has them now.
    pub async fn name_holders(&self, results: &mut [v1::Parameter]) {
        let wanted: Vec<Digest> = results.iter().filter_map(|it| it.value.as_ref()).flat_map(made).collect();
        let (answer, answered) = tokio::sync::oneshot::channel();
        if wanted.is_empty() || self.pool.send(PoolMail::Holders(wanted.clone(), answer)).is_err() {
            return;
        }
        let holders: HashMap<Digest, Vec<String>> =
            wanted.into_iter().zip(answered.await.unwrap_or_default()).collect();
        results.iter_mut().filter_map(|it| it.value.as_mut()).for_each(|value| add_holders(value, &holders));
    }

    /// Removes what is too old, and the oldest of what is too much.
    async fn sweep(&self) -> Result<(), Error> {
        let (age, size) = (self.options.retention_age, self.options.retention_size);
        let mut ended: Vec<(u64, u64, String)> = Vec::new();
        for entry in self.repository.list().await? {
            let Some(summary) = &entry.summary else { continue };
            let status = journal::read("summary", summary).and_then(|summary: Summary| summary.status());
            if let Ok(status) = status {
                ended.push((status.ended_ms, entry.size, entry.process));
            }
        }
        ended.sort_by(|a, b| b.cmp(a));
        let oldest = age.map_or(0, |age| unix_ms().saturating_sub(age.as_millis() as u64));
        let (most, mut total) = (size.unwrap_or(u64::MAX), 0u64);
        let old: Vec<String> = ended
            .into_iter()
            .filter_map(|(ended_ms, size, process)| {
                total = total.saturating_add(size);
                (ended_ms < oldest || total > most).then_some(process)
            })
            .collect();
        if !old.is_empty() {
            info!(processes = old.len(), "removing what ended long ago");
            self.forget(&old).await?;
        }
        Ok(())
    }
}

/// How a process is to be started.
#[derive(Default)]
struct Wish<'a> {
    /// The id of the request.
    request: &'a str,
    /// All its activities are to run.
    no_reuse: bool,
    /// Of a subtree: how the files were made that it is given, and who fetches them.
    recipes: Vec<v1::Recipe>,
    relays: Vec<String>,
}

/// Why a process was not started.
enum Unstarted {
    /// Its id is taken.
    Taken,
    Bad(String),
    NotKept(Error),
}

impl Origin {
    /// The parent's coordinator, and the attempt there.
    fn names(&self) -> Option<(Caller, AttemptKey)> {
        let key = AttemptKey::new(&*self.process, self.element, self.attempt);
        Some((Caller::parse(&self.coordinator)?, key))
    }
}
