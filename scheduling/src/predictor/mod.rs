//! Predictions of durations and output sizes from past runs: the PEM of Monge and others, section 3.2.
//!
//! There is one history for each type of activity. A prediction is the mean of the k most similar past runs. The names
//! of attributes say what they are: `in-…` inputs, `arg-…` arguments, `mach-…` the machine, `out-…` outputs, `time` the
//! seconds. Durations depend on inputs, arguments and machine; outputs on inputs and arguments.
//!
//! The paper leaves the rest open. Here, as in the IBk of Weka: k is 3 by default, numbers are scaled to 0…1 by their
//! range, different words have the distance 1, a missing value is as far away as possible, distances are Euclidean.
//!
//! | module | is about |
//! |---|---|
//! | [`run_history`] | past runs of one type of activity, bounded, and predictions from them |
//! | [`arff`] | histories as text, in the format of Weka |

pub mod arff;
pub mod run_history;

pub use run_history::{ObservedValue, Prediction, RunHistory};
