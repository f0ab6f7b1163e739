//! The unfinished elements of a process that has ended, as a user who reopens it names them.

use xavantes_model::definition::Program;

use crate::element_id::ElementId;
use crate::rejection::Rejection;
use crate::state::EngineState;
use crate::state::body::Body;
use crate::state::unfinished::Unfinished;

impl EngineState {
    /// The process ended, and can go on.
    pub fn is_reopenable(&self) -> bool {
        self.ended.is_some() && self.root.is_some_and(|root| self.unfinished.contains_key(&root))
    }

    /// Checks that a path names the ended process, or an unfinished element in it. Otherwise the rejection says which part
    /// of the path does not.
    pub(crate) fn check_unfinished(&self, program: &Program, path: &str) -> Result<(), Rejection> {
        let rest = path.strip_prefix(&*self.process).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = rest else {
            return Err(Rejection::no_such_element(format!("{path:?} is not in process {:?}", self.process)));
        };
        if self.ended.is_none() {
            return Err(Rejection::not_possible(format!("{} has not ended", self.process)));
        }
        let root = self.root.filter(|_| self.is_reopenable()).and_then(|root| self.unfinished.get(&root));
        let Some(root) = root else {
            return Err(Rejection::not_possible(format!("{} completed: there is nothing to retry", self.process)));
        };
        let (mut around, mut so_far) = (&root.instance, self.process.to_string());
        for segment in rest.split('/').skip(1) {
            so_far = format!("{so_far}/{segment}");
            let found = around.unfinished.iter().filter_map(|id| self.unfinished.get(id)).find(|inner| {
                let site = program.node(inner.instance.site_process as usize, inner.instance.site);
                match &around.body {
                    Body::Loop(body) if site.tag == "ITERATE" => {
                        segment == format!("[{}]", body.range.counter(inner.instance.ordinal))
                    }
                    _ => *site.name == *segment,
                }
            });
            let Some(found) = found else {
                return Err(Rejection::no_such_element(format!(
                    "{so_far} did not fail, or the process went on without it; `retry {}` goes on with everything that \
                     failed or was cancelled",
                    self.process
                )));
            };
            around = &found.instance;
        }
        Ok(())
    }

    /// Removes the unfinished elements in an element. Returns the shared objects that nothing can reach any more.
    pub(crate) fn drop_unfinished(&mut self, mut pending: Vec<ElementId>) -> Vec<u64> {
        let mut unreachable = Vec::new();
        while let Some(id) = pending.pop() {
            let Some(Unfinished { instance, .. }) = self.unfinished.remove(&id) else { continue };
            self.resize(0, instance.bytes());
            pending.extend(instance.unfinished);
            unreachable.extend(instance.owned);
        }
        unreachable
    }
}
