//! The colours of tasks: by activity type or kind of name if there are few, else by depth in the graph.

use std::collections::BTreeMap;

use xavantes_scheduling::{TaskId, Workflow};

/// Colours that people with any kind of sight tell apart, after P. Tol's "muted" and "bright" schemes.
const PALETTE: [&str; 10] =
    ["#4477aa", "#ee8866", "#44aa99", "#ddcc77", "#aa4499", "#88ccee", "#999933", "#cc6677", "#6a6ac8", "#b0b0b0"];
/// Colours from first to last, for depths.
const SCALE: [(u8, u8, u8); 5] = [(59, 82, 139), (33, 145, 140), (94, 201, 98), (190, 214, 58), (253, 190, 60)];
/// More groups than this share the last colour.
const MAX_GROUPS: usize = PALETTE.len();

/// The colour of each task, and what colours mean.
pub(crate) struct Colours {
    pub of: Vec<String>,
    /// Colours and their meanings, in the order of first use.
    pub legend: Vec<(String, String)>,
}

impl Colours {
    /// Chooses colours. `group` knows what kind of task a task is.
    pub(crate) fn of(workflow: &Workflow, group: impl Fn(TaskId) -> Option<String>) -> Self {
        let groups: Vec<String> =
            workflow.tasks().map(|task| group(task).unwrap_or_else(|| kind_of_name(workflow.name(task)))).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        groups.iter().for_each(|group| *counts.entry(group).or_default() += 1);
        let known = workflow.tasks().next().is_some_and(|task| group(task).is_some());
        if known || (2..=MAX_GROUPS).contains(&counts.len()) {
            return Self::by_group(&groups, &counts);
        }
        Self::by_depth(workflow)
    }

    fn by_group(groups: &[String], counts: &BTreeMap<&str, usize>) -> Self {
        let mut order: Vec<&str> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        groups.iter().for_each(|group| {
            if seen.insert(group) {
                order.push(group);
            }
        });
        // The groups with the most tasks have colours of their own.
        let mut largest = order.clone();
        largest.sort_by_key(|group| std::cmp::Reverse(counts[group]));
        largest.truncate(if order.len() > MAX_GROUPS { MAX_GROUPS - 1 } else { MAX_GROUPS });
        order.retain(|group| largest.contains(group));
        let places: BTreeMap<&str, usize> = order.iter().enumerate().map(|(place, group)| (*group, place)).collect();
        let colour = |group: &String| PALETTE[places.get(group.as_str()).copied().unwrap_or(MAX_GROUPS - 1)].to_owned();
        let mut legend: Vec<_> =
            order.iter().zip(PALETTE).map(|(group, colour)| (colour.to_owned(), (*group).to_owned())).collect();
        if counts.len() > order.len() {
            let rest = counts.len() - order.len();
            legend.push((PALETTE[MAX_GROUPS - 1].to_owned(), format!("{rest} others")));
        }
        Self { of: groups.iter().map(colour).collect(), legend }
    }

    fn by_depth(workflow: &Workflow) -> Self {
        let mut depth = vec![0usize; workflow.task_count()];
        for task in workflow.order() {
            let parents = workflow.parents(*task).iter().map(|edge| depth[edge.task.index()] + 1);
            depth[task.index()] = parents.max().unwrap_or(0);
        }
        let levels = depth.iter().max().map_or(1, |most| most + 1);
        let colour = |level: usize| {
            let place = if levels > 1 { level as f64 / (levels - 1) as f64 * (SCALE.len() - 1) as f64 } else { 0.0 };
            let (index, part) =
                ((place as usize).min(SCALE.len() - 2), place - place.floor().min((SCALE.len() - 2) as f64));
            let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
            let (a, b) = (SCALE[index], SCALE[index + 1]);
            format!("#{:02x}{:02x}{:02x}", mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
        };
        let shown: Vec<usize> = match levels {
            0..=MAX_GROUPS => (0..levels).collect(),
            _ => (0..5).map(|step| step * (levels - 1) / 4).collect(),
        };
        let legend = match levels {
            1 => Vec::new(),
            _ => shown.into_iter().map(|level| (colour(level), format!("level {}", level + 1))).collect(),
        };
        Self { of: depth.into_iter().map(colour).collect(), legend }
    }
}

/// A name without what tells tasks of one kind apart: `mProject_ID0001` is an `mProject`.
fn kind_of_name(name: &str) -> String {
    let name = name.rsplit('/').find(|part| !part.starts_with('[')).unwrap_or(name);
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let kind = kind.strip_suffix("_ID").or_else(|| kind.strip_suffix("-ID")).unwrap_or(kind);
    let kind = kind.trim_end_matches(['_', '-', '.', ' ']);
    if kind.is_empty() { name.to_owned() } else { kind.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xavantes_scheduling::problem::{Work, WorkflowBuilder};

    fn workflow(names: &[&str]) -> Workflow {
        let mut builder = WorkflowBuilder::new();
        let tasks: Vec<_> = names.iter().map(|name| builder.task(*name, Work::cpu(1.0))).collect();
        tasks.windows(2).for_each(|pair| builder.edge(pair[0], pair[1]));
        builder.build().unwrap()
    }

    #[test]
    fn tasks_of_one_kind_have_one_colour() {
        let colours = Colours::of(&workflow(&["mProject_ID1", "mDiff_ID2", "mProject_ID3"]), |_| None);
        assert_eq!(colours.of[0], colours.of[2]);
        assert_ne!(colours.of[0], colours.of[1]);
        let meanings: Vec<_> = colours.legend.iter().map(|(_, meaning)| meaning.as_str()).collect();
        assert_eq!(meanings, ["mProject", "mDiff"]);
    }

    #[test]
    fn tasks_without_kinds_are_coloured_by_depth() {
        let colours = Colours::of(&workflow(&["ID1", "ID2", "ID3"]), |_| None);
        assert_eq!(colours.legend.len(), 3);
        assert!(colours.of[0] != colours.of[1] && colours.of[1] != colours.of[2]);
    }

    #[test]
    fn many_kinds_share_the_last_colour() {
        let names: Vec<String> = (b'a'..=b'z').map(|letter| char::from(letter).to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let colours = Colours::of(&workflow(&names), |task| Some(names[task.index()].to_owned()));
        assert_eq!(colours.legend.last().map(|(_, meaning)| meaning.as_str()), Some("17 others"));
    }
}
