//! Processes that run at a coordinator: their mail, their clocks, their journals, and their ends.

use super::*;

impl World<'_> {
    /// Gives a process its mail; false if it does not run here.
    pub(super) fn mail(&mut self, c: usize, process: &Arc<str>, mail: Mail) -> bool {
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(process) else { return false };
        runner.mail.push_back(mail);
        self.wake(c, process);
        true
    }

    pub(super) fn wake(&mut self, c: usize, id: &Arc<str>) {
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(id) else { return };
        if !std::mem::replace(&mut runner.awake, true) {
            let number = runner.number;
            let delay = if self.random.one_in(12) { self.random.below(30) } else { self.random.below(2) };
            self.later(Who::Coordinator(c), delay, Task::Wake(id.clone(), number));
        }
    }

    pub(super) fn runner(&mut self, c: usize, id: &str, number: u64) -> Option<&mut Runner> {
        self.coordinators[c].memory.runners.get_mut(id).filter(|runner| runner.number == number)
    }

    /// A process reads its mail.
    pub fn on_wake(&mut self, c: usize, id: &Arc<str>, number: u64) {
        let share = self.coordinators[c].memory.share;
        let Some(runner) = self.runner(c, id, number) else { return };
        runner.awake = false;
        if runner.ending.is_some() {
            return;
        }
        if std::mem::take(&mut runner.share) {
            let most = if runner.parent.is_some() { 4 } else { u64::MAX };
            runner.driver.set_share(share, most);
            self.take(c, id, ProcessInput::Continued);
        }
        while let Some(mail) = self.runner(c, id, number).and_then(|runner| runner.mail.pop_front()) {
            match mail {
                Mail::Happened(happened) => self.take(c, id, happened),
                Mail::Called(call, stream) => {
                    self.trace(|| format!("c{c}: {id} is called: {call:?}"));
                    let Some(runner) = self.runner(c, id, number) else { continue };
                    match runner.parent.clone().filter(|_| !runner.driver.is_home_of(&call)) {
                        Some(parent) => {
                            let message = self.coordinators[c].memory.parents.forward(&parent, call, stream);
                            self.send_to_parent(message);
                        }
                        None => self.take(c, id, ProcessInput::Called(call, stream)),
                    }
                }
            }
        }
        if self.random.one_in(6) {
            let delay = self.random.between(1, 10);
            self.later(Who::Coordinator(c), delay, Task::Record(id.clone(), number));
        } else {
            self.record(c, id, number);
        }
    }

    pub(super) fn take(&mut self, c: usize, id: &Arc<str>, mut happened: Happened) {
        let clock = self.clock(c);
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(id) else { return };
        let now = Time(runner.began.0 + clock.saturating_sub(runner.began.1).as_millis() as u64);
        let out = |runner: &Runner, key: &AttemptKey| {
            let view = runner.driver.engine().view(element_of(key));
            view.is_some_and(|view| view.outstanding && view.attempts == key.attempt)
        };
        if let ProcessInput::Answered { key, .. } = &mut happened
            && self.mutation == Some(Mutation::ForgetAttemptNumber)
            && let Some(view) = runner.driver.engine().view(element_of(key))
        {
            key.attempt = view.attempts;
        }
        if let (ProcessInput::Steered { .. }, Some(Mutation::LoseSteering), true) =
            (&happened, self.mutation, self.random.one_in(3))
        {
            if let ProcessInput::Steered { asker, .. } = happened {
                self.reply(asker, Answer::Done);
            }
            return;
        }
        let answered = match &happened {
            ProcessInput::Answered { key, from: Some(_), .. } if out(runner, key) => Some(key.clone()),
            _ => None,
        };
        runner.driver.handle(&mut self.tools.sandbox, happened, now);
        if let Some(key) = answered.filter(|key| !out(runner, key)) {
            runner.taken.push(key.clone());
            let creation = self.creation_at(c, id);
            let problem = self.check.applied(creation, &key);
            self.broken(problem);
        }
    }

    /// Records what there is to be recorded, if nothing is being written.
    pub fn record(&mut self, c: usize, id: &Arc<str>, number: u64) {
        loop {
            let Some(runner) = self.runner(c, id, number) else { return };
            if runner.writing.is_some() || runner.ending.is_some() {
                return;
            }
            if runner.driver.has_more_to_do() {
                self.take(c, id, ProcessInput::Continued);
                continue;
            }
            let Some(mut batch) = runner.driver.next_batch() else {
                if runner.driver.engine().state().ended().is_some() {
                    return self.end(c, id);
                }
                return self.arm(c, id);
            };
            let taken = std::mem::take(&mut runner.taken);
            let early = |effect: &ProcessEffect<usize, ReplyTo>| {
                matches!(effect, ProcessEffect::Acknowledge(..) | ProcessEffect::Decide(..))
            };
            let released: Vec<_> = match self.mutation {
                Some(Mutation::ReleaseBeforeFlush) => std::mem::take(&mut batch.effects),
                Some(Mutation::AcknowledgeBeforeFlush) => {
                    let (early, late) = std::mem::take(&mut batch.effects).into_iter().partition(early);
                    batch.effects = late;
                    early
                }
                _ => Vec::new(),
            };
            self.release(c, id, released);
            match &batch.journal {
                None => self.release(c, id, batch.effects),
                Some(entry) => {
                    let change = match entry.clone() {
                        JournalWrite::Append(record) => Change::Append(id.clone(), record),
                        JournalWrite::Compact(snapshot) => Change::Compact(id.clone(), snapshot),
                    };
                    if let Some(runner) = self.runner(c, id, number) {
                        runner.writing = Some((batch, taken));
                    }
                    self.write(c, change, Done::Recorded(id.clone(), number));
                    return self.arm(c, id);
                }
            }
        }
    }

    /// Sets the process's alarm clock.
    pub(super) fn arm(&mut self, c: usize, id: &Arc<str>) {
        let clock = self.clock(c);
        let now = self.now;
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(id) else { return };
        let Some(deadline) = runner.driver.engine().next_deadline() else { return };
        let time = runner.began.0 + clock.saturating_sub(runner.began.1).as_millis() as u64;
        let at = now + deadline.0.saturating_sub(time) + 1;
        if at < runner.timer || runner.timer <= now {
            runner.timer = at;
            let number = runner.number;
            self.later(Who::Coordinator(c), at - now, Task::Timer(id.clone(), number));
        }
    }

    pub fn on_timer(&mut self, c: usize, id: &Arc<str>, number: u64) {
        let Some(runner) = self.runner(c, id, number) else { return };
        runner.timer = u64::MAX;
        if runner.ending.is_none() {
            self.take(c, id, ProcessInput::TimePassed);
            self.record(c, id, number);
            self.arm(c, id);
        }
    }

    pub(super) fn write(&mut self, c: usize, change: Change, done: Done) {
        let delay = match self.random.below(20) {
            0 => self.random.between(50, 700),
            1..5 => self.random.between(5, 50),
            _ => self.random.between(1, 5),
        };
        let it = &mut self.coordinators[c];
        it.writes.push_back(Writing { change, done });
        it.commits = it.commits.max(self.now + delay);
        let (at, life) = (it.commits, it.machine.life);
        self.at(at, Event::Commit(c, life));
        self.ambush(Ambush::Write, Who::Coordinator(c));
    }

    /// The next change is made, unless it must not be.
    pub(super) fn apply_next(&mut self, c: usize) -> Option<(Done, Result<(), Refused>)> {
        let number = self.count();
        let it = &mut self.coordinators[c];
        let Writing { change, done } = it.writes.pop_front()?;
        let fenced = self.mutation != Some(Mutation::NoFencing);
        let owner = |change: &Change| match change {
            Change::Append(process, _) | Change::Compact(process, _) | Change::Close(process, _) => {
                self.stores[it.store].processes.get(process).map(|stored| (process.clone(), stored.owner))
            }
            _ => None,
        };
        let owner = owner(&change);
        let applied = self.stores[it.store].apply(change, &mut it.held, fenced, number);
        if let (Some((process, owner)), Ok(())) = (owner, applied)
            && owner != it.held.session
        {
            self.broken(Some(format!("c{c} writes to {process}, which another coordinator has")));
        }
        Some((done, applied))
    }

    pub fn commit(&mut self, c: usize) {
        if self.coordinators[c].store_cut_until > self.now {
            let it = &mut self.coordinators[c];
            let Some(Writing { done, .. }) = it.writes.pop_front() else { return };
            return self.later(Who::Coordinator(c), 300, Task::Stored(done, Err(Refused::Unavailable)));
        }
        let Some((done, applied)) = self.apply_next(c) else { return };
        let delay = if self.random.one_in(10) { self.random.between(5, 100) } else { self.random.between(0, 3) };
        self.later(Who::Coordinator(c), delay, Task::Stored(done, applied));
        self.ambush(Ambush::Commit, Who::Coordinator(c));
    }

    /// A write was answered.
    pub fn on_stored(&mut self, c: usize, done: Done, result: Result<(), Refused>) {
        match done {
            Done::Started(started) => self.on_started(c, *started, result),
            Done::Discarded(id) => match result {
                Ok(()) | Err(Refused::Unknown) => {
                    self.write(c, Change::Forget(vec![id.clone()]), Done::Forgotten(id));
                }
                Err(Refused::Unavailable) => self.later(Who::Coordinator(c), 1000, Task::Discard(id)),
                Err(_) => {}
            },
            Done::Forgotten(id) => {
                if result == Err(Refused::Unavailable) {
                    self.later(Who::Coordinator(c), 1000, Task::Discard(id));
                }
            }
            Done::Recorded(id, number) => {
                let Some(runner) = self.runner(c, &id, number) else { return };
                match (result, runner.writing.take()) {
                    (Ok(()), Some((batch, taken))) => {
                        let creation = self.creation_at(c, &id);
                        taken.iter().for_each(|key| self.check.recorded(creation, key));
                        self.release(c, &id, batch.effects);
                        self.compare(c, &id);
                        self.record(c, &id, number);
                    }
                    (Err(Refused::Unavailable), Some(again)) => {
                        runner.writing = Some(again);
                        self.later(Who::Coordinator(c), 1000, Task::Again(id, number));
                    }
                    // Whoever has it may have brought it to its end.
                    (Err(_), _) => self.taken(c, &id),
                    (Ok(()), None) => {}
                }
            }
            Done::Closed(id, number) => {
                if self.runner(c, &id, number).is_none() {
                    return;
                }
                match result {
                    Ok(()) => self.leave_mail(c, &id),
                    Err(Refused::Unavailable) => {
                        self.later(Who::Coordinator(c), 1000, Task::Again(id, number));
                    }
                    Err(_) => self.taken(c, &id),
                }
            }
        }
    }

    /// A write is made once more.
    pub fn write_again(&mut self, c: usize, id: &Arc<str>, number: u64) {
        let Some(runner) = self.runner(c, id, number) else { return };
        if let Some(summary) = &runner.ending {
            let change = Change::Close(id.clone(), codec::encode(summary));
            return self.write(c, change, Done::Closed(id.clone(), number));
        }
        let change = match runner.writing.as_ref().and_then(|(batch, _)| batch.journal.clone()) {
            Some(JournalWrite::Append(record)) => Change::Append(id.clone(), record),
            Some(JournalWrite::Compact(snapshot)) => Change::Compact(id.clone(), snapshot),
            None => return,
        };
        self.write(c, change, Done::Recorded(id.clone(), number));
    }

    /// Another coordinator has it.
    pub(super) fn taken(&mut self, c: usize, id: &Arc<str>) {
        self.trace(|| format!("c{c} has lost {id}"));
        let memory = &mut self.coordinators[c].memory;
        let runner = memory.runners.remove(id);
        memory.foreign.entry(id.clone()).or_default();
        if let Some(parent) = runner.and_then(|runner| runner.parent) {
            memory.parents.leave(&parent, id);
        }
        self.pool_mail(c, PoolMail::Input(PoolInput::ProcessLost(id.clone())));
    }

    /// What the journal tells is how the process is.
    pub(super) fn compare(&mut self, c: usize, id: &Arc<str>) {
        let it = &self.coordinators[c];
        let Some(runner) = it.memory.runners.get(id) else { return };
        let ended = runner.driver.engine().state().ended().is_some();
        if runner.driver.backlog() > 0 || !(ended || self.random.one_in(40)) {
            return;
        }
        let Some(stored) = self.stores[it.store].processes.get(id).filter(|it| it.summary.is_none()) else { return };
        let store = &self.stores[it.store];
        if store.processes[id].owner != it.held.session || it.held.epochs.get(id) != Some(&stored.epoch) {
            return;
        }
        let kept = journal::restore(&self.tools.program, &runner.head, stored.snapshot.as_deref(), &stored.records);
        let same = kept.as_ref().is_ok_and(|kept| kept.state == *runner.driver.engine().state());
        if !same {
            self.broken(Some(format!("{id}: the journal gives another state: {:?}", kept.err())));
        }
    }

    /// Does what may be done.
    pub(super) fn release(&mut self, c: usize, id: &Arc<str>, effects: Vec<ProcessEffect<usize, ReplyTo>>) {
        for effect in effects {
            match effect {
                ProcessEffect::Acknowledge(stream, key) => self.order(stream, Order::Acknowledge(key)),
                ProcessEffect::Reply(stream, reply) => self.order(stream, Order::Reply(reply)),
                ProcessEffect::Decide(verdict, decided) => {
                    let asked = !matches!(verdict, ReplyTo::User(_));
                    let answer = match decided {
                        Ok(()) if asked => Answer::Noted,
                        Err(_) if asked => Answer::Unwanted,
                        Ok(()) => Answer::Done,
                        Err(Rejection::Delegated { element, attempt }) => {
                            let key = AttemptKey::new(id.clone(), element.bits(), attempt);
                            let place = self.coordinators[c].memory.pool.whereabouts(&[key]).pop().flatten();
                            match place {
                                Some(Whereabouts::At { address, .. }) => Answer::There(address),
                                _ => Answer::Rejected,
                            }
                        }
                        Err(_) => Answer::Rejected,
                    };
                    self.reply(verdict, answer);
                }
                ProcessEffect::Dispatch(task) => self.pool_mail(c, PoolMail::Input(PoolInput::Dispatch(vec![task]))),
                ProcessEffect::Delegate(task) => self.pool_mail(c, PoolMail::Input(PoolInput::Delegate(task))),
                ProcessEffect::HandOver(key) => self.pool_mail(c, PoolMail::Input(PoolInput::HandOver(key))),
                ProcessEffect::Cancel(key) => self.pool_mail(c, PoolMail::Input(PoolInput::Cancel(key))),
                ProcessEffect::Pause(key, on) => self.pool_mail(c, PoolMail::Input(PoolInput::Pause(key, on))),
                ProcessEffect::Abandon(key) => self.pool_mail(c, PoolMail::Input(PoolInput::Abandon(key))),
                // No process of the simulation has a cache or watchers.
                ProcessEffect::SearchCache(..) | ProcessEffect::Publish { .. } => {}
            }
        }
    }

    pub(super) fn end(&mut self, c: usize, id: &Arc<str>) {
        self.pool_mail(c, PoolMail::Input(PoolInput::ProcessEnded(id.clone())));
        let ended_ms = self.coordinators[c].machine.wall(self.now);
        let memory = &mut self.coordinators[c].memory;
        let Some(runner) = memory.runners.get_mut(id) else { return };
        let Some((outcome, results)) = runner.driver.engine().state().ended() else { return };
        let status = final_status(v1::ProcessStatus::default(), outcome, runner.driver.counts(), ended_ms);
        let (state, history) = (status.state(), runner.driver.history(0));
        if let Some(parent) = &runner.parent {
            let answer = hosted::outcome(runner.driver.engine().program(), runner.driver.root(), outcome, results);
            let answer = hosted::answer(&parent.key, id, answer, runner.driver.counts(), &history, Vec::new());
            let decision = memory.parents.finish(parent, answer);
            self.trace(|| format!("c{c}: {id} has ended {state:?}"));
            self.leave_mail(c, id);
            return match decision {
                EndDecision::Answer(message) => self.send_to_parent(message),
                EndDecision::Discard => self.discard(c, id),
            };
        }
        let summary = Summary::new(&status, final_results(outcome, results), &history);
        let (change, number) = (Change::Close(id.clone(), codec::encode(&summary)), runner.number);
        runner.ending = Some(summary);
        self.trace(|| format!("c{c}: {id} has ended {state:?}"));
        self.write(c, change, Done::Closed(id.clone(), number));
    }

    /// A process is over; whoever still writes gets a last answer.
    pub(super) fn leave_mail(&mut self, c: usize, id: &Arc<str>) {
        let Some(runner) = self.coordinators[c].memory.runners.remove(id) else { return };
        for mail in runner.mail {
            match mail {
                Mail::Called(call, stream) => self.order(stream, Order::Reply(reply_ended(call.ticket))),
                Mail::Happened(ProcessInput::Steered { asker, .. } | ProcessInput::StillWanted { asker, .. }) => {
                    self.reply(asker, Answer::Rejected);
                }
                Mail::Happened(ProcessInput::Answered { key, from: Some(stream), .. }) => {
                    self.order(stream, Order::Acknowledge(key));
                }
                Mail::Happened(_) => {}
            }
        }
    }
}
