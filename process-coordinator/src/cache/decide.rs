//! Results of activities that are used again: what they are known by, what is kept of them, and why one was not used.
//! Without I/O, clock or threads.
//!
//! A result is found by a digest of everything that it depends on: what runs, and with which parameters. Beside each is a
//! *card*, which stays when the result goes: it tells where the result came from, and lets others see in what they differ.
//! What was decided for an activity is its *verdict*.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use xavantes_model::definition::ActivityType;
use xavantes_model::digest::Digest;
use xavantes_model::identity::{self, Undecided};
use xavantes_model::value::Value;
use xavantes_proto::{Message, v1};

use crate::attempt::{AttemptKey, Task};

/// The results of one activity that are kept have at most so many bytes: what is larger belongs into files.
pub const MOST_RESULT: usize = 4 << 20;
/// So many cards there are at most, and so many verdicts: what is in memory of each is about a hundred bytes.
pub const MOST_CARDS: usize = 100_000;
/// Values are shown with so many characters.
const MOST_SHOWN: usize = 60;
/// That a result was used is written down when it was not for so long.
const USED_EVERY_MS: u64 = 3_600_000;

/// A parameter, by what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Its name.
    pub name: Arc<str>,
    /// Of its value.
    pub digest: Digest,
    /// The value for people, shortened.
    pub shown: String,
}

/// What an activity is about to do, by what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought {
    /// Of everything that its result depends on.
    pub key: Digest,
    /// Of its type.
    pub code: Digest,
    /// The name of its type.
    pub type_name: Arc<str>,
    /// The element.
    pub path: String,
    /// Its parameters.
    pub given: Vec<Given>,
}

/// An activity that ended before, and when, in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// The element.
    pub path: String,
    /// When.
    pub at_ms: u64,
}

/// A parameter that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its name.
    pub name: Arc<str>,
    /// What it was.
    pub before: String,
    /// What it is.
    pub after: String,
}

/// Why there is no result that could be used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Whoever started the process does not want it.
    NotWanted,
    /// No activity of this type is known.
    First,
    /// It is not what was done before.
    Changed {
        /// The nearest that was.
        earlier: Earlier,
        /// What ran then, if that is not what runs now.
        code: Option<Digest>,
        /// Parameters that differ.
        parameters: Vec<Change>,
    },
    /// The same was tried, and failed.
    Failed(Earlier),
    /// The results had so many bytes that they were not kept.
    TooLarge(Earlier, u64),
    /// They were removed to make room.
    Removed(Earlier),
    /// Nobody has a file any more that is among them.
    Gone(Earlier, String),
    /// The content of a parameter is not known here.
    Outside(Arc<str>, String),
    /// A parameter is a shared object.
    Shared(Arc<str>),
    /// What is kept could not be read.
    Unavailable(String),
}

/// What was decided for an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The element.
    pub path: String,
    /// The name of its type.
    pub type_name: Arc<str>,
    /// What identifies what runs.
    pub code: Digest,
    /// Whose result was used, or why none was.
    pub outcome: Result<Earlier, Why>,
}

/// What is known of the results of an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The name of its type.
    pub type_name: Arc<str>,
    /// The activity, and when it ended.
    pub made: Earlier,
    /// When they were last used, about, in milliseconds since 1970.
    pub used_ms: u64,
    /// What ran.
    pub code: Digest,
    /// With which parameters.
    pub given: Vec<Given>,
    /// Whether they are there.
    pub held: Held,
}

/// Whether results are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    /// They are, in so many bytes.
    Kept(u64),
    /// There are none: it failed.
    Failed,
    /// They had so many bytes that they were not kept.
    TooLarge(u64),
    /// They were removed to make room.
    Removed,
}

/// Something that is to be written, before or together with what it follows from.
#[derive(Debug, Clone)]
pub enum Keep {
    /// What an activity gave, or that it failed.
    Result {
        /// What it is found by.
        key: Digest,
        /// What is known of it. Times are filled in when it is written.
        card: Box<Card>,
        /// A `Completed`, if that is kept.
        results: Option<Bytes>,
    },
    /// What was decided.
    Verdict(Box<Verdict>),
    /// A result was used.
    Used(Digest),
}

