//! The attempt table of a worker with any sequence of orders. It starts no attempt that runs, and keeps within its slots.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_activity_manager::attempts::action::TableAction;
use xavantes_activity_manager::attempts::admission::Resources;
use xavantes_activity_manager::attempts::attempt_table::{AttemptTable, ReadyJob};
use xavantes_activity_manager::attempts::order::TableOrder;
use xavantes_activity_manager::attempts::realm_attempt::{CoordinatorStream, RealmAttempt};
use xavantes_proto::v1;
use xavantes_proto::v1::answer::Outcome;

use crate::byte_choices::ByteChoices;

const SLOTS: u32 = 3;

/// A worker, with the attempts that it runs and their numbers of slots.
struct Worker {
    table: AttemptTable<(RealmAttempt, u32)>,
    running: BTreeMap<RealmAttempt, u32>,
    unwritten: Vec<RealmAttempt>,
}

impl Worker {
    fn perform(&mut self, actions: Vec<TableAction<(RealmAttempt, u32)>>) {
        for action in actions {
            match action {
                TableAction::Start((attempt, cpus)) => {
                    assert!(self.running.insert(attempt, cpus).is_none(), "an attempt that runs starts");
                    assert!(self.running.values().sum::<u32>() <= SLOTS, "more attempts run than slots allow");
                }
                TableAction::Persist(answer) => self.unwritten.push(answer.attempt),
                TableAction::Stop((attempt, _)) => assert!(self.running.contains_key(&attempt), "it does not run"),
                TableAction::Send(..) | TableAction::Forget(_) | TableAction::Reply(_) => {}
            }
        }
    }

    fn finish(&mut self, attempt: &RealmAttempt) {
        if self.running.remove(attempt).is_some() {
            let answer = attempt.answer(Outcome::Completed(v1::Completed::default()));
            let actions = self.table.on_finished(attempt, answer);
            self.perform(actions);
        }
    }
}

fn order(input: &mut ByteChoices<'_>) -> v1::WorkOrder {
    let ids = |input: &mut ByteChoices<'_>| (0..input.below(3)).map(|_| input.key().to_wire()).collect::<Vec<_>>();
    v1::WorkOrder {
        jobs: (0..input.below(4))
            .map(|_| v1::Job {
                id: Some(input.key().to_wire()),
                epoch: input.number(),
                activity: input.number() as u32,
                ..Default::default()
            })
            .collect(),
        cancels: ids(input),
        acknowledged: ids(input),
        claims: (0..input.below(2)).map(|_| v1::Claim { process: "p".into(), epoch: input.number() }).collect(),
        recall: input.below(6) == 0,
        replies: (0..input.below(2)).map(|_| v1::SharedReply { ticket: input.number(), result: None }).collect(),
        ..Default::default()
    }
}

/// Checks a sequence of orders and events.
pub fn check(bytes: &[u8]) {
    let input = &mut ByteChoices(bytes);
    let table = AttemptTable::new(Resources::slots(SLOTS), usize::from(input.below(5)));
    let mut worker = Worker { table, running: BTreeMap::new(), unwritten: Vec::new() };
    let mut streams: Vec<CoordinatorStream> = Vec::new();
    while input.has_more() {
        match input.below(8) {
            0 => {
                let coordinator: Arc<str> = if input.below(2) == 0 { "g/c".into() } else { "g/d".into() };
                let realm: Arc<str> = if input.below(6) == 0 { "s".into() } else { "r".into() };
                let (stream, _, actions) = worker.table.connect(&coordinator, &realm);
                worker.perform(actions);
                streams.push(stream);
            }
            1 => {
                let last = worker.running.keys().nth(usize::from(input.below(3))).cloned();
                last.iter().for_each(|attempt| worker.finish(attempt));
            }
            2 => {
                let written = std::mem::take(&mut worker.unwritten);
                for attempt in written {
                    let actions = worker.table.on_persisted(&attempt);
                    worker.perform(actions);
                }
            }
            3 => {
                let caller = worker.running.keys().nth(usize::from(input.below(3))).cloned();
                if let Some(attempt) = caller {
                    let call = v1::SharedCall { id: Some(attempt.key.to_wire()), ..Default::default() };
                    let (ticket, actions) = worker.table.on_call(&attempt, call);
                    worker.perform(actions);
                    if input.below(2) == 0 {
                        worker.table.abandon_call(ticket);
                    }
                }
            }
            4 => streams.iter().take(usize::from(input.below(3))).for_each(|stream| worker.table.disconnect(stream)),
            _ => {
                let number = usize::from(input.below(8));
                let order = order(input);
                let Some(stream) = streams.iter().rev().nth(number) else { continue };
                let order = TableOrder::new(stream, order, |attempt, job| {
                    let cpus = job.activity.min(SLOTS + 1);
                    Ok(ReadyJob { needs: Resources::slots(cpus), job: (attempt, cpus) })
                });
                let actions = worker.table.on_order(stream, order).unwrap_or_default();
                worker.perform(actions);
            }
        }
    }
    // When everything has ended, all slots are free.
    while let Some(attempt) = worker.running.keys().next().cloned() {
        worker.finish(&attempt);
    }
    assert_eq!(worker.table.load().slots, 0);
}
