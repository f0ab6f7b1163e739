//! How the files of a process were made, and how they are made again when nobody has them any more. Without I/O, clock or
//! threads.
//!
//! Each file that an activity made has a recipe: the activity type and its parameters. An attempt that fails because a file
//! is gone waits while the recipe is followed once more, by a *repair*, which is an attempt that the engine knows nothing of.
//! What comes out must be the same, byte for byte: what was recorded as a result does not change. Files that a repair itself
//! needs, and that are gone too, are repaired first.
//!
//! Recipes go with files to and from subtrees that run elsewhere, so that whoever needs a file can make it again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::digest::Digest;
use xavantes_model::value::Value;
use xavantes_proto::{Message, v1, value, value_from};

use crate::attempt::AttemptKey;

/// Recipes that go with the files of a subtree take so many bytes at most. If they took more none do: a part of them could
/// lead to what is not there.
pub const MOST_TOLD: usize = 8 << 20;

/// How files were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The activity type, by position in the program.
    pub activity: u32,
    /// All its parameters.
    pub parameters: Vec<Value>,
    /// The element that made them.
    pub path: String,
}

impl Recipe {
    /// As it was told, with what it made; nothing if it is not one of a program with so many activity types.
    pub fn from_wire(told: v1::Recipe, activities: usize) -> Option<(Arc<Self>, Vec<Digest>)> {
        let v1::Recipe { activity, parameters, path, made } = told;
        let parameters = parameters.into_iter().map(value_from).collect::<Result<_, _>>().ok()?;
        let made = made.iter().filter_map(|bytes| Digest::from_bytes(bytes)).collect();
        ((activity as usize) < activities).then(|| (Arc::new(Self { activity, parameters, path }), made))
    }
}

/// The recipes of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lineage {
    recipes: BTreeMap<Digest, Arc<Recipe>>,
    /// Something was made at all.
    any: bool,
}

impl Lineage {
    /// Files were made. A file that was made before keeps its first recipe, which cannot lead back to itself.
    pub fn add(&mut self, recipe: &Arc<Recipe>, made: &[Digest]) {
        self.any = true;
        for digest in made {
            self.recipes.entry(*digest).or_insert_with(|| recipe.clone());
        }
    }

    /// How a file was made.
    pub fn find(&self, digest: &Digest) -> Option<&Arc<Recipe>> {
        self.recipes.get(digest)
    }

    /// How these files were made, and those that they were made from.
    pub fn tell(&self, files: Vec<Digest>) -> Vec<v1::Recipe> {
        let (mut told, mut places) = (Vec::<v1::Recipe>::new(), HashMap::new());
        let (mut seen, mut open, mut size) = (HashSet::new(), files, 0);
        while let Some(digest) = open.pop() {
            let Some(recipe) = self.find(&digest).filter(|_| seen.insert(digest)) else { continue };
            let place = *places.entry(Arc::as_ptr(recipe)).or_insert_with(|| {
                let parameters: Vec<v1::Value> = recipe.parameters.iter().map(value).collect();
                let (activity, path) = (recipe.activity, recipe.path.clone());
                let recipe_told = v1::Recipe { activity, parameters, path, made: Vec::new() };
                size += recipe_told.encoded_len();
                told.push(recipe_told);
                recipe.parameters.iter().for_each(|parameter| open.extend(digests(parameter)));
                told.len() - 1
            });
            told[place].made.push(digest.0.to_vec());
            size += digest.0.len();
            if size > MOST_TOLD {
                return Vec::new();
            }
        }
        told
    }

    /// Was any file made by an activity of this process?
    pub fn is_used(&self) -> bool {
        self.any
    }

    /// How many recipes there are.
    pub fn len(&self) -> usize {
        self.recipes.len()
    }

    /// There are no recipes.
    pub fn is_empty(&self) -> bool {
        self.recipes.is_empty()
    }

    /// Keeps the recipes of files that the process still knows of, and of those that these are made from. `state` is the whole
    /// process in bytes: a file whose digest is not in it is known to nobody.
    pub fn keep_known(&mut self, state: &[u8]) {
        let starts: HashSet<[u8; 8]> = self.recipes.keys().map(start).collect();
        let mut known: BTreeSet<Digest> = BTreeSet::new();
        let mut open: Vec<Digest> = Vec::new();
        for window in state.windows(32) {
            if starts.contains(&window[..8])
                && let Some(digest) = Digest::from_bytes(window)
            {
                open.push(digest);
            }
        }
        while let Some(digest) = open.pop() {
            if let Some(recipe) = self.recipes.get(&digest)
                && known.insert(digest)
            {
                recipe.parameters.iter().for_each(|parameter| open.extend(digests(parameter)));
            }
        }
        self.recipes.retain(|digest, _| known.contains(digest));
    }
}

