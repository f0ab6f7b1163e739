//! The table of settings in docs/nodes.md is made from the declarations: `UPDATE_DOCS=1 cargo test` writes it.

use clap::{Arg, Args, Command};

use super::setting_layers::SettingOverrides;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/nodes.md");
const HEAD: &str = "| setting | flag | variable | default | |\n|---|---|---|---|---|\n";

fn row(argument: &Arg) -> String {
    let flag = argument.get_long().expect("every setting has a flag");
    let variable = argument.get_env().expect("every setting has a variable").to_string_lossy();
    let help = argument.get_help().expect("every setting has a help text").to_string();
    let values: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let (text, default) = match help.split_once(" [default: ") {
        Some((text, default)) => (text.to_owned(), default.trim_end_matches(']').to_owned()),
        None => (help, format!("`{}`", values.join(","))),
    };
    let role = argument.get_help_heading().map_or(String::new(), |role| format!("*{role}.* "));
    let values: Vec<_> = argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let values = if values.len() < 3 { String::new() } else { format!(": {}", values.join(", ")) };
    format!("| `{flag}` | `--{flag}` | `{variable}` | {default} | {role}{text}{values} |\n")
}

#[test]
fn the_table_in_the_documentation_has_exactly_the_settings() {
    let command = SettingOverrides::augment_args(Command::new("node"));
    let table: String = command.get_arguments().map(row).collect();
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let (before, rest) = page.split_once(HEAD).expect("the page has the table of settings");
    let (written, after) = rest.split_once("\n\n").expect("text follows the table");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{before}{HEAD}{table}\n{after}")).expect("the page can be written");
    } else {
        assert_eq!(
            format!("{written}\n"),
            table,
            "run `UPDATE_DOCS=1 cargo test -p xavantes-node` and commit the page"
        );
    }
}
