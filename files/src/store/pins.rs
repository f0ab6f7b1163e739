//! Pins: objects that owners, usually processes, still need. The store does not evict pinned objects. Pins survive a restart.

use std::fs::{self, File};
use std::io::Write;
use std::time::SystemTime;

use xavantes_model::digest::Digest;

use crate::error::Error;
use crate::store::store_state::FileStore;

impl FileStore {
    /// Pins objects for an owner until it releases them, whether the store has them yet or not.
    pub fn pin(&self, owner: &str, digests: &[Digest]) -> Result<(), Error> {
        let mut state = self.state();
        let new = state.index.pin(owner, digests);
        if new.is_empty() {
            return Ok(());
        }
        let lines: String = new.iter().map(|digest| format!("{digest}\n")).collect();
        let written = File::options().append(true).create(true).open(self.pins_path(owner)).and_then(|mut file| {
            let head = if file.metadata()?.len() == 0 { format!("{owner}\n") } else { String::new() };
            file.write_all(format!("{head}{lines}").as_bytes())
        });
        written.map_err(Error::io("cannot record the files that a process needs"))
    }

    /// Releases all pins of an owner, except for these objects.
    pub fn release(&self, owner: &str, except: &[Digest]) {
        let mut state = self.state();
        if state.index.pinned(owner).next().is_none() {
            return;
        }
        state.index.release(owner, except);
        let left: String = state.index.pinned(owner).map(|digest| format!("{digest}\n")).collect();
        let path = self.pins_path(owner);
        // Should this fail, objects stay pinned for longer than necessary.
        let _ = if left.is_empty() { fs::remove_file(path) } else { fs::write(path, format!("{owner}\n{left}")) };
    }

    /// Releases all pins of an owner, except for these digests, given as bytes. Exempt directories keep all their files.
    pub fn release_except(&self, owner: &str, files: &[Vec<u8>], directories: &[Vec<u8>]) {
        let read = |list: &[Vec<u8>]| list.iter().filter_map(|bytes| Digest::from_bytes(bytes)).collect::<Vec<_>>();
        let mut except = read(files);
        for directory in read(directories) {
            except.push(directory);
            except.extend(self.manifest(&directory).iter().flat_map(|it| it.files()).map(|(digest, _)| digest));
        }
        self.release(owner, &except);
    }

    /// Whether the store has each of these objects; directories count only with all their files. With an owner, the store
    /// pins those that it has.
    pub fn has_all(&self, files: &[Digest], directories: &[Digest], owner: Option<&str>) -> Result<Vec<bool>, Error> {
        let mut has: Vec<bool> = files.iter().map(|digest| self.has(digest)).collect();
        let mut present: Vec<Digest> =
            files.iter().zip(&has).filter(|(_, has)| **has).map(|(digest, _)| *digest).collect();
        for directory in directories {
            // A directory whose manifest cannot be read counts as absent.
            let inner = self.manifest(directory).map(|it| it.files().map(|(digest, _)| digest).collect::<Vec<_>>());
            let inner = inner.ok().filter(|inner| inner.iter().all(|digest| self.has(digest)));
            has.push(inner.is_some());
            present.extend(inner.into_iter().flat_map(|inner| [*directory].into_iter().chain(inner)));
        }
        if let Some(owner) = owner {
            self.pin(owner, &present)?;
        }
        Ok(has)
    }

    /// The owners that have pins.
    pub fn owners(&self) -> Vec<String> {
        self.state().index.owners().map(str::to_owned).collect()
    }

    /// The objects that an owner has pinned and that the store has.
    pub fn pinned(&self, owner: &str) -> Vec<Digest> {
        let state = self.state();
        state.index.pinned(owner).filter(|digest| state.index.size(digest).is_some()).copied().collect()
    }

    /// Records that an owner still needs its pins, so that they do not expire.
    pub fn confirm(&self, owner: &str) {
        let opened = File::options().append(true).open(self.pins_path(owner));
        let _ = opened.and_then(|file| file.set_modified(SystemTime::now()));
    }
}

/// Reads a file of pins: the owner and its digests. Ignores a line that was cut off.
pub(super) fn read_pins(bytes: &[u8]) -> Option<(String, Vec<Digest>)> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let owner = lines.next().filter(|owner| !owner.is_empty())?.to_owned();
    Some((owner, lines.filter_map(|line| line.parse().ok()).collect()))
}