fn start(digest: &Digest) -> [u8; 8] {
    let mut start = [0; 8];
    start.copy_from_slice(&digest.0[..8]);
    start
}

/// The files that a value refers to and that the grid keeps.
pub fn digests(value: &Value) -> Vec<Digest> {
    let mut found = Vec::new();
    value.each_file(&mut |file| found.extend(file.content.as_ref().map(|content| content.digest)));
    found
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Hand out this attempt, which follows a recipe.
    Follow(u64, u32, Arc<Recipe>),
    /// An attempt of the process that waited can be handed out anew.
    GoOn(AttemptKey),
    /// It failed: the file cannot be made again.
    Fail(AttemptKey, v1::Failure),
}

/// Who waits for files.
#[derive(Debug, PartialEq)]
enum Who {
    Attempt(AttemptKey, v1::Failure),
    Repair(u64),
}

#[derive(Debug)]
struct Waiter {
    who: Who,
    needs: BTreeSet<Digest>,
}

#[derive(Debug)]
struct Repair {
    recipe: Arc<Recipe>,
    wanted: BTreeSet<Digest>,
    attempt: u32,
}

/// Repairs that are under way. They are not recorded: after the coordinator's death the attempts that waited are handed out
/// again, and fail again if the files are still gone.
#[derive(Debug, Default)]
pub struct Repairs {
    next: u64,
    repairs: BTreeMap<u64, Repair>,
    waiting: Vec<Waiter>,
    /// How often attempts of an element lacked files.
    lacked: BTreeMap<u64, u32>,
}

/// Repairs are called by elements of a generation that the engine never comes to.
const FIRST: u64 = 0xFFFF_FFFF << 32;
/// An element, or a repair, that lacks files again and again, though they were made again, is tried so often: perhaps its
/// worker does not reach those that have them.
const MOST_TRIES: u32 = 10;

/// Is this an attempt of a repair?
pub fn is_repair(element: u64) -> bool {
    element >= FIRST
}

impl Repairs {
    /// An attempt failed for want of files. If all of them can be made again it waits for them.
    pub fn lack(&mut self, lineage: &Lineage, key: AttemptKey, failure: v1::Failure) -> Vec<Step> {
        let needs = needs(&failure);
        let times = self.lacked.entry(key.element).or_default();
        *times += 1;
        if *times > MOST_TRIES {
            let why = format!("it was made again {MOST_TRIES} times, and could not be had");
            return self.give_up(Who::Attempt(key, failure), &why);
        }
        self.wait(lineage, Who::Attempt(key, failure), needs)
    }

