//! Series-parallel structure of a task graph. Two rules shrink the transitive reduction until neither applies: tasks with
//! the same parents and the same children become one parallel part, and a chain of tasks becomes one serial part. A graph
//! is series-parallel if one part is left (Valdes, Tarjan, Lawler 1982). What is left otherwise is cut where it falls
//! apart, and where all of one side precedes all of the other; the rest stays a graph with edges. No rule adds or removes
//! an order between two tasks.

use std::collections::{HashMap, HashSet};

/// Bound on the levels that each of the two steps makes: the language allows 1,000 levels of XML elements.
const MAX_DEPTH: usize = 200;

/// A part of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StructurePart {
    /// One task.
    Task(usize),
    /// Parts one after the other.
    Series(Vec<StructurePart>),
    /// Parts without an order.
    Parallel(Vec<StructurePart>),
    /// Parts with edges: for each part the positions of those that it waits for.
    Graph(Vec<(StructurePart, Vec<usize>)>),
}

/// Finds the structure of a graph without implied edges.
pub(crate) fn structure(children: &[Vec<usize>]) -> StructurePart {
    let mut kernel = Kernel::new(children);
    while kernel.join_parallels() | kernel.join_chains() {}
    kernel.cut()
}

/// Parts that are left, with the edges between them.
struct Kernel {
    /// `None` once a part has become a part of another one.
    parts: Vec<Option<StructurePart>>,
    depths: Vec<usize>,
    children: Vec<Vec<usize>>,
    parents: Vec<Vec<usize>>,
}

impl Kernel {
    fn new(children: &[Vec<usize>]) -> Self {
        let mut parents = vec![Vec::new(); children.len()];
        for (task, row) in children.iter().enumerate() {
            row.iter().for_each(|child| parents[*child].push(task));
        }
        let mut children = children.to_vec();
        children.iter_mut().for_each(|row| row.sort_unstable());
        let parts = (0..children.len()).map(|task| Some(StructurePart::Task(task))).collect();
        Self { parts, depths: vec![0; children.len()], children, parents }
    }

    fn left(&self) -> Vec<usize> {
        (0..self.parts.len()).filter(|part| self.parts[*part].is_some()).collect()
    }

