//! Numbers as gopher-lua writes and reads them.
//!
//! Facts: gopher-lua writes whole numbers of 64 bits as integers and all others in the shortest form, with
//! an exponent below 1e-4 and from 1e6 on; `tonumber` takes a decimal point as the mark of a float, and
//! everything without one as an integer.

/// A number as text.
pub(crate) fn format_number(number: f64) -> String {
    to_integer(number).map_or_else(|| format_shortest(number), |whole| whole.to_string())
}

/// The number as an integer of 64 bits, where it is one.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
pub(crate) fn to_integer(number: f64) -> Option<i64> {
    // The bound itself does not fit.
    let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    (in_range && number.fract() == 0.0).then_some(number as i64)
}

/// A float in its shortest form, as Go's `%v` writes it.
pub(crate) fn format_shortest(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        }
        .to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        return format!("{digits}{}", go_exponent(exponent));
    }
    number.to_string()
}

/// An exponent as Go writes it: a sign and at least two digits.
pub(crate) fn go_exponent(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.unsigned_abs())
}

/// Reads a string as `tonumber` does.
#[expect(clippy::cast_precision_loss, reason = "all numbers of Lua 5.1 are floats")]
pub(crate) fn parse_number(text: &str, base: Option<u32>) -> Option<f64> {
    let text = text.trim_matches([' ', '\n', '\t']);
    if text.contains('.') {
        return go_float(text);
    }
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (base, digits) = match base {
        None => hexadecimal.map_or((10, text), |digits| (16, digits)),
        Some(base) => (base, text),
    };
    i64::from_str_radix(digits, base).ok().map(|whole| whole as f64)
}

/// Reads a decimal float, but not `inf` and `nan`, which Rust accepts.
pub(crate) fn go_float(text: &str) -> Option<f64> {
    if !text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-' | b'e' | b'E')) {
        return None;
    }
    let float = text.parse().ok();
    float.filter(|float: &f64| float.is_finite())
}

/// Converts a number to 32 bits, truncated towards zero. A number that does not fit becomes the smallest
/// one, as on amd64.
pub fn to_int32(number: f64) -> i32 {
    let cut = number.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
    let fits = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&cut).then_some(cut as i32);
    fits.unwrap_or(i32::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_real_machine_writes_them() {
        for (number, want) in [
            (100.0, "100"),
            (1e15, "1000000000000000"),
            (-0.0, "0"),
            (2.5, "2.5"),
            (1_234_567.5, "1.2345675e+06"),
            (123_456.5, "123456.5"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e20, "1e+20"),
            (9_223_372_036_854_775_808.0, "9.223372036854776e+18"),
            (1e-7, "1e-07"),
            (0.0001, "0.0001"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(format_number(number), want);
        }
    }

    #[test]
    fn strings_are_read_as_integers_unless_they_have_a_point() {
        assert_eq!(parse_number("1.0e3", None), Some(1000.0));
        assert_eq!(parse_number("1e3", None), None);
        assert_eq!(parse_number("  12  ", None), Some(12.0));
        assert_eq!(parse_number("0x10", None), Some(16.0));
        assert_eq!(parse_number("ff", Some(16)), Some(255.0));
        assert_eq!(parse_number("", None), None);
        assert_eq!(parse_number(".", None), None);
    }

    #[test]
    fn what_does_not_fit_is_the_smallest_number() {
        assert_eq!([1.9, -1.9, 2e10, f64::NAN].map(to_int32), [1, -1, i32::MIN, i32::MIN]);
    }
}
