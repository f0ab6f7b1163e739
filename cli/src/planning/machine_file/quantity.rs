//! Quantities with units, as people write them: `10 GB`, `100 MB/s`, `0.10/h`, `1h30m`.

/// A unit and its factor.
type Unit = (&'static str, f64);

const BYTES: &[Unit] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("PiB", 1_125_899_906_842_624.0),
];
const BITS: &[Unit] = &[("bit", 1.0 / 8.0), ("kbit", 125.0), ("Mbit", 125e3), ("Gbit", 125e6), ("Tbit", 125e9)];
const SECONDS: &[Unit] = &[("ms", 0.001), ("s", 1.0), ("min", 60.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// Larger numbers are mistakes, and would make sums of times infinite.
const LARGEST: f64 = 1e18;

/// A size in bytes.
pub(crate) fn bytes(text: &str) -> Result<f64, String> {
    let wrong = || format!("a size is a number with one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, not {text:?}");
    let (number, unit) = number(text).ok_or_else(wrong)?;
    checked(number * factor(BYTES, unit).ok_or_else(wrong)?, text)
}

/// A rate in bytes per second.
pub(crate) fn bytes_per_second(text: &str) -> Result<f64, String> {
    let wrong =
        || format!("a bandwidth is a number with one of kB/s, MB/s, GB/s, MiB/s, GiB/s, Mbit/s, Gbit/s, not {text:?}");
    let (number, unit) = number(text).ok_or_else(wrong)?;
    let unit = unit.strip_suffix("/s").map(str::trim_end).ok_or_else(wrong)?;
    let factor = factor(BYTES, unit).or_else(|| factor(BITS, unit)).ok_or_else(wrong)?;
    checked(number * factor, text)
}

/// A time in seconds: one number with a unit, or several.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("a time is a number with one of ms, s, min, h, d, such as 90 s or 1h30m, not {text:?}");
    let mut rest = text.trim();
    let mut total = 0.0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let (number, after) = number(rest).ok_or_else(wrong)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        total += number * factor(SECONDS, &after[..letters]).ok_or_else(wrong)?;
        rest = after[letters..].trim_start();
    }
    checked(total, text)
}

/// A price per second.
pub(crate) fn price(text: &str) -> Result<f64, String> {
    let wrong = || format!("a price is a number per s, min, h or d, such as 0.10/h, not {text:?}");
    let (number, rest) = number(text).ok_or_else(wrong)?;
    let unit = rest.strip_prefix('/').map(str::trim_start).ok_or_else(wrong)?;
    checked(number / factor(SECONDS, unit).ok_or_else(wrong)?, text)
}

/// The number at the beginning of a text, and what follows it without white space. Numbers have no sign.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let number = text[..digits].parse::<f64>().ok()?;
    Some((number, text[digits..].trim_start()))
}

fn factor(units: &[Unit], name: &str) -> Option<f64> {
    units.iter().find(|(unit, _)| *unit == name).map(|(_, factor)| *factor)
}

fn checked(number: f64, text: &str) -> Result<f64, String> {
    if number <= LARGEST { Ok(number) } else { Err(format!("{text:?} is too large")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        assert_eq!(bytes("10 GB"), Ok(1e10));
        assert_eq!(bytes("1.5GiB"), Ok(1.5 * 1_073_741_824.0));
        assert_eq!(bytes_per_second("100 MB/s"), Ok(1e8));
        assert_eq!(bytes_per_second("1 Gbit/s"), Ok(125e6));
        assert_eq!(seconds("30 s"), Ok(30.0));
        assert_eq!(seconds("1h30m"), Ok(5400.0));
        assert_eq!(seconds("1 h 5 min"), Ok(3900.0));
        assert_eq!(seconds("250ms"), Ok(0.25));
        assert_eq!(price("0.36/h"), Ok(0.36 / 3600.0));
        assert_eq!(price("2 / s"), Ok(2.0));
    }

    #[test]
    fn what_has_no_unit_or_an_unknown_one_is_refused() {
        for wrong in ["", "10", "GB", "10 XB", "10 gb", "-1 GB", "1e3 GB", "1.2.3 GB", "10 GB/s", "é"] {
            assert!(bytes(wrong).unwrap_err().starts_with("a size is a number"), "{wrong}");
        }
        for wrong in ["", "10 MB", "10 MB/h", "10", "MB/s"] {
            assert!(bytes_per_second(wrong).unwrap_err().starts_with("a bandwidth"), "{wrong}");
        }
        for wrong in ["", "10", "s", "10 y", "-1 s", "1h30", "inf s"] {
            assert!(seconds(wrong).unwrap_err().starts_with("a time"), "{wrong}");
        }
        for wrong in ["", "0.1", "0.1/GB", "/h", "0.1 h"] {
            assert!(price(wrong).unwrap_err().starts_with("a price"), "{wrong}");
        }
        assert!(bytes("999999999999999999999 PB").unwrap_err().contains("too large"));
    }
}