/// Results that were found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Whose they are.
    pub earlier: Earlier,
    /// The results.
    pub completed: v1::Completed,
}

/// Everything that the result of an activity depends on; if that is not known, why. `code` is [`code_of`] its type.
pub fn seek(activity: &ActivityType, code: Digest, parameters: &[Value], path: String) -> Result<Sought, Why> {
    let mut all = blake3::Hasher::new();
    all.update(&code.0);
    let mut given = Vec::new();
    for (variable, value) in activity.parameters.iter().zip(parameters).filter(|(it, _)| it.direction.is_in()) {
        let bytes = identity::value(value).map_err(|undecided| match undecided {
            Undecided::Outside(uri) => Why::Outside(variable.name.clone(), shorten(&uri)),
            Undecided::Shared => Why::Shared(variable.name.clone()),
        })?;
        let digest = Digest(*blake3::hash(&bytes).as_bytes());
        all.update(&digest.0);
        given.push(Given { name: variable.name.clone(), digest, shown: show(value) });
    }
    let key = Digest(*all.finalize().as_bytes());
    Ok(Sought { key, code, type_name: activity.name.clone(), path, given })
}

/// What identifies what an activity type runs.
pub fn code_of(activity: &ActivityType) -> Digest {
    Digest(*blake3::hash(&identity::activity_type(activity)).as_bytes())
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A value for people. Of large ones no more is looked at than is shown.
fn show(value: &Value) -> String {
    // A character has at most four bytes.
    const ENOUGH: usize = 4 * MOST_SHOWN + 4;
    fn write(value: &Value, text: &mut String) {
        if text.len() > ENOUGH {
            return;
        }
        match value {
            Value::Str(long) => {
                let begin: String = long.chars().take(MOST_SHOWN + 1).collect();
                *text += &serde_text(&begin);
            }
            Value::Bytes(bytes) => *text += &format!("bytes ({})", bytes.len()),
            Value::List(items) => {
                *text += "[";
                for (number, item) in items.iter().take(MOST_SHOWN).enumerate() {
                    *text += if number > 0 { "," } else { "" };
                    write(item, text);
                }
                *text += "]";
            }
            Value::Map(map) => {
                *text += "{";
                for (number, (key, item)) in map.iter().take(MOST_SHOWN).enumerate() {
                    *text += if number > 0 { "," } else { "" };
                    *text += &format!("{}:", serde_text(&key.chars().take(MOST_SHOWN).collect::<String>()));
                    write(item, text);
                }
                *text += "}";
            }
            Value::File(file) => {
                *text += &shorten(&file.uri);
                if let Some(content) = &file.content {
                    *text += &format!(" ({}, {} bytes)", content.digest.short(), content.size);
                }
            }
            simple => *text += &simple.to_json().to_string(),
        }
    }
    let mut text = String::new();
    write(value, &mut text);
    shorten(&text)
}

fn serde_text(text: &str) -> String {
    Value::from(text).to_json().to_string()
}

impl Sought {
    /// What was decided for it.
    pub fn verdict(&self, outcome: Result<Earlier, Why>) -> Verdict {
        Verdict { path: self.path.clone(), type_name: self.type_name.clone(), code: self.code, outcome }
    }

    /// Why the nearest that was done before is not the same.
    pub fn compare(&self, card: &Card) -> Why {
        let before = |name: &str| card.given.iter().find(|it| *it.name == *name);
        let mut parameters = Vec::new();
        for now in &self.given {
            let change = |before: String, after: String| Change { name: now.name.clone(), before, after };
            match before(&now.name) {
                Some(then) if then.digest == now.digest => {}
                // What is shown of both is the same.
                Some(then) if then.shown == now.shown => {
                    let with = |it: &Given| format!("{} ({})", it.shown, it.digest.short());
                    parameters.push(change(with(then), with(now)));
                }
                Some(then) => parameters.push(change(then.shown.clone(), now.shown.clone())),
                None => parameters.push(change(String::new(), now.shown.clone())),
            }
        }
        let gone = card.given.iter().filter(|then| self.given.iter().all(|now| now.name != then.name));
        parameters.extend(gone.map(|then| Change {
            name: then.name.clone(),
            before: then.shown.clone(),
            after: String::new(),
        }));
        let code = Some(card.code).filter(|code| *code != self.code);
        Why::Changed { earlier: card.made.clone(), code, parameters }
    }

    fn card(&self, held: Held) -> Card {
        let made = Earlier { path: self.path.clone(), at_ms: 0 };
        let (type_name, given) = (self.type_name.clone(), self.given.clone());
        Card { type_name, made, used_ms: 0, code: self.code, given, held }
    }

    /// To keep what it gave.
    pub fn completed(&self, completed: &v1::Completed) -> Keep {
        let size = completed.encoded_len();
        let (held, results) = match size {
            0..=MOST_RESULT => (Held::Kept(size as u64), Some(completed.encode_to_vec().into())),
            _ => (Held::TooLarge(size as u64), None),
        };
        Keep::Result { key: self.key, card: Box::new(self.card(held)), results }
    }

    /// To remember that it failed.
    pub fn failed(&self) -> Keep {
        Keep::Result { key: self.key, card: Box::new(self.card(Held::Failed)), results: None }
    }
}

/// The activities of one process that may use results again.
#[derive(Debug, Default)]
pub struct Reuse {
    /// Whoever started the process does not want it.
    pub unwanted: bool,
    codes: HashMap<usize, Digest>,
    /// Attempts for which results are being looked for: nobody has them.
    looking: HashMap<(u64, u32), (Task, Sought)>,
}

impl Reuse {
    /// What an activity depends on; nothing if its type does not want its results to be used again.
    pub fn seek(
        &mut self,
        number: usize,
        activity: &ActivityType,
        parameters: &[Value],
        path: impl FnOnce() -> String,
    ) -> Option<Result<Sought, Box<Verdict>>> {
        if !activity.cache {
            return None;
        }
        let code = *self.codes.entry(number).or_insert_with(|| code_of(activity));
        let path = path();
        let sought = seek(activity, code, parameters, path.clone());
        Some(
            sought.map_err(|why| Box::new(Verdict { path, type_name: activity.name.clone(), code, outcome: Err(why) })),
        )
    }

    /// Results are being looked for.
    pub fn begin(&mut self, task: Task, sought: Sought) {
        self.looking.insert((task.key.element, task.key.attempt), (task, sought));
    }

    /// For how many attempts.
    pub fn looked_for(&self) -> u64 {
        self.looking.len() as u64
    }

    /// They are not looked for any more; nothing if they were not.
    pub fn end(&mut self, key: &AttemptKey) -> Option<(Task, Sought)> {
        self.looking.remove(&(key.element, key.attempt))
    }
}

/// Things in the order of a number.
#[derive(Debug, Default)]
struct Ages {
    ages: HashMap<Digest, u64>,
    order: BTreeSet<(u64, Digest)>,
}

impl Ages {
    fn set(&mut self, digest: Digest, age: u64) {
        self.remove(&digest);
        self.ages.insert(digest, age);
        self.order.insert((age, digest));
    }

    fn remove(&mut self, digest: &Digest) -> bool {
        let age = self.ages.remove(digest);
        age.is_some_and(|age| self.order.remove(&(age, *digest)))
    }

    fn oldest(&self) -> Option<Digest> {
        self.order.first().map(|(_, digest)| *digest)
    }

    fn len(&self) -> usize {
        self.ages.len()
    }
}

/// Which results and verdicts there are, how much they take, and which go first.
#[derive(Debug)]
pub struct Index {
    limit: u64,
    most: usize,
    total: u64,
    sizes: HashMap<Digest, (u64, u64)>,
    /// Cards with results, and cards without, by when they were last used.
    kept: Ages,
    bare: Ages,
    /// The latest of each element of a type, and of each type.
    latest: HashMap<u64, Digest>,
    verdicts: Ages,
}

/// What is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Results; their card stays.
    Results(Digest),
    /// A card, and results if there are some.
    Card(Digest),
    /// A verdict, by the digest of its path.
    Verdict(Digest),
}

