//! Lines at the bottom of a terminal, drawn in place. Pure: texts for the terminal come out.

use console::measure_text_width;

const CLEAR_TO_END_OF_LINE: &str = "\x1b[K";
const CLEAR_TO_END_OF_SCREEN: &str = "\x1b[J";

/// The lines that are on the screen, with the cursor at the beginning of the line below them.
#[derive(Debug, Default)]
pub(super) struct Footer {
    lines: Vec<String>,
    /// Columns of the terminal when they were drawn.
    columns: usize,
}

impl Footer {
    pub(super) const fn new() -> Self {
        Self { lines: Vec::new(), columns: 0 }
    }

    /// Draws lines in place of those before. Nothing if they are the same.
    pub(super) fn draw(&mut self, text: &str, columns: usize) -> String {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines == self.lines && columns == self.columns {
            return String::new();
        }
        // Lines that a narrower window has wrapped are erased as a whole, others are overwritten, so that they do not flicker.
        let begin = match columns == self.columns {
            true => self.to_first_line(columns),
            false => self.erase(columns),
        };
        (self.lines, self.columns) = (lines, columns);
        begin + &self.redraw() + CLEAR_TO_END_OF_SCREEN
    }

    /// Draws the lines again, below other output.
    pub(super) fn redraw(&self) -> String {
        self.lines.iter().map(|line| format!("{line}{CLEAR_TO_END_OF_LINE}\r\n")).collect()
    }

    /// Erases the lines. The cursor is then where the first of them was.
    pub(super) fn erase(&self, columns: usize) -> String {
        match self.lines.is_empty() {
            true => String::new(),
            false => self.to_first_line(columns) + CLEAR_TO_END_OF_SCREEN,
        }
    }

    /// Moves the cursor to the first line. A window that became narrower has wrapped some lines.
    fn to_first_line(&self, columns: usize) -> String {
        let columns = columns.max(1);
        let rows: usize = self.lines.iter().map(|line| measure_text_width(line).div_ceil(columns).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_replace_those_before() {
        let mut footer = Footer::new();
        assert_eq!(footer.erase(80), "");
        assert_eq!(footer.draw("one\ntwo", 80), "one\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
        assert_eq!(footer.draw("one\ntwo", 80), "");
        assert_eq!(footer.draw("three", 80), "\r\x1b[2Athree\x1b[K\r\n\x1b[J");
        assert_eq!(footer.erase(80), "\r\x1b[1A\x1b[J");
        assert_eq!(footer.redraw(), "three\x1b[K\r\n");
    }

    #[test]
    fn lines_that_a_narrower_window_wraps_are_erased() {
        let mut footer = Footer::new();
        footer.draw("0123456789\n\n名前", 10);
        assert_eq!(footer.erase(4), "\r\x1b[5A\x1b[J");
        assert_eq!(footer.draw("0\n1", 4), "\r\x1b[5A\x1b[J0\x1b[K\r\n1\x1b[K\r\n\x1b[J");
    }
}
