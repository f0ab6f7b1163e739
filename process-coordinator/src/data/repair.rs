//! Files that no node has any more are made again. Without I/O, clock or threads.
//!
//! An attempt that fails because a file is gone waits while a *repair* follows the recipe of the file once more. A repair is
//! an attempt that the engine knows nothing of. It must give the same bytes, because recorded results do not change. When a
//! repair itself lacks files, they are repaired first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xavantes_model::digest::Digest;
use xavantes_proto::{AttemptKey, v1};

use crate::data::lineage::{Lineage, Recipe};

/// Repairs use element numbers of a generation that the engine never reaches.
const FIRST_REPAIR_ELEMENT: u64 = 0xFFFF_FFFF << 32;
/// Upper bound on the tries of an element, or of a repair, that lacks files again and again although they were made again:
/// perhaps its worker does not reach their holders.
const MAX_TRIES: u32 = 10;

/// Does this element number belong to a repair?
pub fn is_repair(element: u64) -> bool {
    element >= FIRST_REPAIR_ELEMENT
}

/// What the process must do next for its repairs.
#[derive(Debug, PartialEq)]
pub enum RepairStep {
    /// Dispatch an attempt that follows a recipe.
    Dispatch {
        /// Element number of the repair.
        element: u64,
        /// Number of the attempt.
        attempt: u32,
        /// The recipe to follow.
        recipe: Arc<Recipe>,
    },
    /// Dispatch the process's own attempt anew: the files that it lacked exist again.
    Resume(AttemptKey),
    /// Let the process's own attempt fail: a file cannot be made again.
    Fail(AttemptKey, v1::Failure),
}

/// An attempt or a repair that lacks files.
#[derive(Debug, PartialEq)]
enum Dependent {
    Attempt(AttemptKey, v1::Failure),
    Repair(u64),
}

#[derive(Debug)]
struct Waiter {
    dependent: Dependent,
    needs: BTreeSet<Digest>,
}

#[derive(Debug)]
struct Repair {
    recipe: Arc<Recipe>,
    wanted: BTreeSet<Digest>,
    attempt: u32,
}

/// Repairs that are under way. The journal does not have them: after a crash of the coordinator the attempts that waited are
/// dispatched again, and fail again if the files are still gone.
#[derive(Debug, Default)]
pub struct Repairs {
    next: u64,
    repairs: BTreeMap<u64, Repair>,
    waiting: Vec<Waiter>,
    /// Number of attempts that lacked files, by element.
    lacked: BTreeMap<u64, u32>,
}

impl Repairs {
    /// An attempt failed because it lacks files. If all of them have a recipe, the attempt waits for them.
    pub fn on_missing_files(&mut self, lineage: &Lineage, key: AttemptKey, failure: v1::Failure) -> Vec<RepairStep> {
        let needs = missing_files(&failure);
        let times = self.lacked.entry(key.element).or_default();
        *times += 1;
        if *times > MAX_TRIES {
            let why = format!("it was made again {MAX_TRIES} times, and could not be had");
            return self.give_up(Dependent::Attempt(key, failure), &why);
        }
        self.wait(lineage, Dependent::Attempt(key, failure), needs)
    }

    fn wait(&mut self, lineage: &Lineage, dependent: Dependent, needs: BTreeSet<Digest>) -> Vec<RepairStep> {
        if let Some(lost) = needs.iter().find(|digest| lineage.find(digest).is_none()) {
            let why = format!("no activity of this process made it, so {} cannot be made again", lost.short());
            return self.give_up(dependent, &why);
        }
        let mut steps = Vec::new();
        for digest in &needs {
            if self.repairs.values().any(|repair| repair.wanted.contains(digest)) {
                continue;
            }
            let Some(recipe) = lineage.find(digest) else { continue };
            let same = self.repairs.values_mut().find(|repair| Arc::ptr_eq(&repair.recipe, recipe));
            match same {
                Some(repair) => {
                    repair.wanted.insert(*digest);
                }
                None => {
                    let element = FIRST_REPAIR_ELEMENT + self.next;
                    self.next += 1;
                    let repair = Repair { recipe: recipe.clone(), wanted: [*digest].into(), attempt: 1 };
                    self.repairs.insert(element, repair);
                    steps.push(RepairStep::Dispatch { element, attempt: 1, recipe: recipe.clone() });
                }
            }
        }
        self.waiting.push(Waiter { dependent, needs });
        steps
    }

    /// Does any attempt wait for files?
    pub fn are_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Does this attempt wait for files?
    pub fn is_waiting(&self, key: &AttemptKey) -> bool {
        self.waiting.iter().any(|waiter| matches!(&waiter.dependent, Dependent::Attempt(waiting, _) if waiting == key))
    }

