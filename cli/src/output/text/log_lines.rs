//! What failed activities wrote, one after the other.

use crate::output::printer::Report;
use crate::report::log_lines::{FailedLog, FailedLogs};

impl Report for FailedLogs {
    fn text(&self) -> String {
        let mut text: String = self.logs.iter().map(section).collect();
        if self.logs.is_empty() && self.left_out == 0 {
            text += "no activity has failed\n";
        }
        if self.left_out > 0 {
            text += &format!("{} more failed activities are left out\n", self.left_out);
        }
        text
    }
}

fn section(log: &FailedLog) -> String {
    let place = match (&log.node, log.attempt) {
        (Some(node), Some(attempt)) => format!("  attempt {attempt} on {node}"),
        _ => String::new(),
    };
    let mut text = format!("── {}{place}\n{}\n", log.path, log.error.trim_end());
    if let Some(bytes) = log.left_out_bytes {
        text += &format!("[{bytes} bytes are left out]\n");
    }
    for stream in [&log.stdout, &log.stderr].into_iter().flatten().filter(|stream| !stream.is_empty()) {
        text += stream;
        text += if stream.ends_with('\n') { "" } else { "\n" };
    }
    text + &log.missing.as_ref().map_or(String::new(), |why| format!("[{why}]\n")) + "\n"
}
