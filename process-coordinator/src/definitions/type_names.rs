//! The names of all types that submitted documents define. They stay when the programs themselves do not stay in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use xavantes_model::definition::Program;
use xavantes_model::load::document_hash;
use xavantes_proto::v1;

/// Upper bound on the remembered types. Those of the oldest programs go first.
const MAX_TYPES: usize = 50_000;

struct ProgramTypes {
    digest: Arc<str>,
    types: Vec<v1::TypeDescription>,
}

/// Types by program, in the order in which the programs arrived.
#[derive(Default)]
pub(crate) struct TypeIndex {
    programs: VecDeque<ProgramTypes>,
    count: usize,
}

impl TypeIndex {
    /// Adds the types of a program. Returns false if types of older programs had to go.
    pub fn add(&mut self, digest: &str, program: &Program, documents: &[v1::Document]) -> bool {
        if self.programs.iter().any(|known| *known.digest == *digest) {
            return true;
        }
        let hashes: Vec<String> = documents.iter().map(|document| document_hash(&document.text)).collect();
        let describe = |name: &Arc<str>, kind: v1::TypeKind, source: usize| v1::TypeDescription {
            name: name.to_string(),
            kind: kind.into(),
            digest: digest.to_owned(),
            document: program.sources.get(source).map_or_else(String::new, |name| name.to_string()),
            hash: hashes.get(source).cloned().unwrap_or_default(),
        };
        let processes = program.processes.iter().map(|it| describe(&it.name, v1::TypeKind::Process, it.source));
        let activities = program.activities.iter().map(|it| describe(&it.name, v1::TypeKind::Activity, it.source));
        let types: Vec<_> = processes.chain(activities).take(MAX_TYPES).collect();
        self.count += types.len();
        self.programs.push_back(ProgramTypes { digest: digest.into(), types });
        let fits = self.count <= MAX_TYPES;
        while self.count > MAX_TYPES
            && let Some(oldest) = self.programs.pop_front()
        {
            self.count -= oldest.types.len();
        }
        fits
    }

    /// All types.
    pub fn all(&self) -> impl Iterator<Item = &v1::TypeDescription> {
        self.programs.iter().flat_map(|program| &program.types)
    }
}

#[cfg(test)]
mod tests {
    use xavantes_model::definition::ProcessType;

    use super::*;

    fn program(names: impl IntoIterator<Item = String>) -> Program {
        let process =
            |name: String| ProcessType { name: name.into(), source: 0, line: 1, parameters: 0, nodes: Vec::new() };
        Program { processes: names.into_iter().map(process).collect(), ..Program::default() }
    }

    #[test]
    fn the_types_of_the_oldest_programs_go_first() {
        let mut index = TypeIndex::default();
        let many = |prefix: &'static str| program((0..MAX_TYPES / 2).map(move |number| format!("{prefix}{number}")));
        assert!(index.add("1", &many("a"), &[]) && index.add("1", &many("a"), &[]) && index.add("2", &many("b"), &[]));
        assert!(index.add("3", &program([]), &[]));
        let digests = |index: &TypeIndex, name: &str| -> Vec<String> {
            index.all().filter(|it| it.name == name).map(|it| it.digest.clone()).collect()
        };
        assert_eq!(digests(&index, "a7"), ["1"]);
        assert!(!index.add("4", &program(["b7".to_owned()]), &[]), "the limit is reached");
        assert_eq!((digests(&index, "a7"), digests(&index, "b7")), (Vec::new(), vec!["2".to_owned(), "4".to_owned()]));
        assert_eq!(index.all().count(), MAX_TYPES / 2 + 1);
    }
}
