//! Opening the store: reads the witness, opens sled, notices what is lost, and saves what can be read.
//!
//! Damage never keeps the store from opening. If sled dropped the end of its log, or cannot open or read its files, they
//! move to a directory `damaged-…`, and the store fills a new database with the records that sled or the salvage finds. A
//! process whose acknowledged records are not all there afterwards is damaged: it can be listed and forgotten, not loaded.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::blobs::Blobs;
use super::database::Database;
use super::evidence::Evidence;
use super::frame::TreeId;
use super::index_recovery::{Recovered, recover};
use super::record_index::RecordIndex;
use super::salvage::{self, DatabaseBytes};
use super::store_directory::DataDirectory;
use super::store_failure::classify;
use super::witness::{WitnessFile, WitnessNote, WitnessedRecords};
use crate::error::Error;

/// Size up to which the bytes of a database stay in memory while it opens, because sled overwrites the log behind damage.
const MAX_IMAGE_BYTES: u64 = 64 << 20;

/// A store that has been opened.
pub(super) struct OpenedStore {
    pub(super) database: Database,
    pub(super) blobs: Blobs,
    pub(super) recovered: Recovered,
    pub(super) witness: WitnessFile,
    pub(super) findings: Findings,
}

/// What was wrong when the store opened, besides damaged processes and documents.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The witness was missing.
    pub(super) witness_missing: bool,
    /// A part of the witness could not be read.
    pub(super) witness_damaged: bool,
    /// Commits that the witness knows were missing in the database.
    pub(super) rolled_back: bool,
    /// Why sled could not open or read its files.
    pub(super) unreadable: Option<String>,
    /// Where the damaged files are now.
    pub(super) moved_to: Option<PathBuf>,
    /// Records that the salvage found.
    pub(super) restored: u64,
}

/// Opens the store in a directory.
pub(super) fn open(directory: &mut DataDirectory) -> Result<OpenedStore, Error> {
    let boot = boot_id();
    let mut findings = Findings::default();
    let state = read_witness(directory, &mut findings)?;
    let state = state.as_ref();
    directory.settle_realm(state.and_then(|state| state.realm.as_deref()))?;
    let image = read_image(&directory.database().join("db")).map(DatabaseBytes::Memory);
    let opened = without_panics(|| open_database(directory, state, &boot, image.as_ref(), &mut findings));
    let (database, blobs, mut recovered) = match opened {
        Err(Error::Corrupt(problem)) => {
            tracing::error!(problem, "the database cannot be read; saving what can be read to a new one");
            findings.unreadable = Some(problem);
            without_panics(|| rebuild(directory, state, image.as_ref(), &mut findings))?
        }
        opened => opened?,
    };
    for (id, entry) in recovered.index.iter() {
        entry.damage.iter().for_each(|damage| tracing::error!("{}", damage.error(id)));
    }
    if !recovered.damaged_documents.is_empty() {
        let documents = recovered.damaged_documents.join(", ");
        tracing::error!(documents, "documents are damaged or missing; their owners make them again if they can");
    }
    // The numbers of lost records are not used again, and the database must not be behind the witness that follows.
    let last_commit = database.last_commit()?;
    recovered.sequence = recovered.sequence.max(last_commit).max(state.map_or(0, |state| state.sequence));
    if last_commit < recovered.sequence {
        database.set_last_commit(recovered.sequence)?;
        sync(&database)?;
    }
    let mut witness = WitnessFile::new(directory.witness());
    let opened = WitnessNote::Opened { realm: &directory.realm, boot: &boot };
    let notes = notes(opened, recovered.next_number, &recovered.index, &recovered.documents);
    witness
        .rewrite(recovered.sequence, notes)
        .map_err(|error| classify(&error, format!("{}: {error}", directory.witness().display())))?;
    directory.finish()?;
    Ok(OpenedStore { database, blobs, recovered, witness, findings })
}

/// Reads the witness. A witness that cannot be read moves aside.
fn read_witness(directory: &DataDirectory, findings: &mut Findings) -> Result<Option<WitnessedRecords>, Error> {
    let path = directory.witness();
    match WitnessFile::read(&path) {
        Ok(Some(state)) => {
            if state.is_damaged {
                findings.witness_damaged = true;
                tracing::error!(path = %path.display(), "a part of the witness is damaged; what it said cannot be checked");
            }
            Ok(Some(state))
        }
        Ok(None) => {
            findings.witness_missing = directory.had_witness();
            if findings.witness_missing {
                tracing::error!(
                    path = %path.display(),
                    "the witness is missing; it cannot be checked whether the database is complete"
                );
            }
            Ok(None)
        }
        Err(error) => {
            findings.witness_damaged = true;
            let text = format!("{}: {error}", path.display());
            match classify(&error, text) {
                Error::Corrupt(problem) => {
                    let moved_to =
                        move_aside(directory, &path).map_err(|error| Error::Broken(format!("{problem}; {error}")))?;
                    tracing::error!(problem, moved_to = %moved_to.display(), "the witness cannot be read");
                    Ok(None)
                }
                error => Err(error),
            }
        }
    }
}

/// The bytes of a small database file, before sled changes it.
fn read_image(file: &Path) -> Option<Vec<u8>> {
    let length = fs::metadata(file).ok()?.len();
    if length > MAX_IMAGE_BYTES { None } else { fs::read(file).ok() }
}