    fn wait(&mut self, lineage: &Lineage, who: Who, needs: BTreeSet<Digest>) -> Vec<Step> {
        if let Some(lost) = needs.iter().find(|digest| lineage.find(digest).is_none()) {
            let why = format!("no activity of this process made it, so {} cannot be made again", lost.short());
            return self.give_up(who, &why);
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
                    let element = FIRST + self.next;
                    self.next += 1;
                    let repair = Repair { recipe: recipe.clone(), wanted: [*digest].into(), attempt: 1 };
                    self.repairs.insert(element, repair);
                    steps.push(Step::Follow(element, 1, recipe.clone()));
                }
            }
        }
        self.waiting.push(Waiter { who, needs });
        steps
    }

    /// Does this attempt wait for files?
    pub fn waits(&self, key: &AttemptKey) -> bool {
        self.waiting.iter().any(|waiter| matches!(&waiter.who, Who::Attempt(waits, _) if waits == key))
    }

    /// An attempt does not wait any more.
    pub fn leave(&mut self, key: &AttemptKey) {
        self.waiting.retain(|waiter| !matches!(&waiter.who, Who::Attempt(waits, _) if waits == key));
    }

    /// A repair gave these files.
    pub fn made(&mut self, element: u64, attempt: u32, made: &[Digest]) -> Vec<Step> {
        let Some(repair) = self.take(element, attempt) else { return Vec::new() };
        let (there, other): (BTreeSet<Digest>, BTreeSet<Digest>) =
            repair.wanted.into_iter().partition(|digest| made.contains(digest));
        let mut steps = Vec::new();
        for digest in other {
            let why = format!(
                "{} was run again to make {} once more, and made something else: its results are not the same each time",
                repair.recipe.path,
                digest.short()
            );
            steps.extend(self.lost(&digest, &why));
        }
        for digest in there {
            for waiter in &mut self.waiting {
                waiter.needs.remove(&digest);
            }
        }
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|it: &Waiter| it.needs.is_empty());
        self.waiting = waiting;
        for waiter in ready {
            match waiter.who {
                Who::Attempt(key, _) => steps.push(Step::GoOn(key)),
                Who::Repair(element) => steps.extend(self.again(element)),
            }
        }
        steps
    }

    fn take(&mut self, element: u64, attempt: u32) -> Option<Repair> {
        self.repairs.get(&element).filter(|repair| repair.attempt == attempt)?;
        self.repairs.remove(&element)
    }

    /// A repair failed; perhaps it lacks files itself.
    pub fn failed(&mut self, lineage: &Lineage, element: u64, attempt: u32, failure: &v1::Failure) -> Vec<Step> {
        let Some(repair) = self.repairs.get(&element).filter(|repair| repair.attempt == attempt) else {
            return Vec::new();
        };
        let needs = needs(failure);
        if !needs.is_empty() && attempt < MOST_TRIES {
            return self.wait(lineage, Who::Repair(element), needs);
        }
        let why = format!("{} was run again to make it once more, and failed: {}", repair.recipe.path, failure.message);
        self.repairs.remove(&element).into_iter().flat_map(|it| it.wanted).flat_map(|it| self.lost(&it, &why)).collect()
    }

    /// Nobody has a repair any more: it is handed out anew.
    pub fn again(&mut self, element: u64) -> Option<Step> {
        let repair = self.repairs.get_mut(&element)?;
        repair.attempt += 1;
        Some(Step::Follow(element, repair.attempt, repair.recipe.clone()))
    }

    /// A file cannot be made again.
    fn lost(&mut self, digest: &Digest, why: &str) -> Vec<Step> {
        let (hit, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiter: &Waiter| waiter.needs.contains(digest));
        self.waiting = waiting;
        hit.into_iter().flat_map(|waiter| self.give_up(waiter.who, why)).collect()
    }

    fn give_up(&mut self, who: Who, why: &str) -> Vec<Step> {
        match who {
            Who::Attempt(key, mut failure) => {
                failure.message = format!("{}; {why}", failure.message);
                vec![Step::Fail(key, failure)]
            }
            Who::Repair(element) => match self.repairs.remove(&element) {
                Some(repair) => repair.wanted.iter().flat_map(|digest| self.lost(digest, why)).collect(),
                None => Vec::new(),
            },
        }
    }
}

