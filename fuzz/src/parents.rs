//! Hosted subtrees with any sequence of orders of parents. A subtree that has not ended starts once.

use std::collections::BTreeSet;
use std::sync::Arc;

use xavantes_process_coordinator::subtrees::hosted_subtrees::Caller;
use xavantes_process_coordinator::subtrees::parent_links::{ArrivalDecision, ParentAttempt, ParentLinks};
use xavantes_proto::v1;

use crate::byte_choices::ByteChoices;

/// Checks a sequence of orders and events.
pub fn check(bytes: &[u8]) {
    let input = &mut ByteChoices(bytes);
    let mut links: ParentLinks<u64, u64> = ParentLinks::default();
    let mut running: BTreeSet<(Arc<str>, Arc<str>)> = BTreeSet::new();
    let mut numbers = vec![0];
    while input.has_more() {
        let node: Arc<str> = if input.below(2) == 0 { "g/a".into() } else { "g/b".into() };
        let realm: Arc<str> = if input.below(8) == 0 { "s".into() } else { "r".into() };
        let caller = Caller { node, realm };
        let key = input.key();
        let process: Arc<str> = key.to_string().into();
        let index = (caller.realm.clone(), process.clone());
        let parent = ParentAttempt { caller: caller.clone(), key: key.clone() };
        match input.below(12) {
            0 => {
                for (process, _) in links.retire(&caller) {
                    running.retain(|(_, other)| *other != process);
                }
                numbers.push(links.connect(&caller, 1).number);
            }
            1 | 2 => {
                let number = numbers[usize::from(input.byte()) % numbers.len()];
                if let ArrivalDecision::Start = links.arrive(&parent, number, &process, input.number()) {
                    assert!(running.insert(index), "a subtree that runs starts again");
                }
            }
            3 => {
                drop(links.claim(&caller, vec![v1::Claim { process: key.process.to_string(), epoch: input.number() }]))
            }
            4 => drop(links.cancel(&caller, &key)),
            5 => drop(links.acknowledge(&caller, &key).map(|_| running.remove(&index))),
            6 => {
                links.finish(&parent, v1::Answer { id: Some(key.to_wire()), ..Default::default() });
                running.remove(&index);
            }
            7 => {
                links.leave(&parent, &process);
                running.remove(&index);
            }
            8 => {
                links.forget(&parent);
                running.remove(&index);
            }
            9 => {
                let call = v1::SharedCall { id: Some(key.to_wire()), ticket: input.number(), ..Default::default() };
                links.forward(&parent, call, 7);
            }
            10 => drop(links.reply(v1::SharedReply { ticket: input.number(), result: None })),
            _ => {
                links.refuse(&parent, v1::refusal_reason::Kind::UnknownProgram(v1::Nothing {}));
                running.remove(&index);
            }
        }
    }
}
