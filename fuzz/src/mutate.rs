//! Runs a target with random inputs, for machines without a fuzzer. It keeps no corpus and measures no coverage.

use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::Target;

/// The input of a seed: bytes of which many are small, or a sample with some changes.
pub fn input_of(seed: u64, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut random = Rng::with_seed(seed);
    let Some(sample) = random.choice(samples) else {
        let (length, small) = (random.usize(..400), random.bool());
        let byte = |random: &mut Rng| if small && random.u8(..8) != 0 { random.u8(..24) } else { random.u8(..) };
        return (0..length).map(|_| byte(&mut random)).collect();
    };
    let mut input = sample.clone();
    for _ in 0..=random.u8(..6) {
        let at = random.usize(..=input.len());
        let end = (at + random.usize(..40)).min(input.len());
        let piece = input[at..end].to_vec();
        match random.u8(..5) {
            0 => drop(input.drain(at..end)),
            1 => {
                let to = random.usize(..=input.len());
                input.splice(to..to, piece);
            }
            2 => input.get_mut(at).into_iter().for_each(|byte| *byte = random.u8(..128)),
            3 => input.get_mut(at).into_iter().for_each(|byte| *byte = random.u8(..)),
            _ => {
                let words: [&[u8]; 6] = [b"<", b"\"", b"${", b"]]>", b"end ", b"0"];
                input.splice(at..at, words[random.usize(..6)].to_vec());
            }
        }
    }
    input
}

/// Runs a target with the inputs of seeds from `seed` on, for some time. Returns the number of inputs. Prints the seed of an
/// input that makes the target panic.
pub fn run(target: Target, seed: u64, time: Duration) -> u64 {
    let (began, samples) = (Instant::now(), (target.samples)());
    let mut count = 0;
    while began.elapsed() < time {
        for _ in 0..64 {
            let current = PrintOnPanic(seed + count);
            (target.check)(&input_of(current.0, &samples));
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