fn needs(failure: &v1::Failure) -> BTreeSet<Digest> {
    failure.gone.iter().filter_map(|bytes| Digest::from_bytes(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use xavantes_model::value::{Content, FileRef};

    use super::*;

    fn digest(number: u8) -> Digest {
        Digest([number; 32])
    }

    fn file(number: u8) -> Value {
        let content = Content { digest: digest(number), size: 1, executable: false, holders: Vec::new() };
        Value::File(Arc::new(FileRef { uri: "f".into(), directory: false, content: Some(content) }))
    }

    fn recipe(path: &str, parameters: Vec<Value>) -> Arc<Recipe> {
        Arc::new(Recipe { activity: 0, parameters, path: path.into() })
    }

    /// 1 and 2 were made by a, 3 by b from 1.
    fn lineage() -> Lineage {
        let mut lineage = Lineage::default();
        lineage.add(&recipe("p/a", vec![]), &[digest(1), digest(2)]);
        lineage.add(&recipe("p/b", vec![file(1)]), &[digest(3)]);
        lineage
    }

    fn lacks(numbers: &[u8]) -> v1::Failure {
        let gone = numbers.iter().map(|number| vec![*number; 32]).collect();
        v1::Failure { message: "gone".into(), gone, ..v1::Failure::default() }
    }

    fn key(element: u64) -> AttemptKey {
        AttemptKey::new("p", element, 1)
    }

    fn follows(steps: &[Step]) -> Vec<(u64, u32, &str)> {
        let follow = |step: &Step| match step {
            Step::Follow(element, attempt, recipe) => (*element, *attempt, recipe.path.clone()),
            other => panic!("{other:?}"),
        };
        steps.iter().map(follow).map(|(element, attempt, path)| (element, attempt, &*path.leak())).collect()
    }

    #[test]
    fn a_file_is_made_once_for_all_who_wait() {
        let (lineage, mut repairs) = (lineage(), Repairs::default());
        let first = repairs.lack(&lineage, key(7), lacks(&[1]));
        assert_eq!(follows(&first), [(FIRST, 1, "p/a")]);
        assert!(repairs.lack(&lineage, key(8), lacks(&[1, 2])).is_empty());
        assert!(repairs.waits(&key(7)) && repairs.waits(&key(8)) && is_repair(FIRST) && !is_repair(7));
        assert_eq!(follows(&repairs.again(FIRST).into_iter().collect::<Vec<_>>()), [(FIRST, 2, "p/a")]);
        assert!(repairs.made(FIRST, 1, &[digest(1)]).is_empty(), "that attempt is over");
        let done = repairs.made(FIRST, 2, &[digest(1), digest(2)]);
        assert_eq!(done, [Step::GoOn(key(7)), Step::GoOn(key(8))]);
        assert!(!repairs.waits(&key(7)));
    }

    #[test]
    fn what_a_repair_needs_is_repaired_first() {
        let (lineage, mut repairs) = (lineage(), Repairs::default());
        assert_eq!(follows(&repairs.lack(&lineage, key(7), lacks(&[3]))), [(FIRST, 1, "p/b")]);
        assert_eq!(follows(&repairs.failed(&lineage, FIRST, 1, &lacks(&[1]))), [(FIRST + 1, 1, "p/a")]);
        assert_eq!(follows(&repairs.made(FIRST + 1, 1, &[digest(1), digest(2)])), [(FIRST, 2, "p/b")]);
        assert_eq!(repairs.made(FIRST, 2, &[digest(3)]), [Step::GoOn(key(7))]);
    }

    #[test]
    fn what_cannot_be_made_again_is_told() {
        let (lineage, mut repairs) = (lineage(), Repairs::default());
        let told = |steps: Vec<Step>| match &steps[..] {
            [Step::Fail(failed, failure)] => (failed.element, failure.message.clone()),
            other => panic!("{other:?}"),
        };
        let (element, message) = told(repairs.lack(&lineage, key(7), lacks(&[9])));
        assert!(element == 7 && message.contains("no activity of this process made it"), "{message}");
        repairs.lack(&lineage, key(7), lacks(&[3]));
        repairs.failed(&lineage, FIRST, 1, &lacks(&[1]));
        let (_, message) = told(repairs.failed(&lineage, FIRST + 1, 1, &lacks(&[])));
        assert!(message.contains("p/a was run again to make it once more, and failed: gone"), "{message}");
        repairs.lack(&lineage, key(7), lacks(&[3]));
        let (_, message) = told(repairs.made(FIRST + 2, 1, &[digest(5)]));
        assert!(message.contains("not the same each time"), "{message}");
        assert!(repairs.repairs.is_empty() && repairs.waiting.is_empty());
        // Whoever cannot get what was made again does not try for ever.
        for number in 1..=MOST_TRIES {
            let element = match &repairs.lack(&lineage, key(8), lacks(&[1]))[..] {
                [Step::Follow(element, 1, _)] => *element,
                other => panic!("{number}: {other:?}"),
            };
            assert_eq!(repairs.made(element, 1, &[digest(1)]), [Step::GoOn(key(8))]);
        }
        let (_, message) = told(repairs.lack(&lineage, key(8), lacks(&[1])));
        assert!(message.contains("made again 10 times"), "{message}");
    }

    #[test]
    fn recipes_go_with_files_and_with_what_these_were_made_from() {
        let told = lineage().tell(vec![digest(3), digest(3), digest(9)]);
        assert_eq!(
            told.iter().map(|recipe| (&*recipe.path, recipe.made.len())).collect::<Vec<_>>(),
            [("p/b", 1), ("p/a", 1)]
        );
        assert!(lineage().tell(vec![digest(9)]).is_empty());
        let mut heard = Lineage::default();
        for recipe in told.clone() {
            let (recipe, made) = Recipe::from_wire(recipe, 1).expect("there is such an activity type");
            heard.add(&recipe, &made);
        }
        assert_eq!(heard.find(&digest(3)), lineage().find(&digest(3)));
        assert_eq!((heard.find(&digest(1)), heard.len()), (lineage().find(&digest(1)), 2));
        assert_eq!(Recipe::from_wire(told[0].clone(), 0), None);
        // All or nothing.
        let large = recipe("p/large", vec![Value::from("x".repeat(MOST_TOLD).as_str())]);
        let mut all = lineage();
        all.add(&large, &[digest(5)]);
        assert!(all.tell(vec![digest(3), digest(5)]).is_empty());
    }

    #[test]
    fn recipes_of_files_that_nobody_knows_are_forgotten() {
        let mut all = lineage();
        all.add(&recipe("p/c", vec![]), &[digest(4)]);
        let state = [&[0; 5][..], &digest(3).0, &[9; 3]].concat();
        all.keep_known(&state);
        assert_eq!([1, 2, 3, 4].map(|number| all.find(&digest(number)).is_some()), [true, false, true, false]);
        all.keep_known(&[]);
        assert!(all.is_empty() && all.is_used());
    }
}
