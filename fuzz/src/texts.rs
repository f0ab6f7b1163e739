//! Texts of users and administrators: settings files, parameters as JSON and as words, addresses, URLs of databases, paths,
//! and the places at which pages of lists begin.

use std::time::{Duration, Instant};

use xavantes_files::{StageTarget, check_path, file_name, plan_stage_in};
use xavantes_model::value::{Type, Value};
use xavantes_model::{shortened_text, working_path};
use xavantes_node::{Settings, check_address, has_password, hide_password};
use xavantes_proto::{MAX_PAGE_BYTES, MAX_PAGE_ITEMS, v1};

/// The first byte chooses the kind of text.
pub fn check(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let Ok(text) = str::from_utf8(bytes) else { return };
    match kind % 5 {
        0 => on_settings(text),
        1 => on_json(text),
        2 => Type::ALL.iter().for_each(|(_, wanted)| on_word(*wanted, text)),
        3 => on_names(text),
        _ => on_pages(text),
    }
}

/// Settings that are valid are printed as a file with the same settings.
fn on_settings(text: &str) {
    let Ok(settings) = toml::from_str::<Settings>(text) else { return };
    if settings.check().is_ok() {
        let printed = toml::to_string(&settings).expect("valid settings can be printed");
        assert_eq!(toml::from_str::<Settings>(&printed).expect("printed settings can be read"), settings);
        for seconds in [settings.drain_seconds, settings.grace_seconds, settings.worker_patience_seconds] {
            let much_later =
                Duration::from_secs(seconds).checked_mul(1 << 10).and_then(|it| Instant::now().checked_add(it));
            assert!(much_later.is_some(), "no clock counts {seconds} s");
        }
        let shown = toml::to_string(&settings.without_password()).expect("they can be shown, too");
        assert!(toml::from_str::<Settings>(&shown).expect("shown settings can be read").check().is_ok());
    }
}

/// A file for `--params`: what becomes a value becomes the same JSON again.
fn on_json(text: &str) {
    let Ok(json) = serde_json::from_str::<serde_json::Value>(text) else { return };
    let Ok(value) = Value::try_from(json) else { return };
    on_value(&value);
    for (_, wanted) in Type::ALL {
        if let Ok(accepted) = wanted.accept(value.clone()) {
            // Floats that are not numbers differ from themselves.
            let again = wanted.accept(accepted.clone()).expect("an accepted value is accepted");
            assert_eq!(format!("{again:?}"), format!("{accepted:?}"));
        }
    }
    let mut items = Vec::new();
    for target in [StageTarget::At("at".into()), StageTarget::In("in".into())] {
        let _ = plan_stage_in(&value, target, &mut items);
    }
    items.iter().for_each(|item| check_path(&item.path).unwrap_or_else(|error| panic!("{}: {error}", item.path)));
}

fn on_value(value: &Value) {
    let again = Value::try_from(value.to_json()).expect("the JSON of a value is a value");
    assert_eq!(format!("{again:?}"), format!("{value:?}"));
    assert!(value.bytes() > 0 && value.depth() <= xavantes_model::value::MAX_VALUE_DEPTH);
}

/// A word of the command line for a parameter of some type.
fn on_word(wanted: Type, text: &str) {
    if let Ok(value) = wanted.parse(text) {
        on_value(&value);
        assert!(wanted.accept(value).is_ok(), "a parsed value is not of its type");
    }
}

fn on_names(name: &str) {
    if check_address(name).is_ok() {
        assert!(name.len() > 2 && !name.contains(char::is_whitespace));
    }
    let hidden = hide_password(name);
    assert_eq!((hide_password(&hidden), has_password(&hidden)), (hidden.clone(), has_password(name)));
    if working_path::check_path(name).is_ok() {
        assert!(!name.starts_with('/') && name.split('/').all(|part| part != ".." && !part.is_empty()), "{name:?}");
        assert!(!file_name(name).contains('/'));
    }
    let _ = (working_path::check_pattern(name), working_path::parse_source_uri(name));
    let short = shortened_text::shorten(name.to_owned(), 64);
    assert!(short.len() <= 64 || short == name, "{} bytes", short.len());
}

/// Lists begin behind any place; the pages from there on have every item behind it once.
fn on_pages(begin: &str) {
    let items = || (0..9_u8).map(|number| (format!("item-{number}"), node(number)));
    let wanted: Vec<String> =
        items().map(|(place, _)| place).filter(|place| begin.is_empty() || **place > *begin).collect();
    let (mut seen, mut next) = (Vec::new(), begin.to_owned());
    loop {
        let (page, following) = xavantes_proto::page_of(items(), &next);
        let bytes: usize = page.iter().map(xavantes_proto::Message::encoded_len).sum();
        assert!(page.len() <= 1 || (bytes <= MAX_PAGE_BYTES && page.len() <= MAX_PAGE_ITEMS));
        seen.extend(page.into_iter().map(|node| node.name));
        if following.is_empty() {
            break;
        }
        next = following;
    }
    assert_eq!(seen, wanted);
}

fn node(number: u8) -> v1::NodeDescription {
    v1::NodeDescription {
        name: format!("item-{number}"),
        version: "v".repeat(usize::from(number) * (MAX_PAGE_BYTES / 6)),
        ..Default::default()
    }
}

/// A text of every kind.
pub fn samples() -> Vec<Vec<u8>> {
    let settings = toml::to_string(&Settings { name: "n".into(), ..Settings::default() }).unwrap_or_default();
    let more = "name = \"a\"\nrepository = 'postgres://me:secret@host/db?password=x'\njoin = [\"a:1\"]\nprocesses-mib = 5\n\
        memory-mib = 7\n[sources]\nstars = 'file:///stars'\n[interpreters]\npython = ['python3', '-u']\n";
    let json = r#"{"a": [1, 2.5, -3e9, "x", null, true], "b": {"$bytes": "00ff"}, "c": {"$float": "NaN"},
"d": {"$file": "/x/y"}, "e": {"$directory": {"name": "n", "digest": "DIGEST", "size": 3, "holders": ["a:1"]}}, "f": {"$shared": 1}}"#;
    let json = json.replace("DIGEST", &"0a".repeat(32));
    let texts =
        [(0, &*settings), (0, more), (1, &json), (2, "-12"), (2, "1.5e3"), (2, "[1, {\"a\": 2}]"), (2, "@/x/y")];
    let names =
        [(3, "host.example.org:7433"), (3, "[::1]:80"), (3, "postgres://a:b@c/d?password=e&f=g"), (3, "a/b*.txt")];
    let pages = [(4, "item-3"), (4, "")];
    texts.iter().chain(&names).chain(&pages).map(|(kind, text)| [&[*kind], text.as_bytes()].concat()).collect()
}
