//! Numbers, durations, sizes and other literals in attributes.

use std::time::Duration;

use super::identifiers::MAX_NAME;
use crate::definition::ExitStatuses;
use crate::xml::trim;

/// Upper bound on the length of the name of a container image.
const MAX_IMAGE_NAME: usize = 512;
/// Upper bound on estimated seconds: more than any computation takes, and exact in a double.
const MAX_SECONDS: f64 = 1e12;
/// Upper bound on durations; the message says 10 years.
const MAX_DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Parses a whole number within bounds.
pub(super) fn int(text: &str, least: i64, most: i64) -> Result<i64, String> {
    let number: i64 = trim(text).parse().map_err(|_| format!("expected a whole number, got {text:?}"))?;
    if number < least {
        return Err(format!("must be at least {least}, got {number}"));
    }
    if number > most {
        return Err(format!("must be at most {most}, got {number}"));
    }
    Ok(number)
}

/// Parses a factor between 1 and 1000, such as `1.5`.
pub(super) fn factor(text: &str) -> Result<f64, String> {
    let text = trim(text);
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match text.parse::<f64>() {
        Ok(number) if plain && (1.0..=1000.0).contains(&number) => Ok(number),
        _ => Err(format!("expected a number from 1 to 1000, such as 1.5, got {text:?}")),
    }
}

/// Parses a number of seconds such as `90` or `0.25`.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let digits = trim(text);
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match digits.parse::<f64>() {
        Ok(number) if plain(whole) && plain(decimals) && number <= MAX_SECONDS => Ok(number),
        _ => Err(format!("expected seconds from 0 to {MAX_SECONDS}, such as 90 or 0.25, got {text:?}")),
    }
}

/// Parses a duration such as `500ms` or `1h30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a duration such as 500ms, 30s or 1h30m, got {text:?}");
    let too_long = || format!("{text:?} is longer than 10 years");
    let mut rest = trim(text);
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let millis = match &rest[digits..digits + letters] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        if digits == 0 {
            return Err(wrong());
        }
        let number: u64 = rest[..digits].parse().map_err(|_| too_long())?;
        let part = Duration::from_millis(number.checked_mul(millis).ok_or_else(too_long)?);
        total = total.checked_add(part).filter(|total| *total <= MAX_DURATION).ok_or_else(too_long)?;
        rest = &rest[digits + letters..];
    }
    Ok(total)
}

/// Parses a number of bytes such as `512`, `4GiB` or `1.5MB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size such as 512MiB, 1.5GB or 4GiB, got {text:?}");
    let trimmed = trim(text);
    let number = trimmed.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let unit: u128 = match &trimmed[number..] {
        "" | "B" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let (whole, decimals) = trimmed[..number].split_once('.').unwrap_or((&trimmed[..number], "0"));
    // No size that fits has more digits. The bound also keeps the arithmetic below from overflowing.
    if whole.is_empty() || decimals.is_empty() || whole.len() > 20 || decimals.len() > 20 {
        return Err(wrong());
    }
    let whole: u128 = whole.parse().map_err(|_| wrong())?;
    let fraction: u128 = decimals.parse().map_err(|_| wrong())?;
    let bytes = whole * unit + fraction * unit / 10u128.pow(decimals.len() as u32);
    // Sizes stay within a signed 64-bit number, as the values of the language do.
    i64::try_from(bytes).map(|bytes| bytes as u64).map_err(|_| format!("{text:?} is too large"))
}

/// Parses exit statuses such as `0, 3` or `100-110`.
pub(super) fn statuses(text: &str) -> Result<ExitStatuses, String> {
    let wrong = || format!("expected exit statuses from 0 to 255, such as 0,3 or 100-110, got {text:?}");
    let number = |text: &str| {
        let digits = trim(text);
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<u8>().ok().filter(|_| plain).ok_or_else(wrong)
    };
    let ranges = text.split(',').map(|part| match part.split_once('-') {
        None => number(part).map(|status| status..=status),
        Some((first, last)) => match (number(first)?, number(last)?) {
            (first, last) if first <= last => Ok(first..=last),
            (first, last) => Err(format!("{first}-{last} is an empty range: write the smaller status first")),
        },
    });
    ranges.collect::<Result<_, _>>().map(ExitStatuses)
}

