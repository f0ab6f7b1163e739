//! Programs: the documents that users submitted. The repository stores them as long as it has a process of them. Loaded
//! programs stay in memory within a budget: those that no process uses go first, and are loaded again when they are needed.

pub(crate) mod definition_places;
mod type_names;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tonic::Status;
use tracing::{debug, warn};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::{LineIndex, Source};
use xavantes_model::load::{document_hash, load};
use xavantes_proto::message_limits::{MAX_URI_BYTES, check_count, check_line};
use xavantes_proto::programs::{CachedProgram, MAX_DOCUMENTS, ProgramCache, program_bytes, program_digest};
use xavantes_proto::{Message, v1};
use xavantes_repository::{Error, Store};

use type_names::TypeIndex;

/// Kind of the repository's documents that are programs.
const KIND: &str = "program";

/// Upper bound on the problems that one rejected submission reports.
const MAX_PROBLEMS: usize = 20;

/// Upper bound on the memory of loaded programs.
const MAX_PROGRAMS_BYTES: usize = 512 << 20;

/// Programs that are loaded at once. Loading takes much memory for a moment, and all of a processor.
const MAX_LOADING: usize = 2;

/// A program.
#[derive(Debug, Clone)]
pub(crate) struct LoadedProgram {
    /// Checked and resolved, for the engine.
    pub program: Arc<Program>,
    /// The documents, as workers get them.
    pub wire: Arc<v1::Program>,
}

impl LoadedProgram {
    /// An estimate of the memory that it takes.
    fn bytes(&self) -> usize {
        let documents = self.wire.documents.iter().map(|document| document.text.len()).sum();
        program_bytes(&self.program, documents) + documents
    }
}

impl CachedProgram for LoadedProgram {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

struct KnownPrograms {
    loaded: ProgramCache<LoadedProgram>,
    types: TypeIndex,
    /// Digests of the programs that the repository has.
    stored: HashSet<String>,
}

impl KnownPrograms {
    fn index(&mut self, loaded: &LoadedProgram) {
        if !self.types.add(&loaded.wire.digest, &loaded.program, &loaded.wire.documents) {
            debug!("the types of the oldest programs are not listed any more: there are too many");
        }
    }

    /// Adds a program that a process needs.
    fn add_needed(&mut self, loaded: &LoadedProgram) {
        self.index(loaded);
        self.loaded.add_needed(&loaded.wire.digest, loaded.clone(), loaded.bytes());
    }
}

/// All programs of a coordinator.
pub(crate) struct Programs {
    repository: Store,
    known: Mutex<KnownPrograms>,
    loading: Semaphore,
}

impl Programs {
    /// Reads the programs of the repository.
    pub async fn open(repository: Store) -> Result<Self, Error> {
        let loaded = ProgramCache::new(MAX_PROGRAMS_BYTES);
        let mut known = KnownPrograms { loaded, types: TypeIndex::default(), stored: HashSet::new() };
        for (digest, bytes) in repository.documents(KIND).await? {
            let program = v1::Program::decode(&*bytes).ok().filter(|program| program.digest == digest);
            match program.map(|program| load_documents(program.documents)) {
                Some(Ok(program)) => known.add_needed(&program),
                _ => warn!(digest, "stored program is not valid in this version"),
            }
            known.stored.insert(digest);
        }
        Ok(Self { repository, known: Mutex::new(known), loading: Semaphore::new(MAX_LOADING) })
    }

    /// Loads documents, unless they are loaded already.
    pub async fn add(&self, documents: Vec<v1::Document>) -> Result<LoadedProgram, Status> {
        check_count("the list of documents", documents.len(), MAX_DOCUMENTS)?;
        for document in &documents {
            check_line("the name of a document", &document.name, MAX_URI_BYTES)?;
        }
        if let Some(known) = self.find(&program_digest(&documents)) {
            return Ok(known);
        }
        let loaded = self.load(documents).await?;
        let mut known = self.known.lock();
        let added = known.loaded.add(&loaded.wire.digest, loaded.clone(), loaded.bytes());
        added.map_err(|problem| Status::resource_exhausted(problem.to_string()))?;
        known.index(&loaded);
        Ok(loaded)
    }

