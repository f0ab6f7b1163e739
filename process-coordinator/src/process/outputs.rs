//! The results of a process's elements as they complete, for subscribers. A ring in memory holds the latest ones; it is
//! bounded by bytes, which no crate offers. A slow subscriber misses some and learns how many; it never blocks a process.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use xavantes_engine::Product;
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};

/// Size of the ring without subscribers: enough for one that subscribes a moment after the process began.
const IDLE_BUFFER_BYTES: usize = 256 << 10;
/// Size of the ring with subscribers: enough for one that fetches files now and then.
const BUSY_BUFFER_BYTES: usize = 8 << 20;
/// Approximate bytes that a value takes beside its content.
const VALUE_OVERHEAD_BYTES: usize = 64;

#[derive(Debug)]
struct Buffered {
    product: Arc<Product>,
    reused: bool,
    size: usize,
}

/// The latest outputs, numbered consecutively.
#[derive(Debug, Default)]
struct Ring {
    /// Number of the first output in the ring.
    first: u64,
    outputs: VecDeque<Buffered>,
    size: usize,
}

impl Ring {
    /// Adds an output. The last one stays, however large it is.
    fn add(&mut self, output: Buffered, max_bytes: usize) {
        self.size += output.size;
        self.outputs.push_back(output);
        while self.size > max_bytes && self.outputs.len() > 1 {
            self.size -= self.outputs.pop_front().map_or(0, |gone| gone.size);
            self.first += 1;
        }
    }

    /// The output with this number or the next one in the ring, and how many are missing between.
    fn read(&self, number: u64) -> Option<(u64, &Buffered)> {
        let missed = self.first.saturating_sub(number);
        let at = (number + missed - self.first) as usize;
        self.outputs.get(at).map(|output| (missed, output))
    }
}

/// The outputs of a process; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outputs {
    ring: Arc<Mutex<Ring>>,
    /// Changes with every new output.
    news: watch::Sender<()>,
}

impl Default for Outputs {
    fn default() -> Self {
        Self { ring: Arc::default(), news: watch::Sender::new(()) }
    }
}

impl Outputs {
    pub fn add(&self, product: Product, reused: bool) {
        let values = product.results.iter().map(|(_, value)| value).chain(&product.collected);
        let size = VALUE_OVERHEAD_BYTES + product.path.len() + values.map(weight).sum::<usize>();
        let max_bytes = if self.news.receiver_count() > 0 { BUSY_BUFFER_BYTES } else { IDLE_BUFFER_BYTES };
        self.ring.lock().add(Buffered { product: Arc::new(product), reused, size }, max_bytes);
        self.news.send_replace(());
    }

    /// Changes with every new output; the receiver counts as a subscriber.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// The next output from this number on; moves the number behind it.
    pub fn next(&self, number: &mut u64) -> Option<v1::Output> {
        let (missed, product, reused) = {
            let ring = self.ring.lock();
            let (missed, output) = ring.read(*number)?;
            (missed, output.product.clone(), output.reused)
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

/// Approximate bytes that a value takes.
fn weight(value: &Value) -> usize {
    VALUE_OVERHEAD_BYTES
        + match value {
            Value::Str(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.iter().map(weight).sum(),
            Value::Map(map) => map.iter().map(|(key, item)| key.len() + weight(item)).sum(),
            Value::File(file) => file.uri.len() + VALUE_OVERHEAD_BYTES,
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
    fn late_and_slow_subscribers_learn_how_many_outputs_they_missed() {
        let outputs = Outputs::default();
        let mut number = 0;
        assert_eq!(outputs.next(&mut number), None);
        (0..10).for_each(|it| outputs.add(product(it, IDLE_BUFFER_BYTES / 4), it == 9));
        let received: Vec<(String, u64, bool)> =
            std::iter::from_fn(|| outputs.next(&mut number)).map(|it| (it.path, it.missed, it.reused)).collect();
        assert_eq!(received, [("P/7".into(), 7, false), ("P/8".into(), 0, false), ("P/9".into(), 0, true)]);
        let news = outputs.news();
        (10..20).for_each(|it| outputs.add(product(it, IDLE_BUFFER_BYTES / 4), false));
        assert!(news.has_changed().unwrap());
        assert_eq!(outputs.next(&mut number).map(|it| (it.path, it.missed)), Some(("P/10".into(), 0)));
        // An output that is larger than the ring stays until the next one.
        outputs.add(product(20, 2 * BUSY_BUFFER_BYTES), false);
        assert_eq!(outputs.next(&mut number).map(|it| (it.path, it.missed)), Some(("P/20".into(), 9)));
        assert_eq!(outputs.next(&mut number), None);
    }
}
