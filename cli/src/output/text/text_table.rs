//! Tables with a headline and columns as wide as their cells need.

use comfy_table::{Table, presets};

use crate::output::visible::visible_line;

/// Lays out rows under a headline, two spaces between columns. A cell is one line, whatever others called the thing in it.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|cell| visible_line(cell)));
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
        let forged = [["a\nb  1", "2\x1b[2J"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&["NAME", "N"], forged), "NAME     N\na\\nb  1  2\\x1b[2J\n");
    }
}
