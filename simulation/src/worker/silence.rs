//! A worker that accepts attempts and does nothing with them, and the reports by which coordinators recognise one.

use xavantes_activity_manager::attempts::action::WorkerReport;
use xavantes_activity_manager::report_batch::OutgoingReport;

use crate::simulated_machine::NodeRef;
use crate::world::World;
use crate::world_event::NodeTask;

/// Workers report the attempts that run at this interval.
const REPORT_RUNNING_INTERVAL_MS: u64 = 2_500;

impl World<'_> {
    /// A worker does nothing with its attempts from now on, if its group has another worker that was not silenced.
    pub fn silence(&mut self, w: usize) {
        let group = self.workers[w].machine.group;
        let mut others = self.workers.iter().enumerate().filter(|(number, _)| *number != w);
        if self.workers[w].silent || !others.any(|(_, other)| other.machine.group == group && !other.silent) {
            return;
        }
        self.trace(|| format!("w{w} does nothing any more"));
        self.workers[w].silent = true;
        self.check.silenced(w);
        self.workers[w].memory.running.clear();
    }

    /// A stream begins: its coordinator gets reports of the attempts that run.
    pub fn report_running_later(&mut self, w: usize, stream: usize) {
        self.later(NodeRef::Worker(w), REPORT_RUNNING_INTERVAL_MS, NodeTask::ReportRunning(stream));
    }

    /// Reports the attempts of a coordinator that run, until its stream ends.
    pub fn report_running(&mut self, w: usize, stream: usize) {
        let Some(connection) = self.streams[stream].coordinator_stream.clone() else { return };
        let worker = &mut self.workers[w];
        if !worker.memory.table.is_current(&connection) {
            return;
        }
        if let Some(running) = worker.memory.table.running(&connection, |_| 0)
            && !worker.silent
        {
            self.report(stream, OutgoingReport::Attempt(WorkerReport::Running(running)));
        }
        self.report_running_later(w, stream);
    }
}