    /// The attempt no longer waits for files.
    pub fn stop_waiting(&mut self, key: &AttemptKey) {
        self.waiting.retain(|waiter| !matches!(&waiter.dependent, Dependent::Attempt(waiting, _) if waiting == key));
    }

    /// A repair completed, and made these files.
    pub fn on_completed(&mut self, element: u64, attempt: u32, made: &[Digest]) -> Vec<RepairStep> {
        let Some(repair) = self.remove(element, attempt) else { return Vec::new() };
        let (made_again, different): (BTreeSet<Digest>, BTreeSet<Digest>) =
            repair.wanted.into_iter().partition(|digest| made.contains(digest));
        let mut steps = Vec::new();
        for digest in different {
            let why = format!(
                "{} was run again to make {} once more, and made something else: its results are not the same each time",
                repair.recipe.path,
                digest.short()
            );
            steps.extend(self.on_unrepairable(&digest, &why));
        }
        for digest in made_again {
            for waiter in &mut self.waiting {
                waiter.needs.remove(&digest);
            }
        }
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|it: &Waiter| it.needs.is_empty());
        self.waiting = waiting;
        for waiter in ready {
            match waiter.dependent {
                Dependent::Attempt(key, _) => steps.push(RepairStep::Resume(key)),
                Dependent::Repair(element) => steps.extend(self.retry(element)),
            }
        }
        steps
    }

    fn remove(&mut self, element: u64, attempt: u32) -> Option<Repair> {
        self.repairs.get(&element).filter(|repair| repair.attempt == attempt)?;
        self.repairs.remove(&element)
    }

    /// A repair failed, perhaps because it lacks files itself.
    pub fn on_failed(
        &mut self,
        lineage: &Lineage,
        element: u64,
        attempt: u32,
        failure: &v1::Failure,
    ) -> Vec<RepairStep> {
        let Some(repair) = self.repairs.get(&element).filter(|repair| repair.attempt == attempt) else {
            return Vec::new();
        };
        let needs = missing_files(failure);
        if !needs.is_empty() && attempt < MAX_TRIES {
            return self.wait(lineage, Dependent::Repair(element), needs);
        }
        let why = format!("{} was run again to make it once more, and failed: {}", repair.recipe.path, failure.message);
        self.repairs
            .remove(&element)
            .into_iter()
            .flat_map(|it| it.wanted)
            .flat_map(|it| self.on_unrepairable(&it, &why))
            .collect()
    }

    /// No worker has the repair any more: dispatches it anew.
    pub fn retry(&mut self, element: u64) -> Option<RepairStep> {
        let repair = self.repairs.get_mut(&element)?;
        repair.attempt += 1;
        Some(RepairStep::Dispatch { element, attempt: repair.attempt, recipe: repair.recipe.clone() })
    }

    /// No repair can make this file again: everything that waits for it fails.
    fn on_unrepairable(&mut self, digest: &Digest, why: &str) -> Vec<RepairStep> {
        let (affected, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiter: &Waiter| waiter.needs.contains(digest));
        self.waiting = waiting;
        affected.into_iter().flat_map(|waiter| self.give_up(waiter.dependent, why)).collect()
    }

    fn give_up(&mut self, dependent: Dependent, why: &str) -> Vec<RepairStep> {
        match dependent {
            Dependent::Attempt(key, mut failure) => {
                failure.message = format!("{}; {why}", failure.message);
                vec![RepairStep::Fail(key, failure)]
            }
            Dependent::Repair(element) => match self.repairs.remove(&element) {
                Some(repair) => repair.wanted.iter().flat_map(|digest| self.on_unrepairable(digest, why)).collect(),
                None => Vec::new(),
            },
        }
    }
}

