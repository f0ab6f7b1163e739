//! What the elements of a process gave as they completed, for whoever follows it. The last ones are kept in memory; who
//! reads more slowly than they come misses some, and is told how many. Nobody waits for a reader.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use xavantes_engine::Product;
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};

/// What is kept when nobody reads: enough for who begins a moment after the process did.
const LITTLE: usize = 256 << 10;
/// What is kept when somebody does: enough for who has to fetch files now and then.
const MUCH: usize = 8 << 20;
/// About what a value takes besides its content.
const OVERHEAD: usize = 64;

#[derive(Debug)]
struct Kept {
    product: Arc<Product>,
    reused: bool,
    size: usize,
}

/// The last ones, each with a number.
#[derive(Debug, Default)]
struct Ring {
    /// The number of the first that is kept.
    first: u64,
    kept: VecDeque<Kept>,
    size: usize,
}

impl Ring {
    /// Adds one. The last one stays, however large it is.
    fn add(&mut self, kept: Kept, most: usize) {
        self.size += kept.size;
        self.kept.push_back(kept);
        while self.size > most && self.kept.len() > 1 {
            self.size -= self.kept.pop_front().map_or(0, |gone| gone.size);
            self.first += 1;
        }
    }

    /// The one with this number, or the next that is kept, and how many are between.
    fn read(&self, number: u64) -> Option<(u64, &Kept)> {
        let missed = self.first.saturating_sub(number);
        let at = (number + missed - self.first) as usize;
        self.kept.get(at).map(|kept| (missed, kept))
    }
}

/// What a process gave; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outputs {
    ring: Arc<Mutex<Ring>>,
    /// Changes when there is one more.
    news: watch::Sender<()>,
}

impl Default for Outputs {
    fn default() -> Self {
        Self { ring: Arc::default(), news: watch::Sender::new(()) }
    }
}

impl Outputs {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Every change of it is one call, after which it is whole.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, product: Product, reused: bool) {
        let values = product.results.iter().map(|(_, value)| value).chain(&product.collected);
        let size = OVERHEAD + product.path.len() + values.map(weight).sum::<usize>();
        let most = if self.news.receiver_count() > 0 { MUCH } else { LITTLE };
        self.ring().add(Kept { product: Arc::new(product), reused, size }, most);
        self.news.send_replace(());
    }

    /// Tells when there is one more, to a reader.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// The next one from this number on, for a reader; moves the number behind it.
    pub fn next(&self, number: &mut u64) -> Option<v1::Output> {
        let (missed, product, reused) = {
            let ring = self.ring();
            let (missed, kept) = ring.read(*number)?;
            (missed, kept.product.clone(), kept.reused)
        };
        *number += missed + 1;
        Some(v1::Output {
            path: product.path.clone(),
            results: product
                .results
                .iter()
                .map(|(name, result)| v1::Parameter { name: name.to_string(), value: Some(value(result)) })
                .collect(),
            collected: product.collected.as_ref().map(value),
            reused,
            missed,
            relays: Vec::new(),
        })
    }
}

/// About how many bytes a value takes.
fn weight(value: &Value) -> usize {
    OVERHEAD
        + match value {
            Value::Str(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.iter().map(weight).sum(),
            Value::Map(map) => map.iter().map(|(key, item)| key.len() + weight(item)).sum(),
            Value::File(file) => file.uri.len() + OVERHEAD,
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(number: usize, size: usize) -> Product {
        let text = "x".repeat(size);
        let results = vec![("r".into(), Value::from(text.as_str()))];
        Product { path: format!("P/{number}"), results, collected: None }
    }

    #[test]
    fn who_is_late_or_slow_is_told_how_many_were_missed() {
        let outputs = Outputs::default();
        let mut number = 0;
        assert_eq!(outputs.next(&mut number), None);
        (0..10).for_each(|it| outputs.add(product(it, LITTLE / 4), it == 9));
        let told: Vec<(String, u64, bool)> =
            std::iter::from_fn(|| outputs.next(&mut number)).map(|it| (it.path, it.missed, it.reused)).collect();
        assert_eq!(told, [("P/7".into(), 7, false), ("P/8".into(), 0, false), ("P/9".into(), 0, true)]);
        let news = outputs.news();
        (10..20).for_each(|it| outputs.add(product(it, LITTLE / 4), false));
        assert!(news.has_changed().unwrap());
        assert_eq!(outputs.next(&mut number).map(|it| (it.path, it.missed)), Some(("P/10".into(), 0)));
        // One that is too large by itself is still there until the next one comes.
        outputs.add(product(20, 2 * MUCH), false);
        assert_eq!(outputs.next(&mut number).map(|it| (it.path, it.missed)), Some(("P/20".into(), 9)));
        assert_eq!(outputs.next(&mut number), None);
    }
}
