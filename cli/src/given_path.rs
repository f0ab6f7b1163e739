//! Paths of elements as users type them: with a part of the id, and with iterations that a shell does not take for patterns.

use xavantes_proto::v1;

use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, ask};

/// The whole path for one that a user typed. It may begin with any part of the id that no other process begins with.
pub(crate) async fn resolve(client: &mut CoordinatorClient, typed: &str) -> Result<String, Exit> {
    let request = v1::ResolveRequest { path: with_brackets(typed) };
    Ok(ask(client.resolve(request)).await?.path)
}

/// A path in which `12` and `*` mean the iterations `[12]` and `[*]`. No element has such a name.
fn with_brackets(typed: &str) -> String {
    let is_iteration = |segment: &str| {
        let digits = segment.strip_prefix('-').unwrap_or(segment);
        segment == "*" || (!digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let mut segments = typed.trim_end_matches('/').split('/');
    let process = segments.next().unwrap_or_default().to_owned();
    segments.fold(process, |path, segment| match is_iteration(segment) {
        true => format!("{path}/[{segment}]"),
        false => format!("{path}/{segment}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_iterations() {
        for (typed, path) in [
            ("Sweep-7f3a", "Sweep-7f3a"),
            ("1234", "1234"),
            ("S-1/loop/12/fly", "S-1/loop/[12]/fly"),
            ("S-1/loop/[12]/fly/", "S-1/loop/[12]/fly"),
            ("S-1/loop/-3/*/2/a", "S-1/loop/[-3]/[*]/[2]/a"),
            ("S-1/a1/1a/-/case1", "S-1/a1/1a/-/case1"),
        ] {
            assert_eq!(with_brackets(typed), path);
        }
    }
}