fn missing_files(failure: &v1::Failure) -> BTreeSet<Digest> {
    failure.gone.iter().filter_map(|bytes| Digest::from_bytes(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::test_lineage::{digest, lineage};

    fn lacks(numbers: &[u8]) -> v1::Failure {
        let gone = numbers.iter().map(|number| vec![*number; 32]).collect();
        v1::Failure { message: "gone".into(), gone, ..v1::Failure::default() }
    }

    fn key(element: u64) -> AttemptKey {
        AttemptKey::new("p", element, 1)
    }

    fn dispatched(steps: &[RepairStep]) -> Vec<(u64, u32, &str)> {
        let dispatch = |step: &RepairStep| match step {
            RepairStep::Dispatch { element, attempt, recipe } => (*element, *attempt, recipe.path.clone()),
            other => panic!("{other:?}"),
        };
        steps.iter().map(dispatch).map(|(element, attempt, path)| (element, attempt, &*path.leak())).collect()
    }

    #[test]
    fn one_repair_serves_all_attempts_that_wait_for_a_file() {
        let (lineage, mut repairs) = (lineage(), Repairs::default());
        let first = repairs.on_missing_files(&lineage, key(7), lacks(&[1]));
        assert_eq!(dispatched(&first), [(FIRST_REPAIR_ELEMENT, 1, "p/a")]);
        assert!(repairs.on_missing_files(&lineage, key(8), lacks(&[1, 2])).is_empty());
        assert!(
            repairs.is_waiting(&key(7))
                && repairs.is_waiting(&key(8))
                && is_repair(FIRST_REPAIR_ELEMENT)
                && !is_repair(7)
        );
        assert_eq!(
            dispatched(&repairs.retry(FIRST_REPAIR_ELEMENT).into_iter().collect::<Vec<_>>()),
            [(FIRST_REPAIR_ELEMENT, 2, "p/a")]
        );
        assert!(repairs.on_completed(FIRST_REPAIR_ELEMENT, 1, &[digest(1)]).is_empty(), "that attempt has ended");
        let done = repairs.on_completed(FIRST_REPAIR_ELEMENT, 2, &[digest(1), digest(2)]);
        assert_eq!(done, [RepairStep::Resume(key(7)), RepairStep::Resume(key(8))]);
        assert!(!repairs.is_waiting(&key(7)));
    }

    #[test]
    fn files_that_a_repair_lacks_are_repaired_first() {
        let (lineage, mut repairs) = (lineage(), Repairs::default());
        assert_eq!(
            dispatched(&repairs.on_missing_files(&lineage, key(7), lacks(&[3]))),
            [(FIRST_REPAIR_ELEMENT, 1, "p/b")]
        );
        assert_eq!(
            dispatched(&repairs.on_failed(&lineage, FIRST_REPAIR_ELEMENT, 1, &lacks(&[1]))),
            [(FIRST_REPAIR_ELEMENT + 1, 1, "p/a")]
        );
        assert_eq!(
            dispatched(&repairs.on_completed(FIRST_REPAIR_ELEMENT + 1, 1, &[digest(1), digest(2)])),
            [(FIRST_REPAIR_ELEMENT, 2, "p/b")]
        );
        assert_eq!(repairs.on_completed(FIRST_REPAIR_ELEMENT, 2, &[digest(3)]), [RepairStep::Resume(key(7))]);
    }

    #[test]
    fn a_file_that_cannot_be_made_again_fails_the_attempt() {
        let (lineage, mut repairs) = (lineage(), Repairs::default());
        let failure_of = |steps: Vec<RepairStep>| match &steps[..] {
            [RepairStep::Fail(failed, failure)] => (failed.element, failure.message.clone()),
            other => panic!("{other:?}"),
        };
        let (element, message) = failure_of(repairs.on_missing_files(&lineage, key(7), lacks(&[9])));
        assert!(element == 7 && message.contains("no activity of this process made it"), "{message}");
        repairs.on_missing_files(&lineage, key(7), lacks(&[3]));
        repairs.on_failed(&lineage, FIRST_REPAIR_ELEMENT, 1, &lacks(&[1]));
        let (_, message) = failure_of(repairs.on_failed(&lineage, FIRST_REPAIR_ELEMENT + 1, 1, &lacks(&[])));
        assert!(message.contains("p/a was run again to make it once more, and failed: gone"), "{message}");
        repairs.on_missing_files(&lineage, key(7), lacks(&[3]));
        let (_, message) = failure_of(repairs.on_completed(FIRST_REPAIR_ELEMENT + 2, 1, &[digest(5)]));
        assert!(message.contains("not the same each time"), "{message}");
        assert!(repairs.repairs.is_empty() && repairs.waiting.is_empty());
        // An attempt that never gets the repaired file gives up.
        for number in 1..=MAX_TRIES {
            let element = match &repairs.on_missing_files(&lineage, key(8), lacks(&[1]))[..] {
                [RepairStep::Dispatch { element, attempt: 1, .. }] => *element,
                other => panic!("{number}: {other:?}"),
            };
            assert_eq!(repairs.on_completed(element, 1, &[digest(1)]), [RepairStep::Resume(key(8))]);
        }
        let (_, message) = failure_of(repairs.on_missing_files(&lineage, key(8), lacks(&[1])));
        assert!(message.contains("made again 10 times"), "{message}");
    }
}