impl Index {
    /// Of results that may take so many bytes together, with at most so many cards, and verdicts.
    pub fn new(limit: u64, most: usize) -> Self {
        Self {
            limit,
            most,
            total: 0,
            sizes: HashMap::new(),
            kept: Ages::default(),
            bare: Ages::default(),
            latest: HashMap::new(),
            verdicts: Ages::default(),
        }
    }

    /// There is a card now, of so many bytes.
    pub fn add(&mut self, key: Digest, card: &Card, bytes: u64) {
        self.remove(&key);
        let results = match card.held {
            Held::Kept(size) => size,
            _ => 0,
        };
        self.sizes.insert(key, (bytes, results));
        self.total += bytes + results;
        let ages = if matches!(card.held, Held::Kept(_)) { &mut self.kept } else { &mut self.bare };
        ages.set(key, card.used_ms);
        for name in names(&card.type_name, &card.made.path) {
            self.latest.insert(name, key);
        }
    }

    fn remove(&mut self, key: &Digest) {
        if let Some((bytes, results)) = self.sizes.remove(key) {
            self.total -= bytes + results;
        }
        self.kept.remove(key);
        self.bare.remove(key);
    }

    /// Are there results?
    pub fn is_kept(&self, key: &Digest) -> bool {
        self.kept.ages.contains_key(key)
    }

