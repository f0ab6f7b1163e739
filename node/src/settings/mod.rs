//! The settings of a node. Each one is declared once, as a field of [`Settings`]: its flag, environment variable, TOML
//! key, default, help text and line in docs/nodes.md follow from that.
//!
//! | module | has |
//! |---|---|
//! | `declared` | the settings, with type, default and help text |
//! | `load` | file, then environment, then flags |
//! | `check` | which values are valid |
//! | `database` | the URL of a shared repository and its password |
//! | `documentation` | the table in docs/nodes.md |

mod check;
mod database;
mod declared;
#[cfg(test)]
mod documentation;
mod load;

pub use check::{InvalidSetting, check_address, is_database_url};
pub use database::{PasswordFileError, has_password, hide_password};
pub use declared::{CgroupsSetting, ContainersSetting, Role, Settings};
pub use load::{LoadError, SettingOverrides};