    /// Loads documents away from the threads that serve calls.
    async fn load(&self, documents: Vec<v1::Document>) -> Result<LoadedProgram, Status> {
        let shutting_down = || Status::unavailable("the node is shutting down");
        let _permit = self.loading.acquire().await.map_err(|_| shutting_down())?;
        tokio::task::spawn_blocking(|| load_documents(documents)).await.map_err(|_| shutting_down())?
    }

    fn find(&self, digest: &str) -> Option<LoadedProgram> {
        self.known.lock().loaded.get(digest).cloned()
    }

    /// A program in memory or in the repository, where another coordinator may have stored it.
    pub async fn fetch(&self, digest: &str) -> Result<Option<LoadedProgram>, Error> {
        if let Some(known) = self.find(digest) {
            return Ok(Some(known));
        }
        let Some(bytes) = self.repository.get(KIND, digest).await? else { return Ok(None) };
        let Ok(program) = v1::Program::decode(&*bytes) else { return Ok(None) };
        let Ok(loaded) = self.load(program.documents).await else { return Ok(None) };
        let mut known = self.known.lock();
        known.stored.insert(digest.to_owned());
        known.add_needed(&loaded);
        Ok(Some(loaded))
    }

    /// Reads the programs that other coordinators of the same repository have stored meanwhile.
    pub async fn refresh(&self) -> Result<(), Error> {
        for (digest, bytes) in self.repository.documents(KIND).await? {
            if !self.known.lock().stored.contains(&digest)
                && let Ok(program) = v1::Program::decode(&*bytes)
                && let Ok(loaded) = self.load(program.documents).await
            {
                let mut known = self.known.lock();
                known.stored.insert(digest);
                known.add_needed(&loaded);
            }
        }
        Ok(())
    }

    /// Makes sure that the repository has a program before it gets a process of that program.
    pub async fn store(&self, program: &v1::Program) -> Result<(), Error> {
        if self.known.lock().stored.contains(&program.digest) {
            return Ok(());
        }
        self.repository.put(KIND, &program.digest, program.encode_to_vec().into()).await?;
        self.known.lock().stored.insert(program.digest.clone());
        Ok(())
    }

    /// The document that defines a type and has this hash, which may be shortened.
    pub async fn find_document(&self, type_name: &str, hash: &str) -> Result<Option<v1::Document>, Error> {
        let is_meant = |it: &&v1::TypeDescription| it.name == type_name && it.hash.starts_with(hash);
        let digest = self.known.lock().types.all().find(is_meant).map(|it| it.digest.clone());
        let Some(digest) = digest else { return Ok(None) };
        let Some(loaded) = self.fetch(&digest).await? else { return Ok(None) };
        let mut documents = loaded.wire.documents.iter();
        Ok(documents.find(|document| document_hash(&document.text).starts_with(hash)).cloned())
    }

    /// All types that are known.
    pub fn types(&self) -> Vec<v1::TypeDescription> {
        self.known.lock().types.all().cloned().collect()
    }
}

#[allow(clippy::result_large_err)] // gRPC answers with a status.
fn load_documents(documents: Vec<v1::Document>) -> Result<LoadedProgram, Status> {
    let sources: Vec<Source> =
        documents.iter().map(|document| Source::new(document.name.as_str(), document.text.as_str())).collect();
    let program = load(&sources).map_err(|problems| {
        let first = problems.iter().filter(|problem| problem.is_error()).take(MAX_PROBLEMS).map(|problem| {
            let source = &sources[problem.span.source];
            let at = LineIndex::new(&source.text).position(&source.text, problem.span.bytes.start);
            format!("{}:{}:{}: {}", source.name, at.line, at.column, problem.message)
        });
        Status::invalid_argument(first.collect::<Vec<_>>().join("\n"))
    })?;
    let digest = program_digest(&documents);
    Ok(LoadedProgram { program: Arc::new(program), wire: Arc::new(v1::Program { digest, documents }) })
}