    /// A result was used. Tells whether that is worth to be written down.
    pub fn used(&mut self, key: Digest, now_ms: u64) -> bool {
        let Some(before) = self.kept.ages.get(&key).copied() else { return false };
        self.kept.set(key, now_ms.max(before));
        // All within one period are written once: when the period begins.
        before / USED_EVERY_MS != now_ms / USED_EVERY_MS
    }

    /// The nearest that was done before: the last of the same element, or else of the same type.
    pub fn nearest(&self, type_name: &str, path: &str) -> Option<Digest> {
        let known = |name| self.latest.get(&name).copied().filter(|key| self.sizes.contains_key(key));
        names(type_name, path).into_iter().find_map(known)
    }

    /// There is a verdict now.
    pub fn decided(&mut self, path: Digest, at_ms: u64) {
        self.verdicts.set(path, at_ms);
    }

    /// What has to go, the results first that were not used for longest. From now on it does not count any more.
    pub fn excess(&mut self) -> Vec<Removal> {
        let mut removals = Vec::new();
        if self.total > self.limit || self.sizes.len() > self.most || self.verdicts.len() > self.most {
            // Some more, so that it is not done for each new one.
            let (bytes, count) = (self.limit - self.limit / 10, self.most - self.most / 10);
            while self.sizes.len() > count
                && let Some(key) = self.bare.oldest().or_else(|| self.kept.oldest())
            {
                self.remove(&key);
                removals.push(Removal::Card(key));
            }
            while self.total > bytes
                && let Some(key) = self.kept.oldest()
            {
                let age = self.kept.ages.get(&key).copied().unwrap_or_default();
                self.kept.remove(&key);
                self.bare.set(key, age);
                if let Some((_, results)) = self.sizes.get_mut(&key) {
                    self.total -= std::mem::take(results);
                }
                removals.push(Removal::Results(key));
            }
            while self.total > bytes
                && let Some(key) = self.bare.oldest()
            {
                self.remove(&key);
                removals.push(Removal::Card(key));
            }
            while self.verdicts.len() > count
                && let Some(path) = self.verdicts.oldest()
            {
                self.verdicts.remove(&path);
                removals.push(Removal::Verdict(path));
            }
            let sizes = &self.sizes;
            self.latest.retain(|_, key| sizes.contains_key(key));
        }
        removals
    }

    /// Everything goes.
    pub fn clear(&mut self) -> Vec<Removal> {
        let cards = self.sizes.keys().map(|key| Removal::Card(*key));
        let verdicts = self.verdicts.ages.keys().map(|path| Removal::Verdict(*path));
        let removals = cards.chain(verdicts).collect();
        *self = Self::new(self.limit, self.most);
        removals
    }

