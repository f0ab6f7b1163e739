//! What users must get: every acknowledged process ends, with the right results.

use xavantes_model::value::Value;
use xavantes_process_coordinator::process::ended_summary::Summary;
use xavantes_process_coordinator::record_codec;
use xavantes_proto::v1;

use crate::state_budgets::Excess;
use crate::user::state::{Belief, Submission};
use crate::world::World;
use crate::world_documents::{EXCESS_SUM, LARGE, expected};

impl World<'_> {
    /// Does the store have the end of a process?
    pub fn has_ended(&self, number: usize) -> bool {
        let case = &self.users.submissions[number];
        let stored = self.stores[case.group].processes.get(&case.id);
        stored.is_some_and(|stored| stored.summary.is_some())
    }

    /// Have all processes ended?
    pub fn all_ended(&self) -> bool {
        (0..self.users.submissions.len()).all(|case| self.users.submissions[case].acknowledged && self.has_ended(case))
    }

    /// Checks that the stores have all acknowledged processes. Gives the problem.
    pub fn find_lost_submission(&self) -> Option<String> {
        let lost = self
            .users
            .submissions
            .iter()
            .find(|case| case.acknowledged && !self.stores[case.group].processes.contains_key(&case.id));
        lost.map(|case| format!("the acknowledged submission of {} was lost", case.id))
    }

    /// The processes that have not ended.
    pub fn unended(&self) -> String {
        let cases = (0..self.users.submissions.len()).filter(|case| !self.has_ended(*case));
        cases.map(|case| self.users.submissions[case].id.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Checks the results of all processes. Gives the problem.
    pub fn find_wrong_result(&self) -> Option<String> {
        self.users.submissions.iter().find_map(|case| self.check_result(case))
    }

    fn check_result(&self, case: &Submission) -> Option<String> {
        let id = &case.id;
        let damaged = self.stores[case.group].processes.get(id).is_some_and(|stored| stored.damaged);
        let read = || {
            let summary = self.stores[case.group].processes.get(id)?.summary.clone()?;
            let summary: Summary = record_codec::decode("summary", &summary).ok()?;
            Some((summary.status().ok()?, summary.results().ok()?))
        };
        let Some((status, results)) = read() else { return Some(format!("the end of {id} is lost")) };
        let cancelled = status.state() == v1::State::Cancelled;
        if damaged {
            let went_on = format!("{id} is damaged, and ended {:?}", status.state());
            return (!cancelled).then_some(went_on);
        }
        match (case.cancelled, cancelled) {
            (Belief::Yes, false) => return Some(format!("{id} was cancelled, and ended {:?}", status.state())),
            (Belief::No, true) if self.users.held.contains(id) => return None,
            (Belief::No, true) => return Some(format!("{id} ended cancelled, and no user cancelled it")),
            (_, true) => return None,
            _ => {}
        }
        let excess = if case.process_type == LARGE { self.excess(case.n) } else { Excess::No };
        let failure = status.failure.clone().unwrap_or_default();
        // The results of a process count, too. A coordinator with a low setting may have no room for what handles the failure.
        if excess != Excess::No && failure.kind() == v1::FailureKind::Limit {
            return None;
        }
        if status.state() != v1::State::Completed {
            return Some(format!("{id} ended {:?}: {}", status.state(), status.failure.unwrap_or_default().message));
        }
        let result = |name: &str| {
            let found = results.iter().find(|result| result.name == name);
            found.and_then(|result| result.value.clone()).and_then(|value| xavantes_proto::value_from(value).ok())
        };
        let (Some(Value::Int(sum)), Some(Value::Int(count)), Some(Value::List(log))) =
            (result("sum"), result("count"), result("log"))
        else {
            return Some(format!("{id} lacks results: {results:?}"));
        };
        let log: Vec<i64> = log
            .iter()
            .map(|number| match number {
                Value::Int(number) => *number,
                _ => -1,
            })
            .collect();
        if excess != Excess::No && sum == EXCESS_SUM {
            return self.check.shared(id, count, &log);
        }
        if excess == Excess::Yes {
            return Some(format!("{id} exceeds its budget, and its sum is {sum}"));
        }
        let changes: &[bool] = match case.changed {
            Belief::No => &[false],
            Belief::Maybe => &[false, true],
            Belief::Yes => &[true],
        };
        let right = changes.iter().map(|changed| expected(case.process_type, case.n, *changed));
        let Some((_, activities)) = right.clone().find(|(right, _)| *right == sum) else {
            return Some(format!("the sum of {id} is {sum}, not one of {:?}", right.collect::<Vec<_>>()));
        };
        let completed = status.counts.unwrap_or_default().completed;
        let asked = self.check.asked.iter().any(|path| path.starts_with(&**id));
        if completed < activities || (!asked && completed != activities) {
            return Some(format!("{completed} activities of {id} completed, not {activities}"));
        }
        if let Some((path, attempt)) = case.again.iter().find(|(path, attempt)| !self.check.went_on(path, *attempt)) {
            return Some(format!("a user gave up attempt {attempt} of {path}, and no other attempt followed"));
        }
        self.check.shared(id, count, &log)
    }
}
