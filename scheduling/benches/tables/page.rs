//! The page that the tables are written into: each table stands between two comments that name it.

use std::path::PathBuf;

/// `docs/scheduling.md` and the figures beside it.
pub struct Page {
    folder: PathBuf,
}

impl Page {
    pub fn new() -> Self {
        Self { folder: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs") }
    }

    /// Replaces what stands between `<!-- table: name -->` and `<!-- end -->`.
    pub fn replace(&self, name: &str, table: &str) {
        let file = self.folder.join("scheduling.md");
        let mut text = std::fs::read_to_string(&file).expect("docs/scheduling.md is there");
        let begin = format!("<!-- table: {name} -->");
        let after = text.find(&begin).unwrap_or_else(|| panic!("the page has no {begin}")) + begin.len();
        let end = after + text[after..].find("<!-- end -->").expect("every table has an end");
        text.replace_range(after..end, &format!("\n\n{}\n\n", table.trim_end()));
        std::fs::write(&file, text).expect("docs/scheduling.md can be written");
    }

    /// Writes a bar chart: for each label a group of bars, one for each series. Values are parts of 1, which is the
    /// dashed line.
    pub fn bars(&self, file: &str, title: &str, series: &[&str], groups: &[(String, Vec<f64>)]) {
        const COLOURS: [&str; 4] = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1"];
        let (left, top, row) = (190.0, 50.0, 12.0);
        let most = groups.iter().flat_map(|group| &group.1).copied().fold(1.0, f64::max);
        let width = |value: f64| 420.0 * value / most;
        let step = row * series.len() as f64 + 10.0;
        let height = top + step * groups.len() as f64 + 10.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {height}\" font-family=\"sans-serif\" \
             font-size=\"11\">\n<rect width=\"720\" height=\"{height}\" fill=\"white\"/>\n\
             <text x=\"10\" y=\"18\" font-size=\"13\">{title}</text>\n"
        );
        for (index, name) in series.iter().enumerate() {
            let x = left + 130.0 * index as f64;
            let colour = COLOURS[index % COLOURS.len()];
            svg += &format!("<rect x=\"{x}\" y=\"28\" width=\"10\" height=\"10\" fill=\"{colour}\"/>");
            svg += &format!("<text x=\"{}\" y=\"37\">{name}</text>\n", x + 14.0);
        }
        for (place, (label, values)) in groups.iter().enumerate() {
            let y = top + step * place as f64;
            svg += &format!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>\n", left - 6.0, y + 11.0);
            for (index, value) in values.iter().enumerate() {
                let (y, colour) = (y + row * index as f64, COLOURS[index % COLOURS.len()]);
                let length = width(*value);
                svg += &format!("<rect x=\"{left}\" y=\"{y}\" width=\"{length:.1}\" height=\"10\" fill=\"{colour}\"/>");
                svg += &format!("<text x=\"{:.1}\" y=\"{}\">{value:.3}</text>\n", left + length + 4.0, y + 9.0);
            }
        }
        let x = left + width(1.0);
        svg += &format!(
            "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{height}\" stroke=\"black\" stroke-dasharray=\"3\"/>\n</svg>\n"
        );
        std::fs::write(self.folder.join(file), svg).expect("figures can be written");
    }
}
