//! Ticks of an axis: round numbers, and units that fit the length.

/// A unit of time and its seconds.
const UNITS: [(&str, f64); 4] = [("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// The ticks of an axis.
pub(super) struct Ticks {
    /// What the numbers are.
    pub unit: &'static str,
    /// Places on the axis and their numbers.
    pub ticks: Vec<(f64, String)>,
}

/// Ticks from `low` to `high` seconds, about `wanted` of them.
pub(super) fn time(low: f64, high: f64, wanted: f64) -> Ticks {
    // The largest unit of which the axis has two, and seconds otherwise.
    let (unit, seconds) = UNITS.iter().rev().find(|(_, seconds)| high >= 2.0 * seconds).copied().unwrap_or(UNITS[0]);
    let numbers = number(low / seconds, high / seconds, wanted);
    Ticks { unit, ticks: numbers.ticks.into_iter().map(|(place, text)| (place * seconds, text)).collect() }
}

/// Ticks from `low` to `high`, about `wanted` of them.
pub(super) fn number(low: f64, high: f64, wanted: f64) -> Ticks {
    let length = high - low;
    if !length.is_finite() || length <= 0.0 {
        return Ticks { unit: "", ticks: vec![(low, plain(low, 0))] };
    }
    let rough = length / wanted.max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|factor| factor * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(power * 10.0);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let first = (low / step).ceil() as i64;
    let last = (high / step * (1.0 + 1e-12)).floor() as i64;
    let ticks = (first..=last).take(1000).map(|tick| (tick as f64 * step, plain(tick as f64 * step, decimals)));
    Ticks { unit: "", ticks: ticks.collect() }
}

fn plain(number: f64, decimals: usize) -> String {
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_of_a_unit_that_fits() {
        let shown =
            |ticks: Ticks| (ticks.unit, ticks.ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" "));
        assert_eq!(shown(time(0.0, 100.0, 6.0)), ("s", "0 20 40 60 80 100".into()));
        assert_eq!(shown(time(0.0, 7300.0, 5.0)), ("h", "0.0 0.5 1.0 1.5 2.0".into()));
        assert_eq!(shown(time(0.0, 0.35, 4.0)), ("s", "0.0 0.1 0.2 0.3".into()));
        assert_eq!(shown(number(95.0, 105.0, 5.0)), ("", "96 98 100 102 104".into()));
        assert_eq!(shown(number(3.0, 3.0, 5.0)), ("", "3".into()));
        assert_eq!(time(0.0, f64::NAN, 5.0).ticks.len(), 1);
    }
}
