//! The URL of a shared repository and its password, which nobody but the database should see.

use std::ops::Range;
use std::path::PathBuf;

use super::all_settings::Settings;

/// The file with the password of the database cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the password of the database from {}: {cause}", path.display())]
pub struct PasswordFileError {
    /// The file.
    pub path: PathBuf,
    /// The error of the system.
    pub cause: std::io::Error,
}

impl Settings {
    /// The URL of the database with the password from the password file, if there is one.
    pub fn database_url(&self) -> Result<Option<String>, PasswordFileError> {
        let Some(url) = &self.repository else { return Ok(None) };
        let Some(path) = &self.repository_password_file else { return Ok(Some(url.clone())) };
        let text = std::fs::read_to_string(path).map_err(|cause| PasswordFileError { path: path.clone(), cause })?;
        Ok(Some(with_password(url, text.trim_end_matches(['\r', '\n']))))
    }

    /// The settings as people may see them.
    pub fn without_password(&self) -> Self {
        Self { repository: self.repository.as_deref().map(hide_password), ..self.clone() }
    }
}

/// Whether the URL of a database contains a password.
pub fn has_password(url: &str) -> bool {
    !passwords(url).is_empty()
}

/// The URL of a database with `***` for its password.
pub fn hide_password(url: &str) -> String {
    let mut hidden = url.to_owned();
    for range in passwords(url).into_iter().rev() {
        hidden.replace_range(range, "***");
    }
    hidden
}

/// The ranges of passwords in a URL, in their order: behind the name of the user, and in the parameter `password`.
fn passwords(url: &str) -> Vec<Range<usize>> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let query = url[start..].find('?').map_or(url.len(), |at| start + at);
    let path = url[start..query].find('/').map_or(query, |at| start + at);
    let user_info = url[start..path].rfind('@').map(|end| start..start + end);
    let in_user_info = user_info.and_then(|range| {
        let colon = range.start + url[range.clone()].find(':')?;
        Some(colon + 1..range.end)
    });
    let mut ranges: Vec<_> = in_user_info.into_iter().filter(|range| !range.is_empty()).collect();
    // Only the first `?` begins the parameters; another one belongs to a value.
    let mut at = (query + 1).min(url.len());
    for parameter in url[at..].split_inclusive('&') {
        let end = at + parameter.trim_end_matches('&').len();
        if let Some(value) = parameter.strip_prefix("password=") {
            ranges.push(at + parameter.len() - value.len()..end);
        }
        at += parameter.len();
    }
    ranges
}

/// Adds a password to the URL of a database. A password that the URL has already counts no more.
fn with_password(url: &str, password: &str) -> String {
    let mut encoded = String::new();
    for byte in password.bytes() {
        if byte.is_ascii_alphanumeric() { encoded.push(byte.into()) } else { encoded += &format!("%{byte:02X}") }
    }
    // The last parameter of a name counts.
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}password={encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (url, hidden) in [
            ("postgres://me:secret@host/db", "postgres://me:***@host/db"),
            ("postgres://me:se:cr@et@host:5432/db?host=/a", "postgres://me:***@host:5432/db?host=/a"),
            ("postgres://me@host/db?password=secret&host=/a", "postgres://me@host/db?password=***&host=/a"),
            ("postgres://host/db?sslmode=require&password=secret", "postgres://host/db?sslmode=require&password=***"),
            ("postgres://host/db?password=se?cret&host=/a?b", "postgres://host/db?password=***&host=/a?b"),
            ("postgres://me:one@host?password=two", "postgres://me:***@host?password=***"),
        ] {
            assert_eq!(hide_password(url), hidden);
            assert!(has_password(url), "{url}");
        }
        for url in ["postgres://me@host:5432/db?sslmode=require", "postgres://host/a:b@c", "postgres://me:@host/db", ""]
        {
            assert_eq!(hide_password(url), url);
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn the_password_of_a_file_becomes_part_of_the_url() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "se&cr/t \n").unwrap();
        let with_file = |url: &str| Settings {
            repository: Some(url.into()),
            repository_password_file: Some(file.path().into()),
            ..Settings::default()
        };
        let url = with_file("postgres://me@host/db").database_url().unwrap().unwrap();
        assert_eq!(url, "postgres://me@host/db?password=se%26cr%2Ft%20");
        let url = with_file("postgres://me@host/db?host=/a").database_url().unwrap().unwrap();
        assert_eq!(url, "postgres://me@host/db?host=/a&password=se%26cr%2Ft%20");
        let missing = Settings { repository_password_file: Some("/none".into()), ..with_file("postgres://a/b") };
        assert!(missing.database_url().unwrap_err().to_string().contains("from /none"));
        assert_eq!(Settings::default().database_url().unwrap(), None);
        let shown = with_file("postgres://me:secret@host/db").without_password();
        assert!(!toml::to_string(&shown).unwrap().contains("secret"));
    }
}
