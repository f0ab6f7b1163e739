//! What a node measures about itself, for Prometheus and the like.
//!
//! All metrics are declared in one place, [`Metrics`]. Each is a few atomic numbers, so the hot path counts without a lock, and
//! no measurement takes memory. No metric has a process or an element as a label: the number of series is fixed.
//!
//! | module | is about |
//! |---|---|
//! | `metrics` | every metric: name, meaning, labels |
//! | `family` | metrics with one label whose values are known in advance |

mod family;
mod metrics;

pub use family::{CounterFamily, GaugeFamily, LabelValue};
pub use metrics::{
    AttemptEnd, CacheOutcome, DelegationSide, Direction, MEDIA_TYPE, Metrics, NodeCondition, ProcessCondition,
    ProcessEnd, SlotUse, metrics, render,
};
