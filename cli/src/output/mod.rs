//! Everything that commands print.
//!
//! | module | has |
//! |---|---|
//! | `printer` | the choice between text and JSON |
//! | `text` | each report as text for people |
//! | `json` | each report as JSON |
//! | `logs` | output of activities, as it comes or as one document |
//! | `live_display` | what `run` shows while a process runs |
//! | `progress` | the lines of `live_display`, pure |
//! | `terminal` | standard output, standard error and the footer of the terminal |
//! | `footer` | the footer, pure |
//! | `visible` | texts of others made safe to read, pure |
//! | `logging` | log messages |

mod footer;
mod json;
pub(crate) mod live_display;
pub(crate) mod logging;
pub(crate) mod logs;
pub(crate) mod printer;
mod progress;
pub(crate) mod terminal;
pub(crate) mod text;
mod visible;