    /// How many bytes there may be.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.total
    }
}

/// The same element of another process has the same name, without the process.
fn names(type_name: &str, path: &str) -> [u64; 2] {
    let element = path.split_once('/').map(|(_, element)| element);
    [element, None].map(|element| {
        let mut hasher = DefaultHasher::new();
        (type_name, element).hash(&mut hasher);
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use xavantes_model::diagnostic::Source;
    use xavantes_model::load::load;
    use xavantes_model::value::{Content, FileRef};

    use super::*;

    fn activity(code: &str) -> ActivityType {
        let text = format!(
            r#"<XAVANTES VERSION="1"><ACTIVITY_TYPE NAME="A" CACHE="true">
            <IN_PARAMETER TYPE="int" NAME="n"/><IN_PARAMETER TYPE="string" NAME="t" DEFAULT="x"/>
            <OUT_PARAMETER TYPE="int" NAME="r"/><CODE LANGUAGE="lua">{code}</CODE></ACTIVITY_TYPE></XAVANTES>"#
        );
        let program = load(&[Source::new("a.xml", text.as_str())]).unwrap_or_else(|problems| panic!("{problems:?}"));
        program.activities[0].clone()
    }

    fn sought(code: &str, n: i64, t: &str, path: &str) -> Sought {
        let activity = activity(code);
        let parameters = [Value::Int(n), Value::from(t), Value::Null];
        seek(&activity, code_of(&activity), &parameters, path.into()).unwrap()
    }

    fn card(sought: &Sought, at_ms: u64, held: Held) -> Card {
        let mut card = sought.card(held);
        (card.made.at_ms, card.used_ms) = (at_ms, at_ms);
        card
    }

    #[test]
    fn the_same_is_found_and_a_difference_is_told() {
        let before = sought("r = n", 1, "x", "P-1/a");
        assert_eq!(before.key, sought("r = n", 1, "x", "P-2/b").key);
        let card = card(&before, 7, Held::Kept(1));
        let told = |code: &str, n: i64, t: &str| match sought(code, n, t, "P-2/a").compare(&card) {
            Why::Changed { earlier, code, parameters } => {
                assert_eq!(earlier, Earlier { path: "P-1/a".into(), at_ms: 7 });
                let changes = parameters.into_iter().map(|it| format!("{} {} {}", it.name, it.before, it.after));
                (code.is_some(), changes.collect::<Vec<_>>())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(told("r = n + 1", 1, "x"), (true, vec![]));
        assert_eq!(told("r = n", 2, "x"), (false, vec!["n 1 2".into()]));
        assert_eq!(told("r = 0", 2, "y"), (true, vec!["n 1 2".into(), "t \"x\" \"y\"".into()]));
        let long = |end: &str| format!("{}{end}", "x".repeat(100));
        let card = super::tests::card(&sought("r = n", 1, &long("a"), "P-1/a"), 7, Held::Failed);
        let Why::Changed { parameters, .. } = sought("r = n", 1, &long("b"), "P-2/a").compare(&card) else {
            panic!("it changed")
        };
        assert!(parameters[0].before != parameters[0].after && parameters[0].before.chars().count() < 90);
    }

    #[test]
    fn what_is_not_known_is_not_looked_for() {
        let mut activity = activity("r = n");
        activity.parameters[1].ty = None;
        let outside = Value::File(Arc::new(FileRef::outside("source://a/b", false)));
        let parameters = [Value::Int(1), outside, Value::Null];
        let why = seek(&activity, code_of(&activity), &parameters, "P/a".into()).unwrap_err();
        assert_eq!(why, Why::Outside("t".into(), "source://a/b".into()));
        activity.cache = false;
        assert_eq!(Reuse::default().seek(0, &activity, &parameters, || unreachable!()), None);
    }

    #[test]
    fn values_are_shown_shortly() {
        assert_eq!(show(&Value::from(vec![Value::Int(1), Value::from("a\n"), Value::Null])), "[1,\"a\\n\",null]");
        assert_eq!(show(&Value::from("ä".repeat(200).as_str())).chars().count(), MOST_SHOWN + 1);
        let list = Value::from(vec![Value::from(vec![Value::Int(7); 100_000]); 1000]);
        assert_eq!(show(&list).chars().count(), MOST_SHOWN + 1);
        let content = Content { digest: Digest([1; 32]), size: 5, executable: false, holders: vec![] };
        let file = Value::File(Arc::new(FileRef { uri: "a.txt".into(), directory: false, content: Some(content) }));
        assert_eq!(show(&file), "a.txt (010101010101, 5 bytes)");
    }

    fn digest(number: u8) -> Digest {
        Digest([number; 32])
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_leaves_a_card() {
        let mut index = Index::new(100, 10);
        for number in 1..=3 {
            let sought = sought("r = n", number.into(), "x", &format!("P-{number}/a"));
            index.add(digest(number), &card(&sought, u64::from(number), Held::Kept(25)), 5);
        }
        assert_eq!((index.bytes(), index.excess()), (90, vec![]));
        assert!(index.used(digest(1), 10 * USED_EVERY_MS) && !index.used(digest(1), 10 * USED_EVERY_MS + 1));
        assert!(!index.used(digest(9), 5), "that is not there");
        index.add(digest(4), &card(&sought("r = n", 4, "x", "P-4/b"), 4, Held::Kept(25)), 5);
        assert_eq!(index.excess(), [Removal::Results(digest(2)), Removal::Results(digest(3))]);
        assert!(index.is_kept(&digest(1)) && !index.is_kept(&digest(2)) && index.bytes() == 70);
        // The last of this element, the last of this type, nothing.
        assert_eq!(index.nearest("A", "P-9/a"), Some(digest(3)));
        assert_eq!(index.nearest("A", "P-9/c"), Some(digest(4)));
        assert_eq!(index.nearest("B", "P-9/a"), None);
        // Kept once more.
        index.add(digest(2), &card(&sought("r = n", 2, "x", "P-5/a"), 5, Held::Kept(25)), 5);
        assert!(index.is_kept(&digest(2)) && index.bytes() == 95);
        assert_eq!(index.clear().len(), 4);
        assert_eq!((index.bytes(), index.nearest("A", "P-9/a")), (0, None));
    }

    #[test]
    fn there_are_not_more_cards_and_verdicts_than_may_be() {
        let mut index = Index::new(u64::MAX, 10);
        for number in 1..=11 {
            let held = if number % 2 == 0 { Held::Failed } else { Held::Kept(1) };
            let path = format!("P-{number}/a{number}");
            let sought = sought("r = n", number.into(), "x", &path);
            index.add(digest(number), &card(&sought, u64::from(number), held), 5);
            index.decided(digest(number), u64::from(number));
            index.decided(digest(number), u64::from(number));
        }
        let removed = index.excess();
        let cards: Vec<_> = removed.iter().filter(|it| matches!(it, Removal::Card(_))).collect();
        assert_eq!(cards, [&Removal::Card(digest(2)), &Removal::Card(digest(4))]);
        assert!(removed.contains(&Removal::Verdict(digest(2))) && !removed.contains(&Removal::Verdict(digest(3))));
        assert_eq!(index.excess(), []);
    }

    #[test]
    fn large_results_are_not_kept() {
        let sought = sought("r = n", 1, "x", "P-1/a");
        let completed =
            |size: usize| v1::Completed { results: vec![xavantes_proto::value(&Value::from(&*"x".repeat(size)))] };
        let held = |keep: Keep| match keep {
            Keep::Result { card, results, .. } => (card.held, results.is_some()),
            other => panic!("{other:?}"),
        };
        assert!(matches!(held(sought.completed(&completed(10))), (Held::Kept(_), true)));
        assert!(matches!(held(sought.completed(&completed(MOST_RESULT))), (Held::TooLarge(_), false)));
        assert_eq!(held(sought.failed()), (Held::Failed, false));
    }
}