/// Checks the name of a container image.
pub(super) fn image(text: &str) -> Result<&str, String> {
    let name = trim(text);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !begins
        || name.len() > MAX_IMAGE_NAME
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@+".contains(c))
    {
        return Err(format!(
            "expected the name of an image such as debian:12 or registry.example.org/tools/fit:1.2, got {text:?}"
        ));
    }
    Ok(name)
}

/// Checks the name of an environment variable that a definition may set.
pub(super) fn environment_variable(text: &str) -> Result<&str, String> {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || text.len() > MAX_NAME || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("expected a name of letters, digits and _, got {text:?}"));
    }
    match text.starts_with("XAVANTES_") {
        true => Err(format!("{text:?} begins with XAVANTES_, which is reserved for Xavantes")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_numbers_and_ranges() {
        let statuses = |text| statuses(text).map(|statuses| statuses.0);
        assert_eq!(statuses("0"), Ok(vec![0..=0]));
        assert_eq!(statuses(" 0 , 3,100 - 110\n"), Ok(vec![0..=0, 3..=3, 100..=110]));
        for wrong in ["", ",", "0,", "256", "-1", "+1", "a", "1-", "1--2", "1-2-3", "\u{661}"] {
            assert!(statuses(wrong).unwrap_err().starts_with("expected exit statuses"), "{wrong}");
        }
        assert!(statuses("5-3").unwrap_err().contains("empty"));
    }

    #[test]
    fn names_of_images_and_environment_variables_are_checked() {
        assert_eq!(image(" debian:12 "), Ok("debian:12"));
        assert_eq!(image("localhost:5000/a_b/c-d@sha256:00ff"), Ok("localhost:5000/a_b/c-d@sha256:00ff"));
        for wrong in ["", "--privileged", "a b", "a;b", "é", "a\n b", &"x".repeat(513)] {
            assert!(image(wrong).is_err(), "{wrong}");
        }
        assert_eq!(environment_variable("OMP_NUM_THREADS"), Ok("OMP_NUM_THREADS"));
        for wrong in ["", "1A", "A-B", "A=B", " A", "é", "XAVANTES_PATH"] {
            assert!(environment_variable(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        let millis = |text: &str| duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("1h30m"), Ok(5_400_000));
        assert_eq!(millis("2d 1s"), Err("expected a duration such as 500ms, 30s or 1h30m, got \"2d 1s\"".into()));
        for wrong in ["", "5", "s", "1.5s", "-1s", "1y", "5s3", "é", "1é"] {
            assert!(millis(wrong).unwrap_err().starts_with("expected a duration"), "{wrong}");
        }
        for long in ["3651d", "99999999999999999999s", "9999999999999999999d", "3650d1ms"] {
            assert!(millis(long).unwrap_err().contains("10 years"), "{long}");
        }
    }

    #[test]
    fn seconds_are_plain_decimal_numbers() {
        assert_eq!(seconds(" 90 "), Ok(90.0));
        assert_eq!(seconds("0.25"), Ok(0.25));
        for wrong in ["", ".5", "1.", "-1", "+1", "1e3", "inf", "NaN", "1s", "1 2", "9999999999999", "\u{661}"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_decimal_or_binary_units() {
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("1.5MB"), Ok(1_500_000));
        assert_eq!(size("0.5KiB"), Ok(512));
        for wrong in ["", "GB", "4 GB", "4gb", ".5GB", "1.GB", "-1", "1.2.3MB", "é"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert!(size("99999999TiB").unwrap_err().contains("too large"));
    }

    #[test]
    fn whole_numbers_and_factors_have_bounds() {
        assert_eq!(int(" 7 ", 1, 10), Ok(7));
        assert!(int("0", 1, 10).is_err() && int("11", 1, 10).is_err() && int("1.0", 1, 10).is_err());
        assert_eq!(factor("1.5"), Ok(1.5));
        assert!(["0.5", "inf", "NaN", "1e2", "", "1001", "-2"].iter().all(|text| factor(text).is_err()));
    }
}
