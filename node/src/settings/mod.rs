//! The settings of a node. Each one is declared once, as a field of [`Settings`]: its flag, environment variable, TOML
//! key, default, help text and line in docs/nodes.md follow from that.
//!
//! | module | has |
//! |---|---|
//! | `all_settings` | the settings, with type, default and help text |
//! | `setting_layers` | file, then environment, then flags |
//! | `valid_values` | which values are valid |
//! | `database_url` | the URL of a shared repository and its password |
//! | `documentation` | the table in docs/nodes.md |

mod all_settings;
mod database_url;
#[cfg(test)]
mod documentation;
mod setting_layers;
mod valid_values;

pub use all_settings::{AfterDrain, CgroupsSetting, ContainersSetting, Role, Settings};
pub use database_url::{PasswordFileError, has_password, hide_password};
pub use setting_layers::{LoadError, SettingOverrides};
pub use valid_values::{InvalidSetting, check_address, is_database_url};
