//! Activities become tasks: their seconds, the files that they read and write.

use std::collections::BTreeSet;
use std::rc::Rc;

use xavantes_model::definition::{ActivityType, Assumptions as Estimated, DefinitionNode, EstimateInput, FileAccess};
use xavantes_model::value::{Type, Value};
use xavantes_scheduling::problem::Work;

use super::{Error, Walk, WalkContext};
use crate::assumption::Assumed;
use crate::forecast::{Basis, TaskKind};
use crate::graph::{Frontier, GraphTask};
use crate::known_values::{Known, Scopes};
use crate::past_runs::Circumstances;

impl Walk<'_> {
    pub(super) fn activity(
        &mut self,
        scopes: &Scopes,
        node: &DefinitionNode,
        activity: usize,
        mut values: Vec<Known>,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<(Frontier, Vec<Known>), Error> {
        let of_type = &self.program.activities[activity];
        let estimated = self.estimated(scopes, node, &values)?;
        let (mut reads, mut circumstances) = (BTreeSet::new(), Circumstances::new());
        for (slot, variable) in of_type.parameters.iter().enumerate().filter(|(_, it)| it.direction.is_in()) {
            let size = size_of(&estimated, slot);
            let read = self.files_of(&values[slot], variable.ty, size);
            if let Some(value) = values[slot].value() {
                circumstances.parameter(&variable.name, value);
            }
            if !read.is_empty() || size.is_some() {
                let bytes = read.iter().map(|file| self.graph.bytes(*file)).sum::<f64>();
                circumstances.bytes(&variable.name, size.unwrap_or(bytes));
            }
            reads.extend(read);
        }
        let (work, basis) = self.work(of_type, &estimated, &circumstances, context);
        let name = self.path.join("/");
        let mut writes = Vec::new();
        for (slot, variable) in of_type.parameters.iter().enumerate().filter(|(_, it)| it.direction.is_out()) {
            let declared = of_type.files.outputs.iter().any(|output| output.slot as usize == slot);
            let is_file = matches!(variable.ty, Some(Type::File | Type::Directory));
            let size = size_of(&estimated, slot);
            if !is_file && !declared && size.is_none() {
                values[slot] = Known::later();
                continue;
            }
            let predicted = || self.options.histories.bytes(&of_type.name, &variable.name, &circumstances);
            let bytes = size.or_else(|| predicted().map(|prediction| prediction.mean)).unwrap_or(0.0);
            let file = self.graph.new_file(format!("{name}:{}", variable.name), bytes * context.times as f64);
            writes.push(file);
            values[slot] = Known::Later(Rc::new(BTreeSet::from([file])));
        }
        for file in &estimated.files {
            let id = self.graph.shared_file(&file.name, file.bytes);
            match file.access {
                FileAccess::Read => drop(reads.insert(id)),
                FileAccess::Write => writes.push(id),
            }
        }
        let kind = TaskKind::Activity {
            activity: of_type.name.clone(),
            requires: of_type.requires.clone(),
            iterations: context.times,
            basis,
        };
        let cores = of_type.requires.cpus.max(1);
        let reads = reads.into_iter().collect();
        let exit = self.graph.add(GraphTask { name, kind, work, cores, after: entry, reads, writes });
        Ok((exit, values))
    }

    /// The estimate of the activity, as far as what it depends on is known.
    fn estimated(&mut self, scopes: &Scopes, node: &DefinitionNode, values: &[Known]) -> Result<Estimated, Error> {
        let estimate = self.program.estimate(node);
        let value = |input: EstimateInput| {
            let known = match input {
                EstimateInput::Parameter(slot) => values.get(slot as usize).cloned(),
                EstimateInput::Around(input) => Some(scopes.read(input)),
            };
            known.and_then(|known| known.value().cloned())
        };
        estimate.evaluate(&mut self.evaluator.sandbox, value).map_err(|error| Error::Estimate {
            path: self.path.join("/"),
            line: error.line,
            message: error.message,
        })
    }

    /// Files that a value refers to.
    fn files_of(&mut self, value: &Known, ty: Option<Type>, size: Option<f64>) -> BTreeSet<u32> {
        let mut files = BTreeSet::new();
        match value {
            Known::Value(value) => {
                let mut found = Vec::new();
                value.each_file(&mut |file| found.push(file.clone()));
                for file in found {
                    let bytes = file.content.as_ref().map(|content| content.size as f64);
                    files.insert(self.graph.shared_file(&file.uri, bytes.or(size)));
                }
            }
            // A number may have been computed from a file; the file does not travel with it.
            Known::Later(_) if matches!(ty, Some(Type::Int | Type::Float | Type::Boolean)) => {}
            Known::Later(sources) => files.extend(sources.iter()),
        }
        files
    }

    /// Seconds from the estimate, else from past runs, else by default.
    fn work(
        &mut self,
        of_type: &ActivityType,
        estimated: &Estimated,
        circumstances: &Circumstances,
        context: WalkContext,
    ) -> (Work, Basis) {
        let times = context.times as f64;
        let needs_gpu = of_type.requires.gpus > 0;
        let work = |cpu: Option<f64>, gpu: Option<f64>| match needs_gpu {
            true => Work { cpu: None, gpu: gpu.or(cpu).map(|seconds| seconds * times) },
            false => Work { cpu: cpu.map(|seconds| seconds * times), gpu: gpu.map(|seconds| seconds * times) },
        };
        if estimated.seconds.is_some() || estimated.gpu_seconds.is_some() {
            return (work(estimated.seconds, estimated.gpu_seconds), Basis::Estimate);
        }
        if let Some(prediction) = self.options.histories.seconds(&of_type.name, circumstances) {
            return (work(Some(prediction.mean.max(0.0)), None), Basis::History);
        }
        let seconds = self.options.seconds;
        self.assume(Assumed::Seconds { activity: of_type.name.to_string(), seconds });
        (work(Some(seconds), None), Basis::Default)
    }
}

fn size_of(estimated: &Estimated, slot: usize) -> Option<f64> {
    estimated.sizes.iter().find(|(other, _)| *other as usize == slot).map(|(_, bytes)| *bytes)
}

/// The items of a list that is known.
pub(super) fn items(value: &Known) -> Option<std::sync::Arc<Vec<Value>>> {
    match value {
        Known::Value(Value::List(items)) => Some(items.clone()),
        _ => None,
    }
}
