//! The data directory of the sled store: its lock, its format, its realm and its free space.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::store_failure::classify;
use crate::error::Error;
use crate::names::random_name;

/// Format of the directory as a whole.
const FORMAT: u32 = 2;
/// Format without a witness, and without checksums in the files `format` and `realm`.
const FIRST_FORMAT: u32 = 1;

/// Bytes that stay free on the disk.
const RESERVED_BYTES: u64 = 64 * 1024 * 1024;

/// A data directory that no other store uses while this value exists.
pub(super) struct DataDirectory {
    path: PathBuf,
    /// Valid after [`settle_realm`](Self::settle_realm).
    pub(super) realm: String,
    /// `None` if the directory is new.
    format: Option<u32>,
    /// Locked file. The system releases the lock when the program ends in any way.
    _lock: File,
}

impl DataDirectory {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error: io::Error| classify(&error, format!("the data directory {}: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let path = &path.canonicalize().map_err(failed)?;
        // Refuse a newer format before the lock file changes the directory.
        let format = read_format(path)?;
        let lock = lock(path)?;
        Ok(Self { path: path.clone(), realm: String::new(), format, _lock: lock })
    }

    /// Finds the realm, which the witness may know, too. A directory without one gets a new one.
    pub(super) fn settle_realm(&mut self, witnessed: Option<&str>) -> Result<(), Error> {
        let file = self.path.join("realm");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let old_realm = || {
            let realm = text.trim();
            (realm.len() == 32 && realm.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| realm.to_owned())
        };
        let stored = checked(&text).map(str::to_owned);
        if stored.is_none() && self.format == Some(FORMAT) {
            tracing::error!(path = %file.display(), known = witnessed.is_some(), "the realm is damaged or missing");
        }
        self.realm = stored.or(witnessed.map(str::to_owned)).or_else(old_realm).unwrap_or_else(random_name);
        if checked(&text) != Some(&self.realm) {
            if self.format.is_none() {
                // Opening the parent may be forbidden; then this program did not create the directory in it either.
                let _ = self.path.parent().map(sync_directory);
            }
            self.write("realm", &self.realm)?;
        }
        Ok(())
    }

    /// Records that the directory has the present format. This comes last, so that a directory with a format is complete.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        if self.format != Some(FORMAT) {
            self.write("format", &FORMAT.to_string())?;
            self.format = Some(FORMAT);
        }
        Ok(())
    }

    fn write(&self, name: &str, value: &str) -> Result<(), Error> {
        let text = format!("{value} {:08x}\n", crc32fast::hash(value.as_bytes()));
        write_durably(&self.path, name, &text)
            .map_err(|error| classify(&error, format!("{}/{name}: {error}", self.path.display())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether an earlier store in this directory must have left a witness.
    pub(super) fn had_witness(&self) -> bool {
        self.format == Some(FORMAT)
    }

    pub(super) fn witness(&self) -> PathBuf {
        self.path.join("witness")
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

    /// Whether the disk has this much space, with the reserve. True if nobody can tell.
    pub(super) fn has_room_for(&self, bytes: u64) -> bool {
        rustix::fs::statvfs(&self.path).map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= bytes)
    }

    /// The error of a change for which the disk has no space.
    pub(super) fn full(&self, bytes: u64) -> Error {
        let (reserve, path) = (RESERVED_BYTES >> 20, self.path.display());
        Error::Unavailable(format!("with {bytes} bytes more less than {reserve} MiB are free on the disk of {path}"))
    }
}

/// Reads the format. `None` if the directory is new. A format that cannot be read is taken for the present one.
fn read_format(path: &Path) -> Result<Option<u32>, Error> {
    let file = path.join("format");
    let text = match fs::read(&file) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_new = !path.join("realm").exists() && !path.join("db").exists();
            return Ok((!is_new).then_some(FORMAT));
        }
        Err(error) => return Err(classify(&error, format!("{}: {error}", file.display()))),
    };
    match checked(&text).and_then(|format| format.parse::<u32>().ok()) {
        Some(newer) if newer > FORMAT => Err(Error::Broken(format!(
            "the data directory {} has format {newer}; this version of Xavantes knows formats up to {FORMAT}: use a newer one",
            path.display()
        ))),
        Some(format) => Ok(Some(format)),
        None if text.trim() == FIRST_FORMAT.to_string() => Ok(Some(FIRST_FORMAT)),
        None => {
            tracing::error!(path = %file.display(), "the format of the data directory is damaged; assuming {FORMAT}");
            Ok(Some(FORMAT))
        }
    }
}

/// The value in the text of a file, if its checksum is right.
fn checked(text: &str) -> Option<&str> {
    let (value, checksum) = text.trim_end().split_once(' ')?;
    (u32::from_str_radix(checksum, 16).ok()? == crc32fast::hash(value.as_bytes())).then_some(value)
}

fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join("lock");
    let failed = |error: io::Error| classify(&error, format!("{}: {error}", name.display()));
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
