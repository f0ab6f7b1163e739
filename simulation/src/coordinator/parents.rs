//! What users and other coordinators ask of a coordinator, and the subtrees that it runs for others.

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
                let it = &mut self.coordinators[c];
                if it.memory.runners.contains_key(&key.process) {
                    return self.pool_mail(c, PoolMail::Moved(key, place, reply));
                }
                let store = &mut self.stores[it.store];
                let answer = if it.store_cut_until > self.now {
                    Answer::Rejected
                } else if store.runs(&key.process) && store.moved.get(&key) != Some(&None) {
                    store.moved.insert(key, Some(place));
                    Answer::Noted
                } else {
                    store.moved.remove(&key);
                    Answer::Unwanted
                };
                self.reply(reply, answer);
            }
        }
    }

    /// Keeps a process, and starts it then.
    pub(super) fn start(
        &mut self,
        c: usize,
        id: Arc<str>,
        start: Start,
        parent: Option<(Caller, AttemptKey, usize, Origin)>,
        reply: Option<ReplyTo>,
    ) -> Result<(), Option<ReplyTo>> {
        let root = start.root;
        let program = self.tools.program.clone();
        let process_type = program.processes[root.process].name.to_string();
        let mut output = StepOutput::default();
        let Ok(engine) = Engine::start(program, start, Time(0), &mut output) else { return Err(reply) };
        let mut driver = Driver::new(id.clone(), engine, root, self.tools.wire.clone(), output);
        let (origin, parent) = match parent {
            Some((caller, key, stream, origin)) => (Some(origin), Some((caller, key, stream))),
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
        let stream = parent.as_ref().map(|(_, _, stream)| *stream);
        match result {
            Ok(()) => {
                self.trace(|| format!("c{c} starts {id}"));
                let epoch = self.coordinators[c].held.epochs.get(&id).copied().unwrap_or_default();
                self.pool_mail(c, PoolMail::Began(id.clone(), epoch));
                if let Some(origin) = head.parent.clone() {
                    self.later(Who::Coordinator(c), 30_000, Task::TellParent(origin, epoch));
                }
                self.run_process(c, &id, driver, head, 0, parent.map(|(caller, key, _)| (caller, key)));
                reply.into_iter().for_each(|reply| self.reply(reply, Answer::Done));
            }
            Err(refused) => {
                if let Some((caller, key, _)) = &parent {
                    self.refuse(c, caller, key, format!("{refused:?}"));
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

    pub(super) fn tell(&mut self, c: usize, caller: &Caller, report: Report) {
        let stream = self.coordinators[c].memory.parents.streams.get(&caller.to_string()).map(|(_, stream)| *stream);
        stream.into_iter().for_each(|stream| self.report(stream, report.clone()));
    }

    pub(super) fn refuse(&mut self, c: usize, caller: &Caller, key: &AttemptKey, reason: String) {
        self.coordinators[c].memory.parents.books.remove(caller, key);
        let refusal = v1::Refusal::permanent(v1::refusal_reason::Kind::InvalidJob(reason));
        let outcome = Some(v1::answer::Outcome::Refused(refusal));
        let answer = v1::Answer { id: Some(key.to_wire()), outcome, ..v1::Answer::default() };
        self.tell(c, caller, Report::Answer(Arc::new(answer)));
    }

    /// An order of a parent arrives.
    pub fn coordinator_takes(&mut self, c: usize, stream: usize, order: v1::WorkOrder) {
        if self.streams[stream].closed[Side::Server as usize] {
            return;
        }
        if let Some(hello) = order.hello {
            let caller =
                Caller { node: format!("{}/{}", hello.group, hello.node).into(), realm: hello.realm.as_str().into() };
            let number = self.count();
            let parents = &mut self.coordinators[c].memory.parents;
            let (running, answers) = parents.books.known_to(&caller);
            let answered = answers.iter().filter_map(|answer| answer.id.clone()).collect();
            let calls: Vec<_> =
                parents.calls.values().filter(|it| it.parent == caller).map(|it| it.call.clone()).collect();
            let former = parents.streams.insert(caller.to_string(), (number, stream));
            self.streams[stream].parent = Some((caller, hello, number));
            former.into_iter().for_each(|(_, former)| self.close(former, Side::Server));
            let hello = v1::WorkerHello { running, answered, ..v1::WorkerHello::default() };
            self.report(stream, Report::Hello(hello));
            answers.into_iter().for_each(|answer| self.report(stream, Report::Answer(Arc::new(answer))));
            calls.into_iter().for_each(|call| self.report(stream, Report::Call(Arc::new(call))));
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
                    let newest = parents.streams.get(&caller.to_string()).map(|(newest, _)| *newest);
                    if newest != Some(number) {
                        self.streams[stream].steps.clear();
                    }
                }
                Step::Acknowledged(ids) => {
                    let over: Vec<Arc<str>> =
                        ids.iter().filter_map(|id| parents.books.acknowledge(&caller, &AttemptKey::from(id))).collect();
                    over.iter().for_each(|process| self.discard(c, process));
                }
                Step::Claims(claims) => {
                    let (processes, running, answers) = parents.books.claim(&caller, claims);
                    for pending in parents.calls.values_mut() {
                        let claimed = processes.iter().any(|process| **process == *pending.key.process);
                        if pending.parent.realm == caller.realm && claimed {
                            pending.parent = caller.clone();
                        }
                    }
                    let answered = answers.iter().filter_map(|answer| answer.id.clone()).collect();
                    let calls = parents.calls.values().filter(|it| it.parent == caller);
                    let calls: Vec<_> = calls.map(|it| it.call.clone()).collect();
                    self.tell(c, &caller, Report::Known(v1::Known { processes, running, answered }));
                    answers.into_iter().for_each(|answer| self.tell(c, &caller, Report::Answer(Arc::new(answer))));
                    calls.into_iter().for_each(|call| self.tell(c, &caller, Report::Call(Arc::new(call))));
                }
                Step::Job(job) => {
                    let newest = parents.streams.get(&caller.to_string()).map(|(newest, _)| *newest);
                    if newest == Some(number) {
                        self.foster(c, &caller, &hello, stream, *job);
                    }
                }
                Step::Cancel(id) => {
                    let process = parents.books.cancel(&caller, &AttemptKey::from(&id));
                    if let Some(process) = process {
                        self.mail(c, &process, Mail::Happened(ProcessInput::ParentCancelled));
                    }
                }
                Step::Pause(pause) => {
                    let process = parents.books.process(&caller, &AttemptKey::from(&pause.id.unwrap_or_default()));
                    if let Some(process) = process {
                        self.mail(c, &process, Mail::Happened(ProcessInput::ParentPaused(pause.paused)));
                    }
                }
                Step::Reply(reply) => {
                    if let Some(pending) = parents.calls.remove(&reply.ticket) {
                        let reply = v1::SharedReply { ticket: pending.ticket, ..reply };
                        self.order(pending.stream, Order::Reply(reply));
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

    /// A subtree of another coordinator's process arrives.
    pub(super) fn foster(
        &mut self,
        c: usize,
        caller: &Caller,
        hello: &v1::CoordinatorHello,
        stream: usize,
        job: v1::Job,
    ) {
        let (Some(id), Some(subtree)) = (job.id, job.subtree) else { return };
        let (key, path): (_, Arc<str>) = (AttemptKey::from(&id), job.path.into());
        let name = hosted::process_id(caller, &key, &path);
        match self.coordinators[c].memory.parents.books.arrive(caller, &key, &name, job.epoch) {
            Arrival::New => {}
            Arrival::Known => return,
            Arrival::Ended(answer) => return self.tell(c, caller, Report::Answer(Arc::new(*answer))),
        }
        let start = match hosted::start_from(&self.tools.program, path, job.parameters, subtree) {
            Ok(start) => start,
            Err(unfit) => return self.broken(Some(format!("a subtree does not fit: {}", unfit.0))),
        };
        let origin = Origin {
            coordinator: caller.to_string(),
            address: hello.address.clone(),
            process: id.process,
            element: id.element,
            attempt: id.attempt,
        };
        self.streams[stream].busy = true;
        let parent = (caller.clone(), key, stream, origin);
        if self.start(c, name, start, Some(parent), None).is_err() {
            self.broken(Some("a subtree does not start".into()));
        }
    }

    /// A call of an object that lives further up.
    pub(super) fn forward(
        &mut self,
        c: usize,
        (caller, key): (Caller, AttemptKey),
        mut call: v1::SharedCall,
        stream: usize,
    ) {
        let ticket = call.ticket;
        let id = call.id.take().unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        (id.element, id.attempt, call.caller).hash(&mut hasher);
        call.caller = hasher.finish() | 1;
        call.id = Some(key.to_wire());
        call.ticket = self.count();
        let parents = &mut self.coordinators[c].memory.parents;
        let parent = parents.books.caller(&caller, &key).unwrap_or(caller);
        let pending = Pending { parent: parent.clone(), key, call: call.clone(), stream, ticket };
        parents.calls.insert(call.ticket, pending);
        self.tell(c, &parent, Report::Call(Arc::new(call)));
    }
}
