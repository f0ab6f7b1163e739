//! What users and other coordinators ask of a coordinator, and the subtrees that it runs for others.

use xavantes_proto::v1::refusal_reason::Kind as RefusalKind;

use super::*;

impl World<'_> {
    pub fn handle(&mut self, c: usize, request: Request, reply: ReplyTo) {
        match request {
            Request::Submit { id, process_type, n } => {
                let it = &self.coordinators[c];
                if self.stores[it.store].processes.contains_key(&id) {
                    return self.reply(reply, Answer::Done);
                }
                let Ok(process) = self.tools.program.entry(Some(process_type)) else { return };
                let start = Start::new(id, process, vec![("n".into(), Value::Int(n))]);
                if let Err(reply) = self.start(c, start.id.clone(), start, None, Some(reply)) {
                    reply.into_iter().for_each(|reply| self.reply(reply, Answer::Rejected));
                }
            }
            Request::Steer { path, action } => {
                let mut at = &*path;
                let id = loop {
                    let runners = self.coordinators[c].memory.runners.iter();
                    let here = runners.filter(|(_, runner)| **runner.driver.engine().id() == *at);
                    if let Some((id, _)) = here.max_by_key(|(_, runner)| runner.number) {
                        break id.clone();
                    }
                    let known = self.stores[self.coordinators[c].store].processes.contains_key(at);
                    match at.rsplit_once('/').filter(|_| !known) {
                        Some((shorter, _)) => at = shorter,
                        None => return self.reply(reply, Answer::Rejected),
                    }
                };
                let steered = ProcessInput::Steered { path: path.to_string(), steering: action, asker: reply };
                self.mail(c, &id, Mail::Happened(steered));
            }
            Request::Moved(key, place) => {
                let it = &self.coordinators[c];
                let (store, parent) = (it.store, self.parent_state(c, &key.process));
                if parent != ParentState::RunsHere && it.store_cut_until > self.now {
                    return self.reply(reply, Answer::Rejected);
                }
                let moved = &mut self.stores[store].moved;
                match on_move_report(parent, moved.get(&key) == Some(&None)) {
                    MoveReportStep::AskPool => self.pool_mail(c, PoolMail::Moved(key, place, reply)),
                    MoveReportStep::Unwanted => self.reply(reply, Answer::Unwanted),
                    MoveReportStep::UnwantedByNotice => {
                        moved.remove(&key);
                        self.reply(reply, Answer::Unwanted);
                    }
                    MoveReportStep::LeaveNotice => {
                        moved.insert(key, Some(place));
                        self.reply(reply, Answer::Noted);
                    }
                }
            }
        }
    }

    /// Keeps a process, and starts it then.
    pub(super) fn start(
        &mut self,
        c: usize,
        id: Arc<str>,
        start: Start,
        parent: Option<(ParentAttempt, usize, Origin)>,
        reply: Option<ReplyTo>,
    ) -> Result<(), Option<ReplyTo>> {
        let root = start.root;
        let program = self.tools.program.clone();
        let process_type = program.processes[root.process].name.to_string();
        let mut output = StepOutput::default();
        let Ok(engine) = Engine::start(program, start, Time(0), &mut output) else { return Err(reply) };
        let mut driver = Driver::new(id.clone(), engine, root, self.tools.wire.clone(), output);
        let (origin, parent) = match parent {
            Some((parent, stream, origin)) => (Some(origin), Some((parent, stream))),
            None => (None, None),
        };
        let head = Head {
            program: self.tools.wire.digest.clone(),
            process_type,
            root: (root.process as u32, root.node.0),
            submitted_ms: self.coordinators[c].machine.wall(self.now),
            request: id.to_string(),
            parent: origin,
            no_reuse: false,
            relays: Vec::new(),
            first: driver.first_record().into(),
        };
        let change = Change::Create(id.clone(), codec::encode(&head));
        let early = self.mutation == Some(Mutation::AcknowledgeBeforeFlush);
        let reply = match reply {
            Some(reply) if early => {
                self.reply(reply, Answer::Done);
                None
            }
            reply => reply,
        };
        self.write(c, change, Done::Started(Box::new(Started { id, driver, head, parent, reply })));
        Ok(())
    }

    pub(super) fn on_started(&mut self, c: usize, started: Started, result: Result<(), Refused>) {
        let Started { id, driver, head, parent, reply } = started;
        let stream = parent.as_ref().map(|(_, stream)| *stream);
        match result {
            Ok(()) => {
                self.trace(|| format!("c{c} starts {id}"));
                let epoch = self.coordinators[c].held.epochs.get(&id).copied().unwrap_or_default();
                self.pool_mail(c, PoolMail::Input(PoolInput::ProcessBegan(id.clone(), epoch)));
                if let Some(origin) = head.parent.clone() {
                    self.later(Who::Coordinator(c), 30_000, Task::TellParent(origin, epoch));
                }
                self.run_process(c, &id, driver, head, 0, parent.map(|(parent, _)| parent));
                reply.into_iter().for_each(|reply| self.reply(reply, Answer::Done));
            }
            Err(refused) => {
                if let Some((parent, _)) = &parent {
                    let reason = match refused {
                        Refused::Exists => RefusalKind::TakenElsewhere(v1::Nothing {}),
                        other => RefusalKind::NotRecorded(format!("{other:?}")),
                    };
                    let message = self.coordinators[c].memory.parents.refuse(parent, reason);
                    self.send_to_parent(message);
                }
                let answer = if refused == Refused::Exists { Answer::Done } else { Answer::Rejected };
                reply.into_iter().for_each(|reply| self.reply(reply, answer.clone()));
            }
        }
        if let Some(stream) = stream {
            self.streams[stream].busy = false;
            self.serve(c, stream);
        }
    }

    pub(super) fn send_to_parent(&mut self, message: Option<ParentMessage<usize>>) {
        if let Some(ParentMessage { stream, report }) = message {
            self.report_to_parent(stream, report);
        }
    }

    /// An order of a parent arrives.
    pub fn coordinator_takes(&mut self, c: usize, stream: usize, order: v1::WorkOrder) {
        if self.streams[stream].closed[Side::Server as usize] {
            return;
        }
        if let Some(hello) = order.hello {
            let caller =
                Caller { node: format!("{}/{}", hello.group, hello.node).into(), realm: hello.realm.as_str().into() };
            for (process, runs) in self.coordinators[c].memory.parents.retire(&caller) {
                if runs {
                    self.mail(c, &process, Mail::Happened(ProcessInput::ParentCancelled));
                } else {
                    self.discard(c, &process);
                }
            }
            let connected = self.coordinators[c].memory.parents.connect(&caller, stream);
            self.streams[stream].parent = Some((caller, hello, connected.number));
            connected.former.into_iter().for_each(|former| self.close(former, Side::Server));
            let first = v1::WorkReport { hello: Some(connected.hello), ..v1::WorkReport::default() };
            self.send(stream, Side::Client, Message::Report(Box::new(first)));
            connected.missed.into_iter().for_each(|report| self.report_to_parent(stream, report));
        }
        let steps = &mut self.streams[stream].steps;
        steps.push_back(Step::Check);
        if !order.acknowledged.is_empty() {
            steps.push_back(Step::Acknowledged(order.acknowledged));
        }
        if !order.claims.is_empty() {
            steps.push_back(Step::Claims(order.claims));
        }
        steps.extend(order.jobs.into_iter().map(|job| Step::Job(Box::new(job))));
        steps.extend(order.cancels.into_iter().map(Step::Cancel));
        steps.extend(order.pauses.into_iter().map(Step::Pause));
        steps.extend(order.replies.into_iter().map(Step::Reply));
        self.serve(c, stream);
    }

    /// Carries out a parent's orders, one after the other.
    pub(super) fn serve(&mut self, c: usize, stream: usize) {
        let Some((caller, hello, number)) = self.streams[stream].parent.clone() else { return };
        while !self.streams[stream].busy
            && let Some(step) = self.streams[stream].steps.pop_front()
        {
            let parents = &mut self.coordinators[c].memory.parents;
            match step {
                Step::Check => {
                    if !parents.is_current(&caller, number) {
                        self.streams[stream].steps.clear();
                    }
                }
                Step::Acknowledged(ids) => {
                    let ended: Vec<Arc<str>> =
                        ids.iter().filter_map(|id| parents.acknowledge(&caller, &AttemptKey::from(id))).collect();
                    ended.iter().for_each(|process| self.discard(c, process));
                }
                Step::Claims(claims) => {
                    if let Some((stream, reports)) = parents.claim(&caller, claims) {
                        reports.into_iter().for_each(|report| self.report_to_parent(stream, report));
                    }
                }
                Step::Job(job) => self.accept_subtree(c, &caller, &hello, (stream, number), *job),
                Step::Cancel(id) => {
                    if let Some(process) = parents.cancel(&caller, &AttemptKey::from(&id)) {
                        self.mail(c, &process, Mail::Happened(ProcessInput::ParentCancelled));
                    }
                }
                Step::Pause(pause) => {
                    let process = parents.process(&caller, &AttemptKey::from(&pause.id.unwrap_or_default()));
                    if let Some(process) = process {
                        self.mail(c, &process, Mail::Happened(ProcessInput::ParentPaused(pause.paused)));
                    }
                }
                Step::Reply(reply) => {
                    if let Some((stream, reply)) = parents.reply(reply) {
                        self.order(stream, Order::Reply(reply));
                    }
                }
            }
        }
    }

    /// A subtree that is over leaves the store.
    pub fn discard(&mut self, c: usize, process: &Arc<str>) {
        let summary = Summary::new(&v1::ProcessStatus::default(), Vec::new(), &ProcessHistory::default());
        let change = Change::Close(process.clone(), codec::encode(&summary));
        self.write(c, change, Done::Discarded(process.clone()));
    }

    /// A subtree of another coordinator's process arrives by a stream with this number.
    pub(super) fn accept_subtree(
        &mut self,
        c: usize,
        caller: &Caller,
        hello: &v1::CoordinatorHello,
        (stream, number): (usize, u64),
        job: v1::Job,
    ) {
        let (Some(id), Some(subtree)) = (job.id, job.subtree) else { return };
        let (key, path): (_, Arc<str>) = (AttemptKey::from(&id), job.path.into());
        let name = hosted::process_id(caller, &key, &path);
        let parent = ParentAttempt { caller: caller.clone(), key };
        match self.coordinators[c].memory.parents.arrive(&parent, number, &name, job.epoch) {
            ArrivalDecision::Start => {}
            ArrivalDecision::Ignore => return,
            ArrivalDecision::AnswerAgain(message) => return self.send_to_parent(Some(message)),
        }
        let start = match hosted::start_from(&self.tools.program, path, job.parameters, subtree) {
            Ok(start) => start,
            Err(unfit) => return self.broken(Some(format!("a subtree does not fit: {}", unfit.0))),
        };
        let origin = parent.origin(hello.address.clone());
        self.streams[stream].busy = true;
        if self.start(c, name, start, Some((parent, stream, origin)), None).is_err() {
            self.broken(Some("a subtree does not start".into()));
        }
    }
}