    /// Joins parts with the same parents and children. Returns whether there were some.
    fn join_parallels(&mut self) -> bool {
        let mut groups: HashMap<(&[usize], &[usize]), Vec<usize>> = HashMap::new();
        for part in self.left() {
            groups.entry((&self.parents[part], &self.children[part])).or_default().push(part);
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().filter(|group| group.len() > 1).collect();
        groups.retain(|group| group.iter().all(|part| self.depths[*part] < MAX_DEPTH));
        groups.sort_unstable();
        for group in &groups {
            let depth = self.joined_depth(group, |part| matches!(part, StructurePart::Parallel(_)));
            let joined = StructurePart::Parallel(self.flatten(group, |part| match part {
                StructurePart::Parallel(parts) => Ok(parts),
                other => Err(other),
            }));
            // All have the same parents and children, so those of the first one are those of all.
            let gone: HashSet<usize> = group[1..].iter().copied().collect();
            for parent in self.parents[group[0]].clone() {
                self.children[parent].retain(|child| !gone.contains(child));
            }
            for child in self.children[group[0]].clone() {
                self.parents[child].retain(|parent| !gone.contains(parent));
            }
            (self.parts[group[0]], self.depths[group[0]]) = (Some(joined), depth);
        }
        !groups.is_empty()
    }

    /// Joins chains. Returns whether there were some.
    fn join_chains(&mut self) -> bool {
        let next = |kernel: &Self, part: usize| match kernel.children[part][..] {
            [child] if kernel.parents[child].len() == 1 => Some(child),
            _ => None,
        };
        let mut found = false;
        for first in self.left() {
            if self.parts[first].is_none() || self.depths[first] >= MAX_DEPTH {
                continue;
            }
            // Only the first part of a chain joins it.
            if let [parent] = self.parents[first][..]
                && self.children[parent].len() == 1
                && self.depths[parent] < MAX_DEPTH
            {
                continue;
            }
            let mut chain = vec![first];
            while let Some(following) = next(self, chain[chain.len() - 1])
                && self.depths[following] < MAX_DEPTH
            {
                chain.push(following);
            }
            let [_, .., last] = chain[..] else { continue };
            found = true;
            let depth = self.joined_depth(&chain, |part| matches!(part, StructurePart::Series(_)));
            let joined = StructurePart::Series(self.flatten(&chain, |part| match part {
                StructurePart::Series(parts) => Ok(parts),
                other => Err(other),
            }));
            self.children[first] = std::mem::take(&mut self.children[last]);
            for child in self.children[first].clone() {
                self.parents[child].iter_mut().filter(|parent| **parent == last).for_each(|parent| *parent = first);
                self.parents[child].sort_unstable();
            }
            (self.parts[first], self.depths[first]) = (Some(joined), depth);
        }
        found
    }

    /// Takes parts out, and those of the same kind apart.
    fn flatten(
        &mut self,
        group: &[usize],
        open: impl Fn(StructurePart) -> Result<Vec<StructurePart>, StructurePart>,
    ) -> Vec<StructurePart> {
        let parts = group.iter().filter_map(|part| self.parts[*part].take());
        parts.flat_map(|part| open(part).unwrap_or_else(|part| vec![part])).collect()
    }

    /// The depth of a part made of these; those of the same kind add no level.
    fn joined_depth(&self, group: &[usize], same: impl Fn(&StructurePart) -> bool) -> usize {
        let depth = |part: &usize| self.depths[*part] + usize::from(!self.parts[*part].as_ref().is_some_and(&same));
        group.iter().map(depth).max().unwrap_or(0)
    }

    /// Cuts what is left where it falls apart.
    fn cut(mut self) -> StructurePart {
        let left = self.left();
        self.cut_parallel(left, 0)
    }

    /// Cuts a set into components without edges between them.
    fn cut_parallel(&mut self, set: Vec<usize>, depth: usize) -> StructurePart {
        if let [only] = set[..] {
            return self.parts[only].take().unwrap_or(StructurePart::Series(Vec::new()));
        }
        let mut component: HashMap<usize, usize> = set.iter().map(|part| (*part, usize::MAX)).collect();
        let mut components: Vec<Vec<usize>> = Vec::new();
        for start in &set {
            if component[start] != usize::MAX {
                continue;
            }
            let (number, mut open) = (components.len(), vec![*start]);
            component.insert(*start, number);
            components.push(Vec::new());
            while let Some(part) = open.pop() {
                components[number].push(part);
                for other in self.children[part].iter().chain(&self.parents[part]) {
                    if component.get(other) == Some(&usize::MAX) {
                        component.insert(*other, number);
                        open.push(*other);
                    }
                }
            }
        }
        components.iter_mut().for_each(|part| part.sort_unstable());
        match components.len() {
            0 => StructurePart::Series(Vec::new()),
            1 => self.cut_series(set, depth),
            _ => StructurePart::Parallel(components.into_iter().map(|part| self.cut_series(part, depth + 1)).collect()),
        }
    }

    /// Cuts a connected set where everything before precedes everything after.
    fn cut_series(&mut self, set: Vec<usize>, depth: usize) -> StructurePart {
        if set.len() == 1 {
            return self.cut_parallel(set, depth);
        }
        let levels = self.levels(&set);
        let cuts = if depth < MAX_DEPTH { self.cuts(&levels) } else { Vec::new() };
        if cuts.is_empty() {
            return self.graph(&levels);
        }
        let mut parts = Vec::new();
        let mut begin = 0;
        for end in cuts.into_iter().chain([levels.len()]) {
            let mut part: Vec<usize> = levels[begin..end].concat();
            part.sort_unstable();
            match self.cut_parallel(part, depth + 1) {
                StructurePart::Series(inner) => parts.extend(inner),
                other => parts.push(other),
            }
            begin = end;
        }
        StructurePart::Series(parts)
    }

    /// The parts of a set by the length of the longest path to them.
    fn levels(&self, set: &[usize]) -> Vec<Vec<usize>> {
        let mut waits: HashMap<usize, usize> = set.iter().map(|part| (*part, 0)).collect();
        let inside: Vec<usize> = set.to_vec();
        for part in &inside {
            let parents = self.parents[*part].iter().filter(|parent| waits.contains_key(parent)).count();
            waits.insert(*part, parents);
        }
        let mut level: Vec<usize> = set.iter().copied().filter(|part| waits[part] == 0).collect();
        let mut levels = Vec::new();
        while !level.is_empty() {
            let mut following = Vec::new();
            for part in &level {
                for child in &self.children[*part] {
                    if let Some(waits) = waits.get_mut(child) {
                        *waits -= 1;
                        if *waits == 0 {
                            following.push(*child);
                        }
                    }
                }
            }
            levels.push(std::mem::replace(&mut level, following));
        }
        levels
    }

    /// The levels before which everything precedes everything after. In a graph without implied edges that is so if all
    /// parts that have no child before the level have edges to all parts of the level.
    fn cuts(&self, levels: &[Vec<usize>]) -> Vec<usize> {
        let levelled =
            levels.iter().enumerate().flat_map(|(level, parts)| parts.iter().map(move |part| (*part, level)));
        let place: HashMap<usize, usize> = levelled.collect();
        // For each level: how many parts before it have no child before it, and their edges to the level.
        let mut last = vec![0isize; levels.len() + 1];
        let mut edges = vec![0usize; levels.len() + 1];
        for (part, level) in &place {
            let children = || self.children[*part].iter().filter_map(|child| place.get(child).copied());
            last[level + 1] += 1;
            if let Some(first_child) = children().min() {
                last[first_child + 1] -= 1;
                edges[first_child] += children().filter(|child| *child == first_child).count();
            }
        }
        let mut lasts = 0;
        let mut cuts = Vec::new();
        for (level, parts) in levels.iter().enumerate() {
            lasts += last[level];
            if level > 0 && edges[level] == lasts.unsigned_abs() * parts.len() {
                cuts.push(level);
            }
        }
        cuts
    }

    fn graph(&mut self, levels: &[Vec<usize>]) -> StructurePart {
        let order: Vec<usize> = levels.concat();
        let position: HashMap<usize, usize> = order.iter().enumerate().map(|(place, part)| (*part, place)).collect();
        let parts = order.iter().map(|part| {
            let parents = self.parents[*part].iter().filter_map(|parent| position.get(parent).copied()).collect();
            (self.parts[*part].take().unwrap_or(StructurePart::Series(Vec::new())), parents)
        });
        StructurePart::Graph(parts.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::reduce;
    use proptest::prelude::*;

    /// All ordered pairs of a graph.
    fn closure(children: &[Vec<usize>]) -> Vec<Vec<bool>> {
        let tasks = children.len();
        let mut before = vec![vec![false; tasks]; tasks];
        for task in (0..tasks).rev() {
            for child in &children[task] {
                before[task][*child] = true;
                let further = before[*child].clone();
                before[task].iter_mut().zip(further).for_each(|(before, further)| *before |= further);
            }
        }
        before
    }

    fn tasks(part: &StructurePart) -> Vec<usize> {
        match part {
            StructurePart::Task(task) => vec![*task],
            StructurePart::Series(parts) | StructurePart::Parallel(parts) => parts.iter().flat_map(tasks).collect(),
            StructurePart::Graph(parts) => parts.iter().flat_map(|(part, _)| tasks(part)).collect(),
        }
    }

    /// The order that a structure means.
    fn order(part: &StructurePart, before: &mut [Vec<bool>]) {
        let precede = |before: &mut [Vec<bool>], one: &StructurePart, other: &StructurePart| {
            for earlier in tasks(one) {
                for later in tasks(other) {
                    before[earlier][later] = true;
                }
            }
        };
        match part {
            StructurePart::Task(_) => {}
            StructurePart::Parallel(parts) => parts.iter().for_each(|part| order(part, before)),
            StructurePart::Series(parts) => {
                parts.iter().for_each(|part| order(part, before));
                for (place, later) in parts.iter().enumerate() {
                    parts[..place].iter().for_each(|earlier| precede(before, earlier, later));
                }
            }
            StructurePart::Graph(parts) => {
                parts.iter().for_each(|(part, _)| order(part, before));
                let mut children = vec![Vec::new(); parts.len()];
                for (place, (_, parents)) in parts.iter().enumerate() {
                    assert!(parents.iter().all(|parent| *parent < place), "parents stand before their children");
                    parents.iter().for_each(|parent| children[*parent].push(place));
                }
                let reached = closure(&children);
                for (one, (earlier, _)) in parts.iter().enumerate() {
                    for (other, (later, _)) in parts.iter().enumerate() {
                        if reached[one][other] {
                            precede(before, earlier, later);
                        }
                    }
                }
            }
        }
    }

    fn found(children: &[Vec<usize>]) -> StructurePart {
        let ordered: Vec<usize> = (0..children.len()).collect();
        structure(&reduce(children, &ordered))
    }

    fn depth(part: &StructurePart) -> usize {
        match part {
            StructurePart::Task(_) => 0,
            StructurePart::Series(parts) | StructurePart::Parallel(parts) => {
                1 + parts.iter().map(depth).max().unwrap_or(0)
            }
            StructurePart::Graph(parts) => 1 + parts.iter().map(|(part, _)| depth(part)).max().unwrap_or(0),
        }
    }

    fn is_series_parallel(part: &StructurePart) -> bool {
        match part {
            StructurePart::Task(_) => true,
            StructurePart::Series(parts) | StructurePart::Parallel(parts) => parts.iter().all(is_series_parallel),
            StructurePart::Graph(_) => false,
        }
    }

    #[track_caller]
    fn check(children: &[Vec<usize>]) {
        let part = found(children);
        let mut meant = vec![vec![false; children.len()]; children.len()];
        order(&part, &mut meant);
        assert_eq!(meant, closure(children), "{part:?}");
        let mut all = tasks(&part);
        all.sort_unstable();
        assert_eq!(all, (0..children.len()).collect::<Vec<_>>(), "{part:?}");
    }

    /// A random series-parallel order on the tasks from `begin` to `end`.
    fn series_parallel(begin: usize, end: usize, choices: &mut impl Iterator<Item = u8>, children: &mut [Vec<usize>]) {
        if end - begin < 2 {
            return;
        }
        let choice = usize::from(choices.next().unwrap_or(1));
        let middle = begin + 1 + choice / 2 % (end - begin - 1);
        series_parallel(begin, middle, choices, children);
        series_parallel(middle, end, choices, children);
        if choice % 2 == 0 {
            children[begin..middle].iter_mut().for_each(|row| row.extend(middle..end));
        }
    }

    #[test]
    fn a_fork_and_join_is_a_series_of_a_parallel() {
        let part = found(&[vec![1, 2, 3], vec![3], vec![3], vec![]]);
        let inner = StructurePart::Parallel(vec![StructurePart::Task(1), StructurePart::Task(2)]);
        assert_eq!(part, StructurePart::Series(vec![StructurePart::Task(0), inner, StructurePart::Task(3)]));
    }

    #[test]
    fn the_graph_that_is_not_series_parallel_stays_a_graph_inside_its_surroundings() {
        // 0, then the shape of an N (1→3, 1→4, 2→4), then 5.
        let part = found(&[vec![1, 2], vec![3, 4], vec![4], vec![5], vec![5], vec![]]);
        let StructurePart::Series(parts) = &part else { panic!("{part:?}") };
        assert_eq!((&parts[0], &parts[2]), (&StructurePart::Task(0), &StructurePart::Task(5)));
        assert!(matches!(&parts[1], StructurePart::Graph(inner) if inner.len() == 4), "{part:?}");
    }

    #[test]
    fn very_deep_structures_stay_within_the_bound() {
        // A ladder: each step is a task beside everything before, and then a task after both.
        let tasks = 4 * MAX_DEPTH + 1;
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); tasks];
        for join in (2..tasks).step_by(2) {
            children[join - 2].push(join);
            children[join - 1].push(join);
        }
        let part = found(&children);
        assert!(depth(&part) <= 2 * MAX_DEPTH + 3, "{}", depth(&part));
        check(&children);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn a_structure_has_the_order_of_its_graph(edges in proptest::collection::vec((0usize..16, 0usize..16), 0..40)) {
            let mut children = vec![Vec::new(); 16];
            for (one, other) in edges {
                if one < other && !children[one].contains(&other) {
                    children[one].push(other);
                }
            }
            check(&children);
        }

        #[test]
        fn a_series_parallel_graph_is_found_whole(tasks in 1usize..24, choices in proptest::collection::vec(any::<u8>(), 40)) {
            let mut children = vec![Vec::new(); tasks];
            series_parallel(0, tasks, &mut choices.into_iter(), &mut children);
            check(&children);
            let part = found(&children);
            prop_assert!(is_series_parallel(&part), "{:?}", part);
        }
    }
}
