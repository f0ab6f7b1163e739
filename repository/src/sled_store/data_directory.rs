//! The data directory of the sled store: its lock, its format and its free space.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::names::random_name;

/// Format of the directory as a whole.
const FORMAT: u32 = 1;

/// Bytes that stay free on the disk.
const RESERVED_BYTES: u64 = 64 * 1024 * 1024;

/// A data directory that no other store uses while this value exists.
pub(super) struct DataDirectory {
    path: PathBuf,
    pub(super) realm: String,
    /// Locked file. The system releases the lock when the program ends in any way.
    _lock: File,
}

impl DataDirectory {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Broken(format!("the data directory {}: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let path = &path.canonicalize().map_err(failed)?;
        // Refuse a newer format before the lock file changes the directory.
        let format = read_format(path)?;
        let lock = lock(path)?;
        let realm = match format {
            Some(()) => fs::read_to_string(path.join("realm"))
                .ok()
                .filter(|realm| !realm.is_empty())
                .ok_or_else(|| {
                    let path = path.display();
                    Error::Broken(format!("{path}/realm cannot be read: restore the data directory from a backup"))
                })?
                .trim()
                .to_owned(),
            None => {
                // Opening the parent may be forbidden; then this program did not create the directory in it either.
                let _ = path.parent().map(sync_directory);
                let realm = random_name();
                write_durably(path, "realm", &format!("{realm}\n")).map_err(failed)?;
                // The format comes last, so that a directory with a format has a realm.
                write_durably(path, "format", &format!("{FORMAT}\n")).map_err(failed)?;
                realm
            }
        };
        Ok(Self { path: path.clone(), realm, _lock: lock })
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join("db")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    /// Bytes that the store may still add.
    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(&self.path)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_sub(RESERVED_BYTES))
    }

    /// The error of a change for which the disk has no space.
    pub(super) fn full(&self, bytes: u64) -> Error {
        let (reserve, path) = (RESERVED_BYTES >> 20, self.path.display());
        Error::Unavailable(format!("with {bytes} bytes more less than {reserve} MiB are free on the disk of {path}"))
    }
}

/// Checks the format. `None` if the directory is new.
fn read_format(path: &Path) -> Result<Option<()>, Error> {
    let file = path.join("format");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::Broken(format!("{}: {error}", file.display()))),
    };
    match text.trim().parse::<u32>() {
        Ok(FORMAT) => Ok(Some(())),
        Ok(newer) if newer > FORMAT => Err(Error::Broken(format!(
            "the data directory {} has format {newer}; this version of Xavantes knows formats up to {FORMAT}: use a newer one",
            path.display()
        ))),
        _ => Err(Error::Broken(format!(
            "{} is not a format number: {text:?}; restore the data directory from a backup",
            file.display()
        ))),
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join("lock");
    let failed = |error: io::Error| Error::Broken(format!("{}: {error}", name.display()));
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&name).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // If reading fails, the message lacks the number of the process.
            let _ = file.read_to_string(&mut holder);
            return Err(Error::Broken(format!(
                "the data directory {} is in use by another node (process {})",
                path.display(),
                holder.trim()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
    Ok(file)
}

/// Writes a file atomically and durably.
fn write_durably(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let partial = directory.join(format!("{name}.partial"));
    let mut file = File::create(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, directory.join(name))?;
    sync_directory(directory)
}

/// Makes the creation and renaming of files in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
