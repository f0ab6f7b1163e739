//! Every target takes some thousand random inputs.

use xavantes_fuzz::{TARGETS, mutate::input_of};

#[test]
fn no_target_panics() {
    for target in TARGETS {
        for seed in 0..1500 {
            println!("{}, seed {seed}", target.name);
            (target.check)(&input_of(seed, target.sample));
        }
    }
}
