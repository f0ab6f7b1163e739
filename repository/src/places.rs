//! Pages of processes in the order of their creation, for stores that keep this order in memory. Pure.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::error::Error;
use crate::repository::{Entry, PageRequest, Place};

/// The places behind one, in their order or backwards.
pub(crate) fn page_places<'a>(
    places: &'a BTreeSet<Place>,
    after: Option<&Place>,
    newest_first: bool,
) -> Box<dyn Iterator<Item = &'a Place> + 'a> {
    let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
    match newest_first {
        true => Box::new(places.range::<Place, _>((Bound::Unbounded, bound)).rev()),
        false => Box::new(places.range::<Place, _>((bound, Bound::Unbounded))),
    }
}

/// The first of these entries, as many as the request wants.
pub(crate) fn take_page(
    entries: impl Iterator<Item = Result<Entry, Error>>,
    request: &PageRequest,
) -> Result<Vec<Entry>, Error> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for entry in entries.take(request.max_items) {
        let entry = entry?;
        bytes += entry.bytes();
        page.push(entry);
        if bytes >= request.max_bytes {
            break;
        }
    }
    Ok(page)
}
