//! What running activities may ask of the worker. Executors know this trait only, not the attempt manager.

use xavantes_model::value::Value;
use xavantes_proto::v1;

use crate::attempts::job::Job;

/// The worker, as an executor sees it.
pub(crate) trait ActivityHost: Send + Sync {
    /// An attempt ended.
    fn on_finished(&self, job: &Job, outcome: v1::answer::Outcome, usage: Option<v1::Usage>);

    /// Calls a shared object. Blocks until the reply is here.
    fn call(&self, job: &Job, call: v1::SharedCall) -> Result<Value, String>;

    /// Sends a printed line to the coordinator. Blocks while the coordinator does not keep up, so it must not be called
    /// on the runtime.
    fn print(&self, job: &Job, line: &str);
}
