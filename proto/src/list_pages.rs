//! Long lists in pages that every client can receive, and long texts cut. Pure.

use prost::Message;

/// Upper bound on the bytes of a page, well below what clients receive by default.
pub const MAX_PAGE_BYTES: usize = 1 << 20;
/// Upper bound on the items of a page.
pub const MAX_PAGE_ITEMS: usize = 10_000;

/// Upper bound on a text in a summary, without the note that it was cut.
pub const MAX_TEXT_BYTES: usize = 2048;

/// Cuts a text of a summary that is longer than [`MAX_TEXT_BYTES`], and says so.
pub fn cut_text(text: &mut String) {
    let length = text.len();
    if length > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        *text += &format!(" … (cut: {length} bytes in all)");
    }
}

/// A page that is being filled in the order of the places of its items. The place of the last item is where the next page
/// begins.
#[derive(Debug)]
pub struct Page<T> {
    items: Vec<T>,
    max_items: usize,
    bytes: usize,
    last_place: String,
    is_full: bool,
}

impl<T> Page<T> {
    /// An empty page for at most `max_items` items, and at most [`MAX_PAGE_ITEMS`].
    pub fn new(max_items: usize) -> Self {
        Self {
            items: Vec::new(),
            max_items: max_items.min(MAX_PAGE_ITEMS),
            bytes: 0,
            last_place: String::new(),
            is_full: false,
        }
    }

    /// Adds the next item. False if it belongs to the next page. The first item of a page always fits.
    pub fn add(&mut self, place: String, bytes: usize, item: T) -> bool {
        let fits = self.items.len() < self.max_items && self.bytes + bytes <= MAX_PAGE_BYTES;
        self.is_full = !fits && !self.items.is_empty();
        if !self.is_full {
            self.bytes += bytes;
            self.last_place = place;
            self.items.push(item);
        }
        !self.is_full
    }

    /// Passes over an item that is not listed: the next page begins behind it.
    pub fn skip(&mut self, place: String) {
        self.last_place = place;
    }

    /// Ends the page before the end of the list, behind the last item that was added or passed over.
    pub fn stop(&mut self) {
        self.is_full = true;
    }

    /// The items, and where the next page begins: behind the last place. Empty if there is no next page.
    pub fn finish(self) -> (Vec<T>, String) {
        (self.items, if self.is_full { self.last_place } else { String::new() })
    }
}

/// A page of a list whose items are in the order of their places: those behind the place `begin`.
pub fn page_of<T: Message>(items: impl IntoIterator<Item = (String, T)>, begin: &str) -> (Vec<T>, String) {
    let mut page = Page::new(MAX_PAGE_ITEMS);
    for (place, item) in items.into_iter().skip_while(|(place, _)| !begin.is_empty() && **place <= *begin) {
        if !page.add(place, item.encoded_len(), item) {
            break;
        }
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pages of items with these sizes.
    fn pages(sizes: &[usize], max_items: usize) -> Vec<Vec<usize>> {
        let place = |index: usize| format!("{index:03}");
        let (mut pages, mut begin) = (Vec::new(), String::new());
        loop {
            let mut page = Page::new(max_items);
            let rest = sizes.iter().enumerate().filter(|(index, _)| place(*index) > begin || begin.is_empty());
            let _ = rest.take_while(|(index, size)| page.add(place(*index), **size, *index)).count();
            let (items, next) = page.finish();
            pages.push(items);
            if next.is_empty() {
                return pages;
            }
            begin = next;
        }
    }

    #[test]
    fn every_item_is_on_one_page() {
        assert_eq!(pages(&[], 2), [[0; 0]]);
        assert_eq!(pages(&[1, 1, 1, 1], 2), [[0, 1], [2, 3]]);
        assert_eq!(pages(&[1, MAX_PAGE_BYTES, 1, 1], 9), [vec![0], vec![1], vec![2, 3]]);
        assert_eq!(pages(&[2 * MAX_PAGE_BYTES, 2 * MAX_PAGE_BYTES], 9), [[0], [1]]);
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_say_so() {
        let mut short = "名".repeat(600);
        cut_text(&mut short);
        assert_eq!(short, "名".repeat(600));
        let mut long = "名".repeat(1000);
        cut_text(&mut long);
        assert!(long.starts_with(&"名".repeat(682)) && long.contains("3000 bytes in all"), "{long}");
        assert!(long.len() < MAX_TEXT_BYTES + 100);
    }
}
