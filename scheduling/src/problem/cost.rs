//! How seconds follow from work and bytes. The papers use two models, and both are here.

/// How durations and transfers are computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Whether transfers run beside the computation or occupy the machine.
    pub transfers: Transfers,
    /// Whether durations are whole seconds.
    pub rounding: Rounding,
    /// When a task computes on a GPU.
    pub gpu: GpuRule,
}

/// Whether transfers run beside the computation or occupy the machine of the task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transfers {
    /// The model of the HEFT paper and most of the literature: data leave when a task ends and arrive after the time of
    /// the edge; machines compute meanwhile; transfers do not slow each other down; data on the same machine cost
    /// nothing.
    Overlapped,
    /// The model of Stockinger 2020: a task reads its inputs, computes and writes its outputs, one action at a time, on
    /// its machine. Each output file is stored on one machine, which the planner chooses. The other end of a transfer
    /// is not occupied.
    Inline {
        /// Seconds of a read or write on the same machine. A task that reads (or writes) nothing needs them once.
        local_seconds: f64,
    },
}

/// Whether durations are whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Durations are as computed.
    Exact,
    /// Every computation and every transfer takes a whole number of seconds, rounded up.
    WholeSeconds,
}

/// When a task with work for both kinds of processor computes on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuRule {
    /// Always, if the machine has one.
    Always,
    /// If it is faster.
    Faster,
}

impl CostModel {
    /// Transfers beside the computation, exact times: the model of the HEFT paper.
    pub const fn overlapped() -> Self {
        Self { transfers: Transfers::Overlapped, rounding: Rounding::Exact, gpu: GpuRule::Faster }
    }

    /// The model of Stockinger 2020 for CPUs: local access is free, whole seconds.
    pub const fn inline_cpu() -> Self {
        Self {
            transfers: Transfers::Inline { local_seconds: 0.0 },
            rounding: Rounding::WholeSeconds,
            gpu: GpuRule::Always,
        }
    }

    /// The model of Stockinger 2020 for CPUs and GPUs: local access takes a second, whole seconds.
    pub const fn inline_gpu() -> Self {
        Self { transfers: Transfers::Inline { local_seconds: 1.0 }, ..Self::inline_cpu() }
    }

    pub(crate) fn round(&self, seconds: f64) -> f64 {
        match self.rounding {
            Rounding::Exact => seconds,
            Rounding::WholeSeconds => seconds.ceil(),
        }
    }

    pub(crate) fn local_seconds(&self) -> f64 {
        match self.transfers {
            Transfers::Overlapped => 0.0,
            Transfers::Inline { local_seconds } => local_seconds,
        }
    }
}