/// Opens the database with sled. If records are missing, moves it aside and fills a new one with its records and with those
/// that are still in the file: sled may lose records that it adds to a log with a damaged part.
fn open_database(
    directory: &DataDirectory,
    state: Option<&WitnessedRecords>,
    boot: &str,
    image: Option<&DatabaseBytes>,
    findings: &mut Findings,
) -> Result<(Database, Blobs, Recovered), Error> {
    let mut database = Database::open(directory)?;
    let evidence = Evidence::new(state, database.last_commit()?, boot);
    if evidence.is_rolled_back() {
        findings.rolled_back = true;
        tracing::error!(path = %database.file().display(), "the database lacks records that it had acknowledged");
        database = replace(directory, state, image, Some(&database), findings)?;
    }
    let mut blobs = open_blobs(directory)?;
    let mut recovered = recover(&database, &mut blobs, &evidence)?;
    if recovered.has_new_damage && !findings.rolled_back {
        findings.rolled_back = true;
        tracing::error!(path = %database.file().display(), "the database lacks records that it had acknowledged");
        database = replace(directory, state, image, Some(&database), findings)?;
        blobs = open_blobs(directory)?;
        recovered = recover(&database, &mut blobs, &evidence)?;
    }
    Ok((database, blobs, recovered))
}

/// Moves a database that sled cannot open or read aside, and fills a new one with the records that can be found.
fn rebuild(
    directory: &DataDirectory,
    state: Option<&WitnessedRecords>,
    image: Option<&DatabaseBytes>,
    findings: &mut Findings,
) -> Result<(Database, Blobs, Recovered), Error> {
    let database = replace(directory, state, image, None, findings)?;
    let mut blobs = open_blobs(directory)?;
    let recovered = recover(&database, &mut blobs, &Evidence::of_salvage(state))?;
    Ok((database, blobs, recovered))
}

/// Moves the database aside. Returns a new one with the records of the old one, if it is open, and with those that are in
/// its file.
fn replace(
    directory: &DataDirectory,
    state: Option<&WitnessedRecords>,
    image: Option<&DatabaseBytes>,
    old: Option<&Database>,
    findings: &mut Findings,
) -> Result<Database, Error> {
    let path = directory.database();
    let failed = |error: io::Error| classify(&error, format!("cannot save the records of {}: {error}", path.display()));
    let aside = new_damaged_directory(directory).map_err(failed)?;
    let moved = aside.join("db");
    fs::rename(&path, &moved).map_err(failed)?;
    if let Some(DatabaseBytes::Memory(image)) = image {
        fs::write(aside.join("db-before-opening"), image).map_err(failed)?;
    }
    let file = match (image, File::open(moved.join("db"))) {
        (Some(_), _) => None,
        (None, Ok(file)) => Some(DatabaseBytes::File(file)),
        (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => None,
        (None, Err(error)) => return Err(failed(error)),
    };
    let database = Database::open(directory)?;
    if let Some(old) = old {
        for tree in TreeId::ALL {
            old.for_each(tree, |key, value| database.insert(tree, key, value))?;
        }
    }
    for bytes in image.into_iter().chain(&file) {
        findings.restored += salvage::restore(bytes, state, &database)?;
    }
    tracing::warn!(moved_to = %aside.display(), records = findings.restored, "moved the damaged database aside and saved its records");
    findings.moved_to = Some(aside);
    Ok(database)
}

fn open_blobs(directory: &DataDirectory) -> Result<Blobs, Error> {
    let path = directory.blobs();
    Blobs::open(path.clone()).map_err(|error| classify(&error, format!("{}: {error}", path.display())))
}

/// sled panics on some damage. Nothing that the panicking code used is used afterwards.
fn without_panics<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Error::Corrupt(format!("the database is damaged: {}", text.unwrap_or("sled panicked"))))
    })
}

/// Moves a file or directory to a new directory for damaged files. Returns its new path.
fn move_aside(directory: &DataDirectory, path: &Path) -> io::Result<PathBuf> {
    let to = new_damaged_directory(directory)?.join(path.file_name().unwrap_or_default());
    fs::rename(path, &to)?;
    Ok(to)
}

fn new_damaged_directory(directory: &DataDirectory) -> io::Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut attempt = 0;
    loop {
        let path = directory.path().join(format!("damaged-{now}-{attempt}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
            created => return created.map(|()| path),
        }
    }
}

/// Makes everything in a database durable.
pub(super) fn sync(database: &Database) -> Result<(), Error> {
    database.flush()?;
    let synced = File::open(database.file()).and_then(|file| file.sync_data());
    synced.map_err(|error| classify(&error, format!("{}: {error}", database.file().display())))
}

/// The notes of a witness about everything in a store.
pub(super) fn notes<'a>(
    opened: WitnessNote<'a>,
    next_number: u64,
    processes: &'a RecordIndex,
    documents: &'a HashMap<Vec<u8>, u64>,
) -> impl Iterator<Item = WitnessNote<'a>> {
    let processes = processes.iter().map(|(id, entry)| WitnessNote::Process { id, mark: entry.mark });
    let documents = documents.iter().map(|(key, sequence)| WitnessNote::Document { key, sequence: *sequence });
    [opened, WitnessNote::NextNumber(next_number)].into_iter().chain(processes).chain(documents)
}

/// Name of the present boot of the machine.
pub(super) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
