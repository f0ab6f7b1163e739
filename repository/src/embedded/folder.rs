//! The folder of the embedded store: who may use it, which format it has, and how much room there is.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::{Error, random_name};

/// The format of the folder as a whole.
const FORMAT: u32 = 1;

/// What stays free on the disk.
const RESERVE: u64 = 64 * 1024 * 1024;

/// A folder that nobody else uses while this is there.
pub(super) struct Folder {
    path: PathBuf,
    pub(super) realm: String,
    /// Locked. The system takes the lock back when the program ends, however it ends.
    _lock: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Broken(format!("the data directory {}: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let path = &path.canonicalize().map_err(failed)?;
        // Before anything is changed.
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
                // Not everybody may look into the parent; but whoever made the folder in it just now may.
                let _ = path.parent().map(sync_folder);
                let realm = random_name();
                write_durably(path, "realm", &format!("{realm}\n")).map_err(failed)?;
                // Last: whatever has a format has a realm.
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

    /// How many bytes may be added.
    pub(super) fn room(&self) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(&self.path)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_sub(RESERVE))
    }

    /// There is no room for so much.
    pub(super) fn full(&self, bytes: u64) -> Error {
        let (reserve, path) = (RESERVE >> 20, self.path.display());
        Error::Unavailable(format!("with {bytes} bytes more less than {reserve} MiB are free on the disk of {path}"))
    }
}

/// Nothing if this is a new folder.
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
        _ => Err(Error::Broken(format!("{} does not tell a format: {text:?}", file.display()))),
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
            // If it cannot be read, the message is less precise.
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

/// Writes a file so that it is there as a whole or not at all.
fn write_durably(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let partial = folder.join(format!("{name}.partial"));
    let mut file = File::create(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, folder.join(name))?;
    sync_folder(folder)
}

/// What was made in a folder, or renamed, is durable after this.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
