//! Plans of reruns.

use super::text_table::table;
use crate::output::printer::Report;
use crate::output::visible::visible_line;
use crate::report::rerun::{PlanLimit, RerunPlan, RerunType};
use crate::report::reuse::{Reuse, ReuseReason};

/// Paths that the text shows for each type, of each sort.
const SHOWN: usize = 5;

impl RerunPlan {
    /// The plan in one line.
    pub(crate) fn summary(&self) -> String {
        let Self { former, taken_over, will_run, later, .. } = self;
        let mut text = format!("rerun of {former}: {} taken over, {will_run} will run", activities(*taken_over));
        if *later > 0 {
            text += &format!(", {} for what will run", counted(*later, "place waits", "places wait"));
        }
        match self.stopped {
            None => text,
            Some(PlanLimit::Time) => text + " (at least: the plan took too long and is not complete)",
            Some(PlanLimit::Activities) => text + " (at least: too many will run for a complete plan)",
        }
    }
}

impl Report for RerunPlan {
    fn text(&self) -> String {
        let mut text = self.summary() + "\n";
        if self.taken_over == 0 {
            text += &format!("nothing that {} completed is the same now\n", self.former);
        }
        if self.left_out > 0 {
            text += &format!(
                "{} completed {} whose results were too large to be kept: they run again\n",
                self.former,
                activities(self.left_out)
            );
        }
        let row = |it: &RerunType| {
            let numbers = [it.taken_over, it.will_run, it.later].map(|number| number.to_string());
            [vec![it.r#type.clone()], numbers.to_vec()].concat()
        };
        text += "\n";
        text += &table(&["TYPE", "TAKEN OVER", "WILL RUN", "LATER"], self.types.iter().map(row));
        let running = self.types.iter().map(|it| {
            let lines = it.running.iter().map(|it| format!("{}  {}", it.path, why(&it.reuse)));
            (lines.collect(), it.will_run)
        });
        section(&mut text, "will run", running);
        section(
            &mut text,
            "later, when its inputs are known",
            self.types.iter().map(|it| (it.waiting.clone(), it.later)),
        );
        text
    }
}

/// Adds some lines under a headline, and says how many there are more.
fn section(text: &mut String, head: &str, types: impl Iterator<Item = (Vec<String>, u64)>) {
    let mut is_first = true;
    for (lines, count) in types.filter(|(lines, _)| !lines.is_empty()) {
        if std::mem::take(&mut is_first) {
            *text += &format!("\n{head}:\n");
        }
        let shown = lines.iter().take(SHOWN);
        let more = count.saturating_sub(shown.len() as u64);
        shown.for_each(|line| *text += &format!("  {}\n", visible_line(line)));
        if more > 0 {
            *text += &format!("  and {more} more of this type\n");
        }
    }
}

/// Why an activity runs.
fn why(reuse: &Reuse) -> String {
    let detail = reuse.detail.as_deref().unwrap_or_default();
    let earlier = reuse.earlier.as_deref().unwrap_or_default();
    match reuse.reason {
        ReuseReason::Changed => {
            let code = reuse.code.iter().map(|_| "its code changed".to_owned());
            let parameters = reuse.changes.iter().map(|change| match (&*change.before, &*change.after) {
                ("", _) => format!("{} is new", change.name),
                (_, "") => format!("{} is gone", change.name),
                (before, after) => format!("{} changed from {before} to {after}", change.name),
            });
            code.chain(parameters).collect::<Vec<_>>().join("; ")
        }
        ReuseReason::FilesGone => format!("no node has {detail} any more, a result of {earlier}"),
        ReuseReason::TakenOver => format!("another activity takes over the results of {earlier}"),
        _ => detail.to_owned(),
    }
}

fn activities(count: u64) -> String {
    counted(count, "activity", "activities")
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use xavantes_proto::v1;
    use xavantes_proto::v1::reuse_reason::Kind;

    use super::*;

    fn running(path: &str, reason: Kind) -> v1::RerunActivity {
        v1::RerunActivity { path: path.into(), reason: Some(reason.into()) }
    }

    #[test]
    fn a_plan_says_what_runs_and_why() {
        let parameter = v1::ParameterChange { name: "n".into(), before: "3".into(), after: "4".into() };
        let changed = Kind::Changed(v1::ReuseChange {
            code: "2".into(),
            code_before: "1".into(),
            parameters: vec![parameter],
            ..v1::ReuseChange::default()
        });
        let not_completed = Kind::NotCompleted(v1::ReuseNotCompleted { process: "P-1".into(), left_out: 0 });
        let measure = v1::RerunType {
            r#type: "Measure".into(),
            taken_over: 5,
            will_run: 7,
            running: vec![running("all/[3]/measure", changed), running("all/[9]/measure", not_completed)],
            ..v1::RerunType::default()
        };
        let merge = v1::RerunType {
            r#type: "Merge".into(),
            later: 1,
            waiting: vec!["merge".into()],
            ..v1::RerunType::default()
        };
        let plan = v1::RerunPlan {
            former: "P-1".into(),
            types: vec![measure, merge],
            taken_over: 5,
            will_run: 7,
            later: 1,
            ..v1::RerunPlan::default()
        };
        let expected = "\
rerun of P-1: 5 activities taken over, 7 will run, 1 place waits for what will run

TYPE     TAKEN OVER  WILL RUN  LATER
Measure  5           7         0
Merge    0           0         1

will run:
  all/[3]/measure  its code changed; n changed from 3 to 4
  all/[9]/measure  P-1 did not complete it
  and 5 more of this type

later, when its inputs are known:
  merge
";
        assert_eq!(RerunPlan::from(plan).text(), expected);
    }
}
