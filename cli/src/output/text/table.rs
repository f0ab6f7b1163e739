//! Tables with a headline and columns as wide as their cells need.

use comfy_table::{Table, presets};

/// Lays out rows under a headline, two spaces between columns.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_as_wide_as_their_cells_appear() {
        let rows = [["名前", "1"], ["a", "22"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&["NAME", "N"], rows), "NAME  N\n名前  1\na     22\n");
        assert_eq!(table(&["NAME", "N"], []), "NAME  N\n");
    }
}
