//! Every target takes some random inputs.

use xavantes_fuzz::{TARGETS, mutate::input_of};

#[test]
fn no_target_panics() {
    for target in TARGETS {
        let samples = (target.samples)();
        samples.iter().for_each(|sample| (target.check)(sample));
        for seed in 0..target.test_inputs {
            println!("{}, seed {seed}", target.name);
            (target.check)(&input_of(seed, &samples));
        }
    }
}
