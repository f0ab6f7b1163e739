//! Programs: documents that were submitted, loaded once, kept as long as a process is of them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tonic::Status;
use tracing::warn;
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::{LineIndex, Source};
use xavantes_model::load::load;
use xavantes_proto::{Message, v1};
use xavantes_repository::{Error, Store};

/// Documents of this kind are programs.
const KIND: &str = "program";

/// A program, loaded, and as it goes to workers.
pub(crate) type Loaded = (Arc<Program>, Arc<v1::Program>);

#[derive(Default)]
struct Shelf {
    /// By digest.
    programs: HashMap<String, Loaded>,
    /// Digests in the order in which they came.
    order: Vec<String>,
    /// Those that the repository has.
    kept: HashSet<String>,
}

/// All programs of a coordinator.
pub(crate) struct Programs {
    repository: Store,
    shelf: Mutex<Shelf>,
}

impl Programs {
    /// Those that were kept.
    pub async fn open(repository: Store) -> Result<Self, Error> {
        let mut shelf = Shelf::default();
        for (digest, bytes) in repository.documents(KIND).await? {
            let program = v1::Program::decode(&*bytes).ok().filter(|program| program.digest == digest);
            match program.map(|program| load_documents(program.documents)) {
                Some(Ok(loaded)) => shelf.add(loaded),
                _ => warn!(digest, "a program that was kept is not valid any more"),
            }
            shelf.kept.insert(digest);
        }
        Ok(Self { repository, shelf: Mutex::new(shelf) })
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Every change of it is one statement, so a poisoned lock is as good as another.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads documents, or finds that it has.
    #[allow(clippy::result_large_err)] // A status is what gRPC answers with.
    pub fn add(&self, documents: Vec<v1::Document>) -> Result<Loaded, Status> {
        if let Some(known) = self.find(&digest_of(&documents)) {
            return Ok(known);
        }
        let loaded = load_documents(documents)?;
        self.shelf().add(loaded.clone());
        Ok(loaded)
    }

    pub fn find(&self, digest: &str) -> Option<Loaded> {
        self.shelf().programs.get(digest).cloned()
    }

    /// One that another coordinator may have kept.
    pub async fn fetch(&self, digest: &str) -> Result<Option<Loaded>, Error> {
        if let Some(known) = self.find(digest) {
            return Ok(Some(known));
        }
        for (key, bytes) in self.repository.documents(KIND).await? {
            if key == digest
                && let Ok(program) = v1::Program::decode(&*bytes)
                && let Ok(loaded) = load_documents(program.documents)
            {
                self.shelf().kept.insert(key);
                self.shelf().add(loaded);
            }
        }
        Ok(self.find(digest))
    }

    /// Makes sure that a program is kept, before a process of it is.
    pub async fn keep(&self, program: &v1::Program) -> Result<(), Error> {
        if self.shelf().kept.contains(&program.digest) {
            return Ok(());
        }
        self.repository.put(KIND, &program.digest, program.encode_to_vec().into()).await?;
        self.shelf().kept.insert(program.digest.clone());
        Ok(())
    }

    /// All, with their digests.
    pub fn all(&self) -> Vec<(String, Arc<Program>)> {
        self.shelf().programs.iter().map(|(digest, (program, _))| (digest.clone(), program.clone())).collect()
    }

    /// The latest that defines a type.
    pub fn defining(&self, name: &str) -> Option<Arc<v1::Program>> {
        let defines = |program: &Program| {
            program.processes.iter().any(|it| *it.name == *name)
                || program.activities.iter().any(|it| *it.name == *name)
        };
        let shelf = self.shelf();
        let mut latest = shelf.order.iter().rev().filter_map(|digest| shelf.programs.get(digest));
        latest.find(|(program, _)| defines(program)).map(|(_, wire)| wire.clone())
    }
}

impl Shelf {
    fn add(&mut self, loaded: Loaded) {
        let digest = loaded.1.digest.clone();
        if self.programs.insert(digest.clone(), loaded).is_none() {
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

#[allow(clippy::result_large_err)] // A status is what gRPC answers with.
fn load_documents(documents: Vec<v1::Document>) -> Result<Loaded, Status> {
    let sources: Vec<Source> =
        documents.iter().map(|document| Source::new(document.name.as_str(), document.text.as_str())).collect();
    let program = load(&sources).map_err(|problems| {
        let first = problems.iter().take(20).map(|problem| {
            let source = &sources[problem.span.source];
            let at = LineIndex::new(&source.text).position(&source.text, problem.span.bytes.start);
            format!("{}:{}:{}: {}", source.name, at.line, at.column, problem.message)
        });
        Status::invalid_argument(first.collect::<Vec<_>>().join("\n"))
    })?;
    let digest = digest_of(&documents);
    Ok((Arc::new(program), Arc::new(v1::Program { digest, documents })))
}
