//! Numbers on a command line: read whole or refused with their bounds in words.
//!
//! For clap's `value_parser`: what comes back as an error is the way out, the flag and the value are named by
//! whoever prints it.

use core::fmt::Display;
use core::ops::RangeInclusive;
use core::str::FromStr;

/// A reader of whole numbers within `bounds`.
pub fn whole<T>(
    bounds: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.trim().parse() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(wish("a whole number", &bounds)),
    }
}

/// A reader of numbers within `bounds`, which infinity and NaN never are.
pub fn real(
    bounds: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| match text.trim().parse::<f64>() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(wish("a number", &bounds)),
    }
}

/// A reader of numbers whose bounds are known later.
///
/// # Errors
/// It is no number.
pub fn any_real(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| "give a number".to_owned())
}

/// A reader of whole numbers whose bounds are known later.
///
/// # Errors
/// It is no whole number from 0.
pub fn any_whole(text: &str) -> Result<usize, String> {
    text.trim()
        .parse()
        .map_err(|_| "give a whole number from 0".to_owned())
}

/// What to give instead.
pub fn wish<T: Display>(kind: &str, bounds: &RangeInclusive<T>) -> String {
    format!("give {kind} from {} to {}", bounds.start(), bounds.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_within_their_bounds_or_refused_with_them() {
        let count = whole(1..=60_000usize);
        assert_eq!((count("1"), count(" 60000 ")), (Ok(1), Ok(60_000)));
        for wrong in ["0", "60001", "-1", "1.5", "", "ten", "99999999999999999999999"] {
            assert_eq!(
                count(wrong),
                Err("give a whole number from 1 to 60000".to_owned()),
                "{wrong}"
            );
        }
        let share = real(0.5..=10.0);
        assert_eq!(share("0.5"), Ok(0.5));
        for wrong in ["0.4", "-1", "nan", "inf", "x", ""] {
            assert_eq!(
                share(wrong),
                Err("give a number from 0.5 to 10".to_owned()),
                "{wrong}"
            );
        }
    }
}
