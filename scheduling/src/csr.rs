//! Rows of different lengths in two arrays (compressed sparse rows): the compact form of graphs.

/// Rows of items. One array holds all items, another one the place where each row begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows<T> {
    offsets: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { offsets: vec![0], items: Vec::new() }
    }
}

impl<T: Copy> Rows<T> {
    /// Groups pairs of a row and an item by their row. Items of one row keep their order.
    ///
    /// Rows of pairs must be below `rows`.
    pub fn from_pairs(rows: usize, pairs: &[(u32, T)]) -> Self {
        let mut offsets = vec![0u32; rows + 1];
        for (row, _) in pairs {
            offsets[*row as usize + 1] += 1;
        }
        for row in 0..rows {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut items = match pairs.first() {
            Some((_, first)) => vec![*first; pairs.len()],
            None => Vec::new(),
        };
        for (row, item) in pairs {
            let place = &mut next[*row as usize];
            items[*place as usize] = *item;
            *place += 1;
        }
        Self { offsets, items }
    }

    /// Appends a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) {
        self.items.extend(row);
        self.offsets.push(self.items.len() as u32);
    }

    /// The items of a row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.items[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.items[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// All items, row by row.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_grouped_by_row_and_keep_their_order() {
        let rows = Rows::from_pairs(3, &[(2, 'a'), (0, 'b'), (2, 'c')]);
        assert_eq!(rows.row(0), ['b']);
        assert!(rows.row(1).is_empty());
        assert_eq!(rows.row(2), ['a', 'c']);
        assert_eq!(rows.rows(), 3);
    }

    #[test]
    fn no_pairs_make_empty_rows() {
        let rows: Rows<u8> = Rows::from_pairs(2, &[]);
        assert!(rows.row(0).is_empty() && rows.row(1).is_empty());
    }
}
