//! Programs: the documents that users submitted, loaded once and stored as long as the repository has a process of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tonic::Status;
use tracing::warn;
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::{LineIndex, Source};
use xavantes_model::load::load;
use xavantes_proto::{Message, v1};
use xavantes_repository::{Error, Store};

/// Kind of the repository's documents that are programs.
const KIND: &str = "program";

/// Upper bound on the problems that one rejected submission reports.
const MAX_PROBLEMS: usize = 20;

/// A program.
#[derive(Clone)]
pub(crate) struct LoadedProgram {
    /// Checked and resolved, for the engine.
    pub program: Arc<Program>,
    /// The documents, as workers get them.
    pub wire: Arc<v1::Program>,
}

#[derive(Default)]
struct LoadedPrograms {
    by_digest: HashMap<String, LoadedProgram>,
    /// Digests in the order in which the programs arrived.
    order: Vec<String>,
    /// Digests of the programs that the repository has.
    stored: HashSet<String>,
}

/// All programs of a coordinator.
pub(crate) struct Programs {
    repository: Store,
    loaded: Mutex<LoadedPrograms>,
}

impl Programs {
    /// Loads the programs of the repository.
    pub async fn open(repository: Store) -> Result<Self, Error> {
        let mut loaded = LoadedPrograms::default();
        for (digest, bytes) in repository.documents(KIND).await? {
            let program = v1::Program::decode(&*bytes).ok().filter(|program| program.digest == digest);
            match program.map(|program| load_documents(program.documents)) {
                Some(Ok(program)) => loaded.add(program),
                _ => warn!(digest, "stored program is not valid in this version"),
            }
            loaded.stored.insert(digest);
        }
        Ok(Self { repository, loaded: Mutex::new(loaded) })
    }

    /// Loads documents, unless they are loaded already.
    #[allow(clippy::result_large_err)] // gRPC answers with a status.
    pub fn add(&self, documents: Vec<v1::Document>) -> Result<LoadedProgram, Status> {
        if let Some(known) = self.find(&digest_of(&documents)) {
            return Ok(known);
        }
        let loaded = load_documents(documents)?;
        self.loaded.lock().add(loaded.clone());
        Ok(loaded)
    }

    pub fn find(&self, digest: &str) -> Option<LoadedProgram> {
        self.loaded.lock().by_digest.get(digest).cloned()
    }

    /// A program that another coordinator of the same repository may have stored.
    pub async fn fetch(&self, digest: &str) -> Result<Option<LoadedProgram>, Error> {
        if let Some(known) = self.find(digest) {
            return Ok(Some(known));
        }
        for (key, bytes) in self.repository.documents(KIND).await? {
            if key == digest
                && let Ok(program) = v1::Program::decode(&*bytes)
                && let Ok(loaded) = load_documents(program.documents)
            {
                self.loaded.lock().stored.insert(key);
                self.loaded.lock().add(loaded);
            }
        }
        Ok(self.find(digest))
    }

    /// Loads the programs that other coordinators of the same repository have stored meanwhile.
    pub async fn refresh(&self) -> Result<(), Error> {
        for (digest, bytes) in self.repository.documents(KIND).await? {
            if self.find(&digest).is_none()
                && let Ok(program) = v1::Program::decode(&*bytes)
                && let Ok(program) = load_documents(program.documents)
            {
                let mut loaded = self.loaded.lock();
                loaded.stored.insert(digest);
                loaded.add(program);
            }
        }
        Ok(())
    }

    /// Makes sure that the repository has a program before it gets a process of that program.
    pub async fn store(&self, program: &v1::Program) -> Result<(), Error> {
        if self.loaded.lock().stored.contains(&program.digest) {
            return Ok(());
        }
        self.repository.put(KIND, &program.digest, program.encode_to_vec().into()).await?;
        self.loaded.lock().stored.insert(program.digest.clone());
        Ok(())
    }

    /// All programs, with their digests.
    pub fn all(&self) -> Vec<(String, Arc<Program>)> {
        let loaded = self.loaded.lock();
        loaded.by_digest.iter().map(|(digest, it)| (digest.clone(), it.program.clone())).collect()
    }

    /// The latest program that defines a type.
    pub fn defining(&self, name: &str) -> Option<Arc<v1::Program>> {
        let defines = |program: &Program| {
            program.processes.iter().any(|it| *it.name == *name)
                || program.activities.iter().any(|it| *it.name == *name)
        };
        let loaded = self.loaded.lock();
        let mut latest = loaded.order.iter().rev().filter_map(|digest| loaded.by_digest.get(digest));
        latest.find(|it| defines(&it.program)).map(|it| it.wire.clone())
    }
}

impl LoadedPrograms {
    fn add(&mut self, loaded: LoadedProgram) {
        let digest = loaded.wire.digest.clone();
        if self.by_digest.insert(digest.clone(), loaded).is_none() {
            self.order.push(digest);
        }
    }
}

fn digest_of(documents: &[v1::Document]) -> String {
    let mut hasher = blake3::Hasher::new();
    for document in documents {
        for part in [&document.name, &document.text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[allow(clippy::result_large_err)] // gRPC answers with a status.
fn load_documents(documents: Vec<v1::Document>) -> Result<LoadedProgram, Status> {
    let sources: Vec<Source> =
        documents.iter().map(|document| Source::new(document.name.as_str(), document.text.as_str())).collect();
    let program = load(&sources).map_err(|problems| {
        let first = problems.iter().take(MAX_PROBLEMS).map(|problem| {
            let source = &sources[problem.span.source];
            let at = LineIndex::new(&source.text).position(&source.text, problem.span.bytes.start);
            format!("{}:{}:{}: {}", source.name, at.line, at.column, problem.message)
        });
        Status::invalid_argument(first.collect::<Vec<_>>().join("\n"))
    })?;
    let digest = digest_of(&documents);
    Ok(LoadedProgram { program: Arc::new(program), wire: Arc::new(v1::Program { digest, documents }) })
}
