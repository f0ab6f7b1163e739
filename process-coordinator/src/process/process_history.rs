//! The history of a process: what became of the elements at each place of its definitions. Without I/O, clock or threads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xavantes_engine::{Failure, History, Intervention, MAX_RECORDED_FAILURES, MAX_RECORDED_INTERVENTIONS, Tally, Time};
use xavantes_model::definition::{DefinitionNodeId, Program};
use xavantes_proto::message_limits::{MAX_FAILURE_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES, shorten};
use xavantes_proto::v1;

use crate::engine_messages::{failure, failure_from};
use crate::process::usage::UsageTotals;

/// Upper bound on the failures and interventions that a message may carry.
const MAX_REMARKS: usize = MAX_RECORDED_FAILURES + MAX_RECORDED_INTERVENTIONS;

/// The history of a process and of its subtrees, including those at other coordinators. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessHistory {
    /// What became of elements, by process type and node.
    tallies: BTreeMap<(u32, u32), Tally>,
    failures: Vec<(Time, Failure)>,
    steered: Vec<Intervention>,
    /// Resource usage of external programs, by activity type.
    usage: BTreeMap<u32, UsageTotals>,
}

impl ProcessHistory {
    /// The history of a process whose engine clock began at this time.
    pub fn of(history: &History, began_ms: u64) -> Self {
        let when = |time: Time| Time(began_ms.saturating_add(time.0));
        let tally = |tally: &Tally| Tally { first: when(tally.first), last: when(tally.last), ..*tally };
        Self {
            tallies: history.tallies().map(|(place, it)| (place, tally(it))).collect(),
            failures: history.failures().iter().map(|(at, failure)| (when(*at), failure.clone())).collect(),
            steered: history.interventions().map(|it| Intervention { at: when(it.at), ..it.clone() }).collect(),
            usage: BTreeMap::new(),
        }
    }

    /// Adds the resource usage of external programs of an activity type.
    pub fn add_usage(&mut self, activity: u32, usage: &UsageTotals) {
        self.usage.entry(activity).or_default().add(usage);
    }

    /// Resource usage of external programs, with the names of their activity types.
    pub fn usage(&self, program: &Program) -> Vec<v1::UsageTotals> {
        let named = |(activity, usage): (&u32, &UsageTotals)| {
            let r#type = program.activities.get(*activity as usize)?.name.to_string();
            Some(v1::UsageTotals { r#type, ..usage.to_wire(*activity) })
        };
        self.usage.iter().filter_map(named).collect()
    }

    /// Adds the history of a subtree.
    pub fn add(&mut self, other: &ProcessHistory) {
        for (place, tally) in &other.tallies {
            self.tallies.entry(*place).or_default().add(tally);
        }
        self.failures.extend(other.failures.iter().cloned());
        self.failures.sort_by_key(|(at, _)| *at);
        self.failures.truncate(MAX_RECORDED_FAILURES);
        self.steered.extend(other.steered.iter().cloned());
        self.steered.sort_by_key(|it| it.at);
        self.steered.drain(..self.steered.len().saturating_sub(MAX_RECORDED_INTERVENTIONS));
        other.usage.iter().for_each(|(activity, usage)| self.add_usage(*activity, usage));
    }

    /// The message, for the wire and for the repository.
    pub fn to_wire(&self) -> v1::History {
        use v1::remark::What;
        let tally = |(&(process, node), tally): (&(u32, u32), &Tally)| v1::Tally {
            process,
            node,
            began: tally.began,
            completed: tally.completed,
            failed: tally.failed,
            cancelled: tally.cancelled,
            retried: tally.retried,
            lost: tally.lost,
            first_ms: tally.first.0,
            last_ms: tally.last.0,
        };
        let remark = |at: Time, path: &str, what: What| v1::Remark {
            at_ms: at.0,
            path: path.into(),
            what: Some(what),
            by: String::new(),
        };
        let failures = self.failures.iter().map(|(at, why)| remark(*at, &why.path, What::Failed(failure(why))));
        let steered = self
            .steered
            .iter()
            .map(|it| v1::Remark { by: it.by.clone(), ..remark(it.at, &it.path, What::Steered(it.what.clone())) });
        let mut remarks: Vec<v1::Remark> = failures.chain(steered).collect();
        remarks.sort_by_key(|remark| remark.at_ms);
        let usage = self.usage.iter().map(|(activity, usage)| usage.to_wire(*activity)).collect();
        v1::History { tallies: self.tallies.iter().map(tally).collect(), remarks, usage }
    }

    /// The history in a message.
    pub fn from_wire(wire: v1::History) -> Self {
        let mut history = Self::default();
        for it in wire.tallies {
            let tally = Tally {
                began: it.began,
                completed: it.completed,
                failed: it.failed,
                cancelled: it.cancelled,
                retried: it.retried,
                lost: it.lost,
                first: Time(it.first_ms),
                last: Time(it.last_ms),
            };
            history.tallies.entry((it.process, it.node)).or_default().add(&tally);
        }
        wire.usage.iter().for_each(|usage| history.add_usage(usage.activity, &UsageTotals::from_wire(usage)));
        for v1::Remark { at_ms, path, what, by } in wire.remarks.into_iter().take(MAX_REMARKS) {
            match what {
                Some(v1::remark::What::Failed(why)) => history.failures.push((Time(at_ms), failure_from(why))),
                Some(v1::remark::What::Steered(what)) => {
                    let (path, what) = (shorten(path, MAX_PATH_BYTES), shorten(what, MAX_FAILURE_BYTES));
                    let by = shorten(by, MAX_NAME_BYTES);
                    history.steered.push(Intervention { at: Time(at_ms), path, what, by })
                }
                None => {}
            }
        }
        history
    }

    /// What became of the elements at a place of the definitions.
    pub(crate) fn tally(&self, process: usize, node: DefinitionNodeId) -> Option<Tally> {
        self.tallies.get(&(process as u32, node.0)).copied()
    }
}
/// The failure that a remark is about.
pub(crate) fn failed(remark: &mut v1::Remark) -> Option<&mut v1::Failure> {
    match &mut remark.what {
        Some(v1::remark::What::Failed(failure)) => Some(failure),
        _ => None,
    }
}
