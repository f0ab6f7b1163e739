//! Every metric of a node: name, meaning, labels. A metric that a node does not need stays at zero.

use std::sync::LazyLock;

use prometheus::{Encoder, Histogram, HistogramOpts, IntCounter, IntGauge, Registry, TextEncoder};

use crate::family::{CounterFamily, GaugeFamily, label_values};

label_values! {
    /// How a worker ended an attempt.
    AttemptEnd as "outcome" {
        /// With results.
        Completed = "completed",
        /// With a failure.
        Failed = "failed",
        /// Somebody stopped it.
        Cancelled = "cancelled",
        /// The worker gave it back, or could not run it.
        Refused = "refused",
    }
}

label_values! {
    /// What happens to the slots of a worker.
    SlotUse as "use" {
        /// Attempts run on them.
        Busy = "busy",
        /// Nothing runs on them.
        Free = "free",
    }
}

label_values! {
    /// What a coordinator does with a process.
    ProcessCondition as "condition" {
        /// It runs.
        Running = "running",
        /// It cannot run, and waits for a user.
        Held = "held",
    }
}

label_values! {
    /// How a process ended.
    ProcessEnd as "outcome" {
        /// With results.
        Completed = "completed",
        /// With a failure.
        Failed = "failed",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
    }
}

label_values! {
    /// On which side of a delegation a coordinator is.
    DelegationSide as "side" {
        /// It hands the subtree to another coordinator.
        Parent = "parent",
        /// It runs the subtree for another coordinator.
        Host = "host",
    }
}

label_values! {
    /// Whether a kept result was used.
    CacheOutcome as "outcome" {
        /// The activity did not run.
        Reused = "reused",
        /// The activity ran.
        Missed = "missed",
    }
}

label_values! {
    /// Which way bytes go, seen from the node.
    Direction as "direction" {
        /// To the node.
        In = "in",
        /// From the node.
        Out = "out",
    }
}

label_values! {
    /// What the manager of a group knows of a node.
    NodeCondition as "condition" {
        /// It takes work.
        Available = "available",
        /// It takes no new work, and ends when it has none.
        Draining = "draining",
        /// It has sent no heartbeat for a while.
        Lost = "lost",
    }
}

/// Bounds of the buckets for times of attempts: from a millisecond to a day.
const ATTEMPT_SECONDS: [f64; 13] =
    [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];
/// Bounds of the buckets for writes to a disk or database.
const SYNC_SECONDS: [f64; 10] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25, 1.0, 10.0];

/// The metrics of a node. There is one set for the whole program.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Worker: slots.
    pub worker_slots: GaugeFamily<SlotUse>,
    /// Worker: attempts that wait for a slot.
    pub worker_queued: IntGauge,
    /// Worker: attempts that ended.
    pub attempts_ended: CounterFamily<AttemptEnd>,
    /// Worker: time from the start of an attempt to its end.
    pub attempt_duration: Histogram,
    /// Worker: time from the arrival of an attempt to its start.
    pub attempt_worker_wait: Histogram,
    /// Coordinator: processes that it has.
    pub processes: GaugeFamily<ProcessCondition>,
    /// Coordinator: processes that users submitted.
    pub processes_submitted: IntCounter,
    /// Coordinator: processes and subtrees that ended.
    pub processes_ended: CounterFamily<ProcessEnd>,
    /// Coordinator: attempts that were lost and run again.
    pub attempts_lost: IntCounter,
    /// Coordinator: subtrees that began to run at another coordinator, or here for another one.
    pub delegations: CounterFamily<DelegationSide>,
    /// Coordinator: lookups of kept results.
    pub cache_lookups: CounterFamily<CacheOutcome>,
    /// Coordinator: open streams of users that watch.
    pub watchers: IntGauge,
    /// Time that a repository takes to make a batch of changes durable.
    pub journal_sync: Histogram,
    /// Bytes of records that a repository has taken.
    pub journal_bytes: IntCounter,
    /// Manager: nodes of the group.
    pub group_nodes: GaugeFamily<NodeCondition>,
    /// Manager: slots of all workers of the group.
    pub group_slots: GaugeFamily<SlotUse>,
    /// Manager: other groups that it knows.
    pub known_groups: IntGauge,
    /// Bytes of files between this node and others.
    pub file_bytes: CounterFamily<Direction>,
    /// Bytes of files that the node keeps.
    pub file_store_bytes: IntGauge,
    /// Memory of the node.
    pub resident_memory: IntGauge,
    /// Files and sockets that the node has open.
    pub open_files: IntGauge,
    /// Tasks of the node's runtime.
    pub tasks: IntGauge,
}

/// Creates metrics and makes them known.
struct Declare<'a>(&'a Registry);

