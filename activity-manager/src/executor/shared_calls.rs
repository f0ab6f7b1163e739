//! The calls of shared objects that one attempt makes, one after the other. Lua code and programs make them in the same way.

use xavantes_model::shared_objects::Method;
use xavantes_model::value::{SharedRef, Value};
use xavantes_proto::{MAX_PAYLOAD_BYTES, Message, method_name, too_large, v1, value};

use super::host::ActivityHost;
use crate::attempts::job::Job;

/// Numbers the calls of an attempt, so that a repeated one takes effect once.
#[derive(Debug, Default)]
pub(crate) struct SharedCalls {
    /// The number of the last call that changes an object.
    last: u64,
}

impl SharedCalls {
    /// Calls a shared object. Blocks until the reply is here.
    pub fn call(
        &mut self,
        host: &dyn ActivityHost,
        job: &Job,
        object: &SharedRef,
        method: Method,
        arguments: &[Value],
    ) -> Result<Value, String> {
        let call = v1::SharedCall {
            id: Some(job.attempt.key.to_wire()),
            sequence: self.last + u64::from(method.changes()),
            acknowledged: self.last,
            object: Some(object.into()),
            method: method_name(object.kind, method).into(),
            arguments: arguments.iter().map(value).collect(),
            ticket: 0,
            caller: 0,
        };
        // A call that is never sent has no number: the coordinator expects numbers without gaps.
        let size = call.encoded_len();
        if size > MAX_PAYLOAD_BYTES {
            return Err(too_large("the arguments", size));
        }
        self.last = call.sequence;
        host.call(job, call)
    }
}
