//! `ESTIMATE` of an activity: its expressions see what the bindings of the activity see, the scope around it. They do not
//! make the engine keep results, because an estimate never changes how a process runs.

use std::ops::Range;

use super::linker::Linker;
use super::nodes::CallSignature;
use super::scope::CodePlace;
use crate::definition::{DefinitionNodeId, EstimateCode, EstimateInput};
use crate::load::estimate::{EstimateCompiler, read_estimate};
use crate::load::report::LoadReport;
use crate::load::template::Piece;
use crate::value::Type;
use crate::xml::Attribute;

impl Linker<'_> {
    /// Reads the `ESTIMATE` of an activity.
    pub fn estimate(&mut self, id: DefinitionNodeId) {
        let (document, types, draft) = (self.document, self.types, &self.drafts[id.index()]);
        let parameters = match draft.signature {
            CallSignature::Activity(activity) => Some(&types.activities[activity].parameters),
            _ => None,
        };
        let (xml, Some(scope)) = (draft.xml, self.nodes[id.index()].parent) else { return };
        let mut compiler = ScopeCompiler { linker: self, scope };
        let estimate = read_estimate(document, xml, parameters, &mut compiler);
        self.nodes[id.index()].estimate = estimate;
    }
}

struct ScopeCompiler<'l, 'a> {
    linker: &'l mut Linker<'a>,
    scope: DefinitionNodeId,
}

impl EstimateCompiler for ScopeCompiler<'_, '_> {
    fn report(&mut self) -> &mut LoadReport {
        self.linker.report
    }

    fn check_number(&mut self, attribute: &Attribute, range: Range<usize>) {
        self.linker.check_type(attribute, range, Type::Float, false);
    }

    fn compile(&mut self, attribute: &Attribute, pieces: &[Piece]) -> Option<EstimateCode> {
        let (script, _) = self.linker.joined_script(&[(attribute, pieces)], self.scope, CodePlace::Other);
        let script = script?;
        Some(EstimateCode { code: script.code, inputs: script.inputs.into_iter().map(EstimateInput::Around).collect() })
    }
}
