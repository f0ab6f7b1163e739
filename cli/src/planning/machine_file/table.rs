//! Reading tables of TOML key by key, so that every mistake is found, each with its place and what is allowed.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use xavantes_model::diagnostic::{Diagnostic, Span, did_you_mean};

/// Problems that were found so far.
#[derive(Default)]
pub(super) struct Problems(pub Vec<Diagnostic>);

impl Problems {
    pub(super) fn add(&mut self, code: &'static str, place: Range<usize>, message: impl Into<String>) {
        self.0.push(Diagnostic::new(code, Span::new(0, place), message));
    }

    pub(super) fn add_with_help(
        &mut self,
        code: &'static str,
        place: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.0.push(Diagnostic::new(code, Span::new(0, place), message).help(help));
    }
}

/// A table of the file.
pub(super) struct MachineTable<'t, 'i> {
    table: &'t DeTable<'i>,
    place: Range<usize>,
}

/// A value with its place.
pub(super) type Found<T> = Option<(T, Range<usize>)>;

impl<'t, 'i> MachineTable<'t, 'i> {
    /// A table, whose keys are checked.
    pub(super) fn new(
        table: &'t DeTable<'i>,
        place: Range<usize>,
        what: &str,
        keys: &[&str],
        problems: &mut Problems,
    ) -> Self {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !keys.contains(&name) {
                let help = did_you_mean(name, keys.iter().copied())
                    .unwrap_or_else(|| format!("the keys of {what} are {}", keys.join(", ")));
                problems.add_with_help("unknown-key", key.span(), format!("{what} has no key {name:?}"), help);
            }
        }
        Self { table, place }
    }

    /// The place of the table's head.
    pub(super) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
        // Keys are compared by their text, not by their place.
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// A text.
    pub(super) fn text(&self, key: &str, problems: &mut Problems) -> Found<&'t str> {
        let value = self.get(key)?;
        match value.get_ref().as_str() {
            Some(text) => Some((text, value.span())),
            None => {
                problems.add("wrong-type", value.span(), format!("{key} is a text in quotes"));
                None
            }
        }
    }

    /// A text with a unit, or another text that `parse` understands.
    pub(super) fn quantity(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<f64, String>,
        problems: &mut Problems,
    ) -> Found<f64> {
        let value = self.get(key)?;
        let Some(text) = value.get_ref().as_str() else {
            let example = parse("").err().unwrap_or_default();
            let allowed = example.split(", not ").next().unwrap_or_default().to_owned();
            problems.add_with_help("wrong-type", value.span(), format!("{key} is a text in quotes"), allowed);
            return None;
        };
        match parse(text) {
            Ok(number) => Some((number, value.span())),
            Err(message) => {
                problems.add("wrong-quantity", value.span(), format!("{key}: {message}"));
                None
            }
        }
    }

    /// A number above 0.
    pub(super) fn positive(&self, key: &str, problems: &mut Problems) -> Found<f64> {
        let value = self.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => None,
        };
        match number {
            Some(number) if number > 0.0 && number <= 1e12 => Some((number, value.span())),
            _ => {
                problems.add("wrong-number", value.span(), format!("{key} is a number above 0"));
                None
            }
        }
    }

    /// A whole number within bounds.
    pub(super) fn whole(&self, key: &str, least: u32, most: u32, problems: &mut Problems) -> Found<u32> {
        let value = self.get(key)?;
        let number = value.get_ref().as_integer().and_then(|it| u32::from_str_radix(it.as_str(), it.radix()).ok());
        match number {
            Some(number) if (least..=most).contains(&number) => Some((number, value.span())),
            _ => {
                problems.add("wrong-number", value.span(), format!("{key} is a whole number from {least} to {most}"));
                None
            }
        }
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str, problems: &mut Problems) -> Found<Vec<(&'t str, Range<usize>)>> {
        let value = self.get(key)?;
        let items = value.get_ref().as_array().map(|items| {
            items.iter().map(|item| item.get_ref().as_str().map(|text| (text, item.span()))).collect::<Option<Vec<_>>>()
        });
        match items.flatten() {
            Some(texts) => Some((texts, value.span())),
            None => {
                problems.add("wrong-type", value.span(), format!("{key} is a list of texts: [\"a\", \"b\"]"));
                None
            }
        }
    }

    /// A table inside this one.
    pub(super) fn table(&self, key: &str, problems: &mut Problems) -> Found<&'t DeTable<'i>> {
        let value = self.get(key)?;
        match value.get_ref().as_table() {
            Some(table) => Some((table, value.span())),
            None => {
                problems.add("wrong-type", value.span(), format!("{key} is a table: [{key}]"));
                None
            }
        }
    }

    /// A list of tables.
    pub(super) fn tables(&self, key: &str, problems: &mut Problems) -> Vec<(&'t DeTable<'i>, Range<usize>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let items = value.get_ref().as_array().map(|items| {
            items
                .iter()
                .map(|item| item.get_ref().as_table().map(|table| (table, item.span())))
                .collect::<Option<Vec<_>>>()
        });
        items.flatten().unwrap_or_else(|| {
            problems.add("wrong-type", value.span(), format!("{key} is a list of tables: [[{key}]]"));
            Vec::new()
        })
    }
}
