//! Makes space for new objects: evicts idle objects, then gives up interrupted transfers, then pins that expired.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tracing::warn;

use crate::error::Error;
use crate::store::store_state::{FileStore, StoreState};

/// Age at which pins expire if nobody confirms them. Only a full store removes expired pins: their owners are gone permanently.
const PIN_EXPIRY: Duration = Duration::from_secs(90 * 24 * 3600);

impl FileStore {
    /// Reserves space for a new object, and evicts others if necessary.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let mut state = self.state();
        let mut evicted = state.index.reserve(bytes);
        if evicted.is_err() {
            self.discard_interrupted(&mut state);
            evicted = state.index.reserve(bytes);
        }
        if evicted.is_err() && self.release_expired_pins(&mut state) {
            evicted = state.index.reserve(bytes);
        }
        for digest in evicted? {
            self.remove_object(&mut state, &digest);
        }
        Ok(())
    }

    /// Whether an object of this size could be stored now.
    pub(super) fn check_fits(&self, bytes: u64) -> Result<(), Error> {
        let mut state = self.state();
        let fits = state.index.check_fits(bytes);
        if fits.is_err() {
            self.discard_interrupted(&mut state);
            self.release_expired_pins(&mut state);
            return state.index.check_fits(bytes);
        }
        fits
    }

    /// Gives up interrupted transfers, which can start again from the beginning.
    fn discard_interrupted(&self, state: &mut StoreState) {
        while let Some((_, partial)) = state.interrupted.pop_lru() {
            self.discard_partial(state, &partial);
        }
    }

    /// Releases the pins of owners that nobody has confirmed for long. Returns true if there was one.
    fn release_expired_pins(&self, state: &mut StoreState) -> bool {
        let expired = |path: &Path| {
            let confirmed = fs::metadata(path).and_then(|metadata| metadata.modified());
            confirmed.is_ok_and(|confirmed| confirmed.elapsed().is_ok_and(|age| age > PIN_EXPIRY))
        };
        let owners = state.index.owners().filter(|owner| expired(&self.pins_path(owner)));
        let owners: Vec<String> = owners.map(str::to_owned).collect();
        for owner in &owners {
            warn!(owner, "pins expired; the files of this owner may be evicted");
            state.index.release(owner, &[]);
            let _ = fs::remove_file(self.pins_path(owner));
        }
        !owners.is_empty()
    }
}
