//! How the files of a process were made, so that they can be made again when no node has them any more. Without I/O, clock
//! or threads.
//!
//! Each file that an activity made has a *recipe*: the activity type and its parameters. Recipes travel with files to and
//! from subtrees at other coordinators, so that each coordinator that needs a file can have it made again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::digest::Digest;
use xavantes_model::value::Value;
use xavantes_proto::{Message, v1, value, value_from};

/// Upper bound on the recipes that travel with one subtree. Beyond it none travel, because a part of them could need files
/// whose recipes are missing.
pub const MAX_RECIPES_BYTES: usize = 8 << 20;

/// How files were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The activity type, by position in the program.
    pub activity: u32,
    /// All parameters of the activity.
    pub parameters: Vec<Value>,
    /// Path of the element that made the files.
    pub path: String,
}

impl Recipe {
    /// The recipe and the files that it made; nothing if a program with this number of activity types has no such recipe.
    pub fn from_wire(wire: v1::Recipe, activities: usize) -> Option<(Arc<Self>, Vec<Digest>)> {
        let v1::Recipe { activity, parameters, path, made } = wire;
        let parameters = parameters.into_iter().map(value_from).collect::<Result<_, _>>().ok()?;
        let made = made.iter().filter_map(|bytes| Digest::from_bytes(bytes)).collect();
        ((activity as usize) < activities).then(|| (Arc::new(Self { activity, parameters, path }), made))
    }
}

/// The recipes of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lineage {
    recipes: BTreeMap<Digest, Arc<Recipe>>,
    /// An activity of the process made a file, perhaps one whose recipe is forgotten.
    any: bool,
}

impl Lineage {
    /// Adds the recipe of files. A file keeps its first recipe, which cannot depend on the file itself.
    pub fn add(&mut self, recipe: &Arc<Recipe>, made: &[Digest]) {
        self.any = true;
        for digest in made {
            self.recipes.entry(*digest).or_insert_with(|| recipe.clone());
        }
    }

    /// The recipe of a file.
    pub fn find(&self, digest: &Digest) -> Option<&Arc<Recipe>> {
        self.recipes.get(digest)
    }

    /// The recipes of these files, and of all files that they were made from.
    pub fn to_wire(&self, files: Vec<Digest>) -> Vec<v1::Recipe> {
        let (mut recipes, mut places) = (Vec::<v1::Recipe>::new(), HashMap::new());
        let (mut seen, mut pending, mut size) = (HashSet::new(), files, 0);
        while let Some(digest) = pending.pop() {
            let Some(recipe) = self.find(&digest).filter(|_| seen.insert(digest)) else { continue };
            let place = *places.entry(Arc::as_ptr(recipe)).or_insert_with(|| {
                let parameters: Vec<v1::Value> = recipe.parameters.iter().map(value).collect();
                let (activity, path) = (recipe.activity, recipe.path.clone());
                let wire = v1::Recipe { activity, parameters, path, made: Vec::new() };
                size += wire.encoded_len();
                recipes.push(wire);
                recipe.parameters.iter().for_each(|parameter| pending.extend(digests(parameter)));
                recipes.len() - 1
            });
            recipes[place].made.push(digest.0.to_vec());
            size += digest.0.len();
            if size > MAX_RECIPES_BYTES {
                return Vec::new();
            }
        }
        recipes
    }

    /// Did any activity of this process make a file?
    pub fn made_files(&self) -> bool {
        self.any
    }

    /// Number of files with a recipe.
    pub fn len(&self) -> usize {
        self.recipes.len()
    }

    /// No file has a recipe.
    pub fn is_empty(&self) -> bool {
        self.recipes.is_empty()
    }

    /// Forgets the recipes of files that the process no longer refers to, directly or through other recipes. `state` is the
    /// encoded process: the process refers to a file only if its digest occurs in these bytes.
    pub fn retain_referenced(&mut self, state: &[u8]) {
        let starts: HashSet<[u8; 8]> = self.recipes.keys().map(start).collect();
        let mut known: BTreeSet<Digest> = BTreeSet::new();
        let mut pending: Vec<Digest> = Vec::new();
        for window in state.windows(32) {
            if starts.contains(&window[..8])
                && let Some(digest) = Digest::from_bytes(window)
            {
                pending.push(digest);
            }
        }
        while let Some(digest) = pending.pop() {
            if let Some(recipe) = self.recipes.get(&digest)
                && known.insert(digest)
            {
                recipe.parameters.iter().for_each(|parameter| pending.extend(digests(parameter)));
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

/// Digests of the files in a value whose content the grid stores.
pub fn digests(value: &Value) -> Vec<Digest> {
    let mut found = Vec::new();
    value.each_file(&mut |file| found.extend(file.content.as_ref().map(|content| content.digest)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::test_lineage::{digest, lineage, recipe};

    #[test]
    fn recipes_travel_with_files_and_their_ancestors() {
        let wire = lineage().to_wire(vec![digest(3), digest(3), digest(9)]);
        assert_eq!(
            wire.iter().map(|recipe| (&*recipe.path, recipe.made.len())).collect::<Vec<_>>(),
            [("p/b", 1), ("p/a", 1)]
        );
        assert!(lineage().to_wire(vec![digest(9)]).is_empty());
        let mut received = Lineage::default();
        for recipe in wire.clone() {
            let (recipe, made) = Recipe::from_wire(recipe, 1).expect("there is such an activity type");
            received.add(&recipe, &made);
        }
        assert_eq!(received.find(&digest(3)), lineage().find(&digest(3)));
        assert_eq!((received.find(&digest(1)), received.len()), (lineage().find(&digest(1)), 2));
        assert_eq!(Recipe::from_wire(wire[0].clone(), 0), None);
        // Too many bytes: none travel.
        let large = recipe("p/large", vec![Value::from("x".repeat(MAX_RECIPES_BYTES).as_str())]);
        let mut all = lineage();
        all.add(&large, &[digest(5)]);
        assert!(all.to_wire(vec![digest(3), digest(5)]).is_empty());
    }

    #[test]
    fn recipes_of_unreferenced_files_are_forgotten() {
        let mut all = lineage();
        all.add(&recipe("p/c", vec![]), &[digest(4)]);
        let state = [&[0; 5][..], &digest(3).0, &[9; 3]].concat();
        all.retain_referenced(&state);
        assert_eq!([1, 2, 3, 4].map(|number| all.find(&digest(number)).is_some()), [true, false, true, false]);
        all.retain_referenced(&[]);
        assert!(all.is_empty() && all.made_files());
    }
}
