//! The pool of a coordinator, its connections, and what comes by them.

use super::*;

impl World<'_> {
    pub fn pool_mail(&mut self, c: usize, mail: PoolMail) {
        let memory = &mut self.coordinators[c].memory;
        memory.pool_mail.push_back(mail);
        if !std::mem::replace(&mut memory.pool_awake, true) {
            let delay = if self.random.one_in(12) { self.random.below(20) } else { self.random.below(2) };
            self.later(Who::Coordinator(c), delay, Task::Pool);
        }
    }

    pub fn on_pool(&mut self, c: usize) {
        let now = self.clock(c);
        let memory = &mut self.coordinators[c].memory;
        memory.pool_awake = false;
        let name = &self.coordinators[c].machine.name.clone();
        let memory = &mut self.coordinators[c].memory;
        let mut replies = Vec::new();
        for mail in std::mem::take(&mut memory.pool_mail) {
            let pool = &mut memory.pool;
            match mail {
                PoolMail::Input(input) => pool.handle(input, now),
                PoolMail::Moved(key, place, reply) => {
                    let moved = pool.on_moved(&key, &place, now);
                    replies.push((key, reply, moved));
                }
                PoolMail::Connected(peer, hello, stream) => {
                    if let Some(link) = memory.links.get_mut(&peer) {
                        link.orders = Some(stream);
                        pool.on_connected(&peer, hello, now);
                        self.check.connected(name, &peer, self.now);
                    }
                }
                PoolMail::Disconnected(peer) => {
                    if let Some(link) = memory.links.get_mut(&peer) {
                        link.orders = None;
                    }
                    pool.on_disconnected(&peer, now);
                    self.check.disconnected(name, &peer, self.now);
                }
            }
        }
        for (key, reply, moved) in replies {
            match moved {
                MoveOutcome::Recording => self.reply(reply, Answer::Noted),
                MoveOutcome::Recorded => self.reply(reply, Answer::Done),
                MoveOutcome::Unwanted => {
                    let process = key.process.clone();
                    let asked = ProcessInput::StillWanted { key, asker: reply.clone() };
                    if !self.mail(c, &process, Mail::Happened(asked)) {
                        self.reply(reply, Answer::Noted);
                    }
                }
            }
        }
        self.after_pool(c, now);
    }

    pub fn on_look(&mut self, c: usize) {
        let now = self.clock(c);
        self.coordinators[c].memory.pool.on_tick(now);
        self.after_pool(c, now);
        let delay = self.random.between(80, 300);
        self.later(Who::Coordinator(c), delay, Task::Look);
    }

    pub(super) fn after_pool(&mut self, c: usize, now: Duration) {
        let memory = &mut self.coordinators[c].memory;
        memory.pool.place_queued(now);
        for effect in memory.pool.take_commands() {
            self.carry_out(c, effect);
        }
        let memory = &mut self.coordinators[c].memory;
        let share = memory.pool.share();
        if std::mem::replace(&mut memory.share, share) != share {
            let ids: Vec<Arc<str>> = memory.runners.keys().cloned().collect();
            for id in ids {
                if let Some(runner) = self.coordinators[c].memory.runners.get_mut(&id) {
                    runner.share = true;
                }
                self.wake(c, &id);
            }
        }
    }

    pub(super) fn carry_out(&mut self, c: usize, effect: PoolCommand) {
        match effect {
            PoolCommand::Connect(name, peer, address) => {
                let number = self.count();
                let link = Link { number, address, pause: FIRST_PAUSE, stream: None, orders: None };
                let former = self.coordinators[c].memory.links.insert(name.clone(), link);
                former.and_then(|link| link.stream).into_iter().for_each(|it| self.close(it, Side::Client));
                if peer == PeerKind::Worker {
                    let own = &self.coordinators[c].machine.name;
                    self.check.disconnected(own, &name, self.now);
                }
                self.later(Who::Coordinator(c), 0, Task::Connect(name, number));
            }
            PoolCommand::Disconnect(name) => {
                let link = self.coordinators[c].memory.links.remove(&name);
                link.and_then(|link| link.stream).into_iter().for_each(|it| self.close(it, Side::Client));
            }
            PoolCommand::Send(name, order) => {
                let stream = self.coordinators[c].memory.links.get(&name).and_then(|link| link.orders);
                stream.into_iter().for_each(|stream| self.order(stream, order.clone()));
            }
            PoolCommand::Notify(key, told) => {
                self.trace(|| format!("c{c}: {key:?} is told {told:?}"));
                let process = key.process.clone();
                self.mail(c, &process, Mail::Happened(ProcessInput::of_notice(key, told)));
            }
            PoolCommand::FindPlace(key) => {
                let delay = self.random.between(1, 40);
                self.later(Who::Coordinator(c), delay, Task::FindPlace(key));
            }
            PoolCommand::Borrow(_) | PoolCommand::StoreLease(..) | PoolCommand::DeleteLease(_) => {}
        }
    }

    /// Somewhere a subtree can go.
    pub fn find_place(&mut self, c: usize, key: AttemptKey) {
        let others: Vec<usize> = (0..self.coordinators.len()).filter(|other| *other != c).collect();
        let refused = self.random.one_in(12);
        let place = self.random.pick(&others).filter(|_| !refused).map(|other| {
            let name = self.coordinators[other].machine.name.to_string();
            v1::NodeDescription { name: name.clone(), address: name, ..v1::NodeDescription::default() }
        });
        self.pool_mail(c, PoolMail::Input(PoolInput::PlaceFound(key, place)));
    }

    pub fn roster(&mut self, c: usize) {
        let it = &self.coordinators[c].machine;
        let settling = self.now < it.began + 400;
        let near = self.workers.iter().filter(|worker| worker.machine.group == it.group);
        let alive = near.filter(|worker| worker.machine.alive || worker.machine.died + 5000 > self.now);
        let workers = alive.map(|worker| v1::NodeDescription {
            name: worker.machine.name.to_string(),
            address: worker.machine.name.to_string(),
            slots: worker.slots,
            ..v1::NodeDescription::default()
        });
        let roster = v1::Roster {
            workers: if settling && self.random.one_in(2) { Vec::new() } else { workers.collect() },
            settling,
            free_slots: 1,
            foreign_coordinators: self.coordinators.len() as u32 - 1,
            ..v1::Roster::default()
        };
        self.pool_mail(c, PoolMail::Input(PoolInput::Roster(roster)));
        let delay = if settling { 200 } else { 1000 };
        self.later(Who::Coordinator(c), delay, Task::Roster);
    }

    pub fn connect(&mut self, c: usize, name: &Arc<str>, number: u64) {
        let link = self.coordinators[c].memory.links.get_mut(name).filter(|link| link.number == number);
        let Some(link) = link.filter(|link| link.stream.is_none()) else { return };
        let address = link.address.clone();
        let (here, there) = (Who::Coordinator(c), self.address(&address));
        if self.machine(there).alive && self.reaches(here, there) {
            let hello = self.hello(c);
            let stream = self.open(here, there, name.clone(), hello);
            if let Some(link) = self.coordinators[c].memory.links.get_mut(name) {
                link.stream = Some(stream);
            }
        } else {
            self.connect_later(c, name);
        }
    }

    pub(super) fn connect_later(&mut self, c: usize, name: &Arc<str>) {
        let Some(link) = self.coordinators[c].memory.links.get_mut(name) else { return };
        let (pause, number) = (link.pause, link.number);
        link.pause = (pause * 2).min(LONGEST_PAUSE);
        self.later(Who::Coordinator(c), pause, Task::Connect(name.clone(), number));
    }

    pub fn link_broke(&mut self, c: usize, stream: usize) {
        let (name, opened) = (self.streams[stream].name.clone(), self.streams[stream].opened);
        let Some(link) = self.coordinators[c].memory.links.get_mut(&name) else { return };
        if link.stream != Some(stream) {
            return;
        }
        link.stream = None;
        if self.now - opened > LONGEST_PAUSE {
            link.pause = FIRST_PAUSE;
        }
        self.pool_mail(c, PoolMail::Disconnected(name.clone()));
        self.connect_later(c, &name);
    }

    /// Something arrives from a worker, or from a coordinator that has a subtree.
    pub fn on_report(&mut self, c: usize, stream: usize, report: v1::WorkReport) {
        if self.streams[stream].closed[Side::Client as usize] {
            return;
        }
        let name = self.streams[stream].name.clone();
        let report: PeerReport<usize, ReplyTo> = PeerReport::sort(&name, &stream, report);
        if let Some(hello) = report.hello {
            self.trace(|| format!("c{c} is connected to {name}: {:?} {:?}", hello.running, hello.answered));
            self.pool_mail(c, PoolMail::Connected(name.clone(), hello, stream));
        }
        for input in report.pool_inputs {
            self.trace(|| format!("c{c} gets a report of {name}: {input:?}"));
            self.pool_mail(c, PoolMail::Input(input));
        }
        if !report.answers.is_empty() {
            self.ambush(Ambush::Answer, Who::Coordinator(c));
        }
        for ProcessAnswers { process, inputs } in report.answers {
            inputs.into_iter().for_each(|input| self.on_answer(c, stream, &process, input));
        }
        for call in report.calls {
            let ticket = call.ticket;
            let process: Arc<str> = call.id.as_ref().map_or("", |id| &id.process).into();
            if !self.mail(c, &process, Mail::Called(call, stream))
                && !self.coordinators[c].memory.foreign.contains_key(&process)
            {
                self.order(stream, Order::Reply(reply_ended(ticket)));
            }
        }
    }

    fn on_answer(&mut self, c: usize, stream: usize, process: &Arc<str>, answer: Happened) {
        let ProcessInput::Answered { key, extras, .. } = &answer else { return };
        let early = match self.mutation {
            Some(Mutation::AckUnrecorded) => extras.is_none(),
            Some(Mutation::ParentAcksEarly) => extras.is_some(),
            _ => false,
        };
        let key = key.clone();
        if early {
            self.order(stream, Order::Acknowledge(key.clone()));
        }
        if !self.mail(c, process, Mail::Happened(answer)) {
            match self.coordinators[c].memory.foreign.get_mut(process) {
                Some(late) => late.push((stream, key)),
                None => self.order(stream, Order::Acknowledge(key)),
            }
        }
    }
}
