//! Runs a target with random inputs, for machines without a fuzzer. It keeps no corpus and measures no coverage.

use std::time::{Duration, Instant};

use crate::Target;

/// A small generator of pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// The input of a seed: bytes of which many are small, or the sample with some changes.
pub fn input_of(seed: u64, sample: &str) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    if sample.is_empty() {
        let (length, small) = (random.next() % 400, random.next().is_multiple_of(2));
        let bound = |random: &mut Random| if small && !random.next().is_multiple_of(8) { 24 } else { 256 };
        return (0..length).map(|_| (random.next() % bound(&mut random)) as u8).collect();
    }
    let mut input = sample.as_bytes().to_vec();
    for _ in 0..=random.next() % 6 {
        let at = random.next() as usize % (input.len() + 1);
        let end = (at + random.next() as usize % 40).min(input.len());
        let piece = input[at..end].to_vec();
        match random.next() % 4 {
            0 => drop(input.drain(at..end)),
            1 => {
                let to = random.next() as usize % (input.len() + 1);
                input.splice(to..to, piece);
            }
            2 => input.get_mut(at).into_iter().for_each(|byte| *byte = (random.next() % 128) as u8),
            _ => {
                let words: [&[u8]; 6] = [b"<", b"\"", b"${", b"]]>", b"end ", b"0"];
                input.splice(at..at, words[random.next() as usize % 6].to_vec());
            }
        }
    }
    input
}

/// Runs a target with the inputs of seeds from `seed` on, for some time. Returns the number of inputs. Prints the seed of an
/// input that makes the target panic.
pub fn run(target: Target, seed: u64, time: Duration) -> u64 {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < time {
        for _ in 0..64 {
            let current = PrintOnPanic(seed + count);
            (target.check)(&input_of(current.0, target.sample));
            count += 1;
        }
    }
    count
}

/// Prints the seed if a panic drops it.
struct PrintOnPanic(u64);

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input of seed {} makes the target panic", self.0);
        }
    }
}
