//! Metrics with one label. The values of the label are variants of an enum, so every series exists from the start and none is
//! added later.

use std::marker::PhantomData;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The values of a label.
pub trait LabelValue: Copy + 'static {
    /// Name of the label.
    const LABEL: &'static str;
    /// All values.
    const ALL: &'static [Self];

    /// The value as Prometheus sees it.
    fn text(self) -> &'static str;

    /// Position in [`ALL`](Self::ALL).
    fn position(self) -> usize;
}

/// Declares the values of a label: an enum whose variants have these texts.
macro_rules! label_values {
    ($(#[$meta:meta])* $name:ident as $label:literal { $($(#[$about:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about])* $variant),+
        }

        impl $crate::family::LabelValue for $name {
            const LABEL: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }

            fn position(self) -> usize {
                self as usize
            }
        }
    };
}
pub(crate) use label_values;

/// Counters that differ in one label.
#[derive(Debug)]
pub struct CounterFamily<L> {
    counters: Vec<IntCounter>,
    label: PhantomData<L>,
}

impl<L: LabelValue> CounterFamily<L> {
    pub(crate) fn register(registry: &Registry, name: &str, help: &str) -> Self {
        let all = IntCounterVec::new(Opts::new(name, help), &[L::LABEL]).expect("the declared name is valid");
        registry.register(Box::new(all.clone())).expect("no two metrics have the same name");
        let counters = L::ALL.iter().map(|value| all.with_label_values(&[value.text()])).collect();
        Self { counters, label: PhantomData }
    }

    /// The counter with this value of the label.
    pub fn of(&self, value: L) -> &IntCounter {
        &self.counters[value.position()]
    }
}

/// Gauges that differ in one label.
#[derive(Debug)]
pub struct GaugeFamily<L> {
    gauges: Vec<IntGauge>,
    label: PhantomData<L>,
}

impl<L: LabelValue> GaugeFamily<L> {
    pub(crate) fn register(registry: &Registry, name: &str, help: &str) -> Self {
        let all = IntGaugeVec::new(Opts::new(name, help), &[L::LABEL]).expect("the declared name is valid");
        registry.register(Box::new(all.clone())).expect("no two metrics have the same name");
        let gauges = L::ALL.iter().map(|value| all.with_label_values(&[value.text()])).collect();
        Self { gauges, label: PhantomData }
    }

    /// The gauge with this value of the label.
    pub fn of(&self, value: L) -> &IntGauge {
        &self.gauges[value.position()]
    }
}