impl Declare<'_> {
    fn counter(&self, name: &str, help: &str) -> IntCounter {
        let counter = IntCounter::new(name, help).expect("the declared name is valid");
        self.0.register(Box::new(counter.clone())).expect("no two metrics have the same name");
        counter
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        let gauge = IntGauge::new(name, help).expect("the declared name is valid");
        self.0.register(Box::new(gauge.clone())).expect("no two metrics have the same name");
        gauge
    }

    fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> Histogram {
        let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
        let histogram = Histogram::with_opts(options).expect("the declared name and bounds are valid");
        self.0.register(Box::new(histogram.clone())).expect("no two metrics have the same name");
        histogram
    }
}

impl Metrics {
    fn new() -> Self {
        let registry = Registry::new();
        let declare = Declare(&registry);
        Self {
            worker_slots: GaugeFamily::register(&registry, "xavantes_worker_slots", "Slots of this worker."),
            worker_queued: declare
                .gauge("xavantes_worker_queued_attempts", "Attempts that wait for a slot of this worker."),
            attempts_ended: CounterFamily::register(
                &registry,
                "xavantes_attempts_ended_total",
                "Attempts that ended on this worker.",
            ),
            attempt_duration: declare.histogram(
                "xavantes_attempt_duration_seconds",
                "Time from the start of an attempt on this worker to its end.",
                &ATTEMPT_SECONDS,
            ),
            attempt_worker_wait: declare.histogram(
                "xavantes_attempt_worker_wait_seconds",
                "Time from the arrival of an attempt at this worker to its start.",
                &ATTEMPT_SECONDS,
            ),
            processes: GaugeFamily::register(&registry, "xavantes_processes", "Processes that this coordinator has."),
            processes_submitted: declare
                .counter("xavantes_processes_submitted_total", "Processes that users submitted to this coordinator."),
            processes_ended: CounterFamily::register(
                &registry,
                "xavantes_processes_ended_total",
                "Processes and delegated subtrees that ended at this coordinator.",
            ),
            attempts_lost: declare.counter(
                "xavantes_attempts_lost_total",
                "Attempts of this coordinator that were lost with a worker or coordinator.",
            ),
            delegations: CounterFamily::register(
                &registry,
                "xavantes_delegations_total",
                "Subtrees that this coordinator handed to another one, or began to run for another one.",
            ),
            cache_lookups: CounterFamily::register(
                &registry,
                "xavantes_cache_lookups_total",
                "Lookups of kept results by activities with CACHE.",
            ),
            watchers: declare
                .gauge("xavantes_watchers", "Open streams of users that watch processes of this coordinator."),
            journal_sync: declare.histogram(
                "xavantes_journal_sync_seconds",
                "Time in which the repository makes a batch of changes durable.",
                &SYNC_SECONDS,
            ),
            journal_bytes: declare
                .counter("xavantes_journal_bytes_total", "Bytes of records that the repository has taken."),
            group_nodes: GaugeFamily::register(
                &registry,
                "xavantes_group_nodes",
                "Nodes of the group, as this manager knows them.",
            ),
            group_slots: GaugeFamily::register(
                &registry,
                "xavantes_group_slots",
                "Slots of the workers of the group, as this manager knows them.",
            ),
            known_groups: declare.gauge("xavantes_known_groups", "Other groups that this manager knows."),
            file_bytes: CounterFamily::register(
                &registry,
                "xavantes_file_bytes_total",
                "Bytes of files between this node and other nodes or users.",
            ),
            file_store_bytes: declare.gauge("xavantes_file_store_bytes", "Bytes of files that this node keeps."),
            resident_memory: declare.gauge("xavantes_node_resident_memory_bytes", "Memory of this node in RAM."),
            open_files: declare.gauge("xavantes_node_open_files", "Files and sockets that this node has open."),
            tasks: declare.gauge("xavantes_node_tasks", "Tasks of the runtime of this node."),
            registry,
        }
    }
}

/// The metrics of this program.
pub fn metrics() -> &'static Metrics {
    static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);
    &METRICS
}

/// All metrics in the text format of Prometheus.
pub fn render() -> String {
    let mut text = Vec::new();
    TextEncoder::new().encode(&metrics().registry.gather(), &mut text).expect("a vector takes everything");
    String::from_utf8(text).expect("the format is UTF-8")
}

/// The media type of [`render`].
pub const MEDIA_TYPE: &str = prometheus::TEXT_FORMAT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_exists_from_the_start_and_there_are_few() {
        let text = render();
        assert!(text.contains("xavantes_attempts_ended_total{outcome=\"refused\"} 0\n"), "{text}");
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(series < 200, "{series}");
        assert!(text.lines().filter(|line| !line.starts_with('#')).all(|line| line.starts_with("xavantes_")), "{text}");
    }

    #[test]
    fn values_of_a_label_are_counted_apart() {
        metrics().cache_lookups.of(CacheOutcome::Reused).inc_by(2);
        metrics().cache_lookups.of(CacheOutcome::Missed).inc();
        let text = render();
        assert!(text.contains("xavantes_cache_lookups_total{outcome=\"reused\"} 2\n"), "{text}");
        assert!(text.contains("xavantes_cache_lookups_total{outcome=\"missed\"} 1\n"), "{text}");
    }
}
