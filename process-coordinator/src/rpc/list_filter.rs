//! Which processes a list shows. Pure.

use tonic::Status;
use xavantes_proto::message_limits::{check_count, check_labels, check_optional_name, check_words};
use xavantes_proto::{PROCESS_STATES, v1};

/// The clocks of coordinators differ by less than this. A list ends at the first process that was submitted this long before
/// the earliest submission that it wants.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 3600 * 1000;

/// The conditions that a listed process meets.
#[derive(Debug, Default)]
pub(super) struct Filter {
    wanted: v1::ListFilter,
}

impl Filter {
    /// Checks the filter of a request.
    pub fn new(wanted: v1::ListFilter) -> Result<Self, Status> {
        check_count("the list of states", wanted.states.len(), PROCESS_STATES.len())?;
        if let Some(state) = wanted.states().find(|state| !PROCESS_STATES.contains(state)) {
            let (word, states) = (state.word(), PROCESS_STATES.map(v1::State::word).join(", "));
            return Err(Status::invalid_argument(format!("{word:?} is no state of a process; they are {states}")));
        }
        check_words("the list of process types", &wanted.process_types)?;
        check_optional_name("the name of the process", &wanted.name)?;
        check_labels(&wanted.labels)?;
        Ok(Self { wanted })
    }

    /// Only processes that have not ended are wanted.
    pub fn is_of_unfinished(&self) -> bool {
        !self.wanted.states.is_empty() && !self.wanted.states().any(v1::State::is_ended)
    }

    /// Whether everything of a process that never changes is as wanted.
    pub fn accepts_origin(&self, status: &v1::ProcessStatus) -> bool {
        let v1::ListFilter { process_types, name, labels, since_ms, .. } = &self.wanted;
        (process_types.is_empty() || process_types.contains(&status.process_type))
            && (name.is_empty() || *name == status.name)
            && labels.iter().all(|label| status.labels.contains(label))
            && status.submitted_ms >= *since_ms
    }

    /// Whether the state of a process is wanted.
    pub fn accepts_state(&self, status: &v1::ProcessStatus) -> bool {
        self.wanted.states.is_empty() || self.wanted.states().any(|state| state == status.state())
    }

    /// Whether all processes that were submitted before this one are too old.
    pub fn is_behind(&self, status: &v1::ProcessStatus) -> bool {
        // A process whose head cannot be read has no time.
        status.submitted_ms > 0 && status.submitted_ms.saturating_add(MAX_CLOCK_DIFFERENCE_MS) < self.wanted.since_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(key: &str, value: &str) -> v1::Label {
        v1::Label { key: key.into(), value: value.into() }
    }

    fn filter(wanted: v1::ListFilter) -> Filter {
        Filter::new(wanted).unwrap_or_else(|status| panic!("{status}"))
    }

    #[test]
    fn a_process_must_meet_all_conditions() {
        let status = v1::ProcessStatus {
            process_type: "Sweep".into(),
            name: "night".into(),
            labels: vec![label("team", "red"), label("year", "")],
            submitted_ms: 5000,
            state: v1::State::Paused.into(),
            paused: true,
            ..v1::ProcessStatus::default()
        };
        let none = v1::ListFilter::default;
        for wanted in [
            none(),
            v1::ListFilter { process_types: vec!["Other".into(), "Sweep".into()], ..none() },
            v1::ListFilter { name: "night".into(), ..none() },
            v1::ListFilter { labels: vec![label("year", ""), label("team", "red")], ..none() },
            v1::ListFilter {
                since_ms: 5000,
                states: vec![v1::State::Failed.into(), v1::State::Paused.into()],
                ..none()
            },
        ] {
            let filter = filter(wanted);
            assert!(filter.accepts_origin(&status) && filter.accepts_state(&status), "{filter:?}");
        }
        for wanted in [
            v1::ListFilter { process_types: vec!["sweep".into()], ..none() },
            v1::ListFilter { name: "nigh".into(), ..none() },
            v1::ListFilter { labels: vec![label("team", "red"), label("year", "1")], ..none() },
            v1::ListFilter { since_ms: 5001, ..none() },
            v1::ListFilter { states: vec![v1::State::Running.into()], ..none() },
        ] {
            let filter = filter(wanted);
            assert!(!(filter.accepts_origin(&status) && filter.accepts_state(&status)), "{filter:?}");
        }
        let since = |since_ms| filter(v1::ListFilter { since_ms, ..none() });
        assert!(!since(5000 + MAX_CLOCK_DIFFERENCE_MS).is_behind(&status));
        assert!(since(5001 + MAX_CLOCK_DIFFERENCE_MS).is_behind(&status));
        assert!(!since(u64::MAX).is_behind(&v1::ProcessStatus::default()), "its time is not known");
        use v1::State;
        let states =
            |states: &[State]| v1::ListFilter { states: states.iter().map(|it| (*it).into()).collect(), ..none() };
        assert!(filter(states(&[State::Held, State::Running])).is_of_unfinished());
        assert!(
            !filter(states(&[State::Held, State::Failed])).is_of_unfinished() && !filter(none()).is_of_unfinished()
        );
        let refused = Filter::new(states(&[State::Ended])).expect_err("no process is in this state");
        assert!(refused.message().starts_with("\"ended\" is no state of a process; they are waiting, "), "{refused}");
        for labels in [vec![label("", "x")], vec![label("a", "1"), label("a", "2")], vec![label("a", "\n")]] {
            assert!(Filter::new(v1::ListFilter { labels, ..none() }).is_err());
        }
    }
}
