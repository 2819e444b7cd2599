//! The verbs of Go's `fmt`, and how `print` and `println` join values.

use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::literal::{quote_char, quote_text};
use crate::number::{display_float, format_float};
use crate::text::{GoText, chars, count_chars};
use crate::value::{GoList, GoMap, GoValue, descend};

/// The largest width and precision, as in Go.
const MAX_NUMBER: usize = 1_000_000;

/// A value as `%v` prints it.
pub(crate) fn display_value(
    value: &GoValue,
    budget: &mut TemplateBudget,
) -> Result<Vec<u8>, TemplateFailure> {
    if let GoValue::Text(text) = value {
        return Ok(text.bytes().to_vec());
    }
    let mut printer = Printer::new(budget);
    printer.print_argument(value, 'v', 0)?;
    Ok(printer.out)
}

/// The values next to each other, with a blank between two that are both no texts.
pub(crate) fn print(values: &[GoValue], budget: &mut TemplateBudget) -> Result<GoText, TemplateFailure> {
    let mut printer = Printer::new(budget);
    let mut after_text = true;
    for value in values {
        let is_text = matches!(value, GoValue::Text(_));
        if !is_text && !after_text {
            printer.out.push(b' ');
        }
        printer.print_argument(value, 'v', 0)?;
        after_text = is_text;
    }
    Ok(printer.out.into())
}

/// The values with blanks between them, and a newline.
pub(crate) fn print_line(values: &[GoValue], budget: &mut TemplateBudget) -> Result<GoText, TemplateFailure> {
    let mut printer = Printer::new(budget);
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            printer.out.push(b' ');
        }
        printer.print_argument(value, 'v', 0)?;
    }
    printer.out.push(b'\n');
    Ok(printer.out.into())
}

/// The flags of a verb.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%#v`.
    sharp_v: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

struct Printer<'b> {
    out: Vec<u8>,
    flags: Flags,
    budget: &'b mut TemplateBudget,
}

/// The values of a format, and the next of them.
struct FormatArguments<'v> {
    values: &'v [GoValue],
    next: usize,
    /// Whether an index such as `[2]` was used.
    reordered: bool,
    /// Whether the last index was one of a value.
    good_index: bool,
}

impl<'v> FormatArguments<'v> {
    fn take(&mut self) -> Option<&'v GoValue> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        Some(value)
    }

    /// Reads `[n]` at the start of `rest`. Returns what follows, and whether there was one.
    fn read_index<'f>(&mut self, rest: &'f [u8]) -> (&'f [u8], bool) {
        let Some(inside) = rest.strip_prefix(b"[") else { return (rest, false) };
        self.reordered = true;
        let Some(end) = inside.iter().position(|byte| *byte == b']') else {
            self.good_index = false;
            return (inside, false);
        };
        let (digits, after) = inside.split_at(end);
        let after = after.get(1..).unwrap_or_default();
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<usize>().ok());
        let at = number.and_then(|number| number.checked_sub(1)).filter(|at| *at < self.values.len());
        self.good_index &= at.is_some();
        self.next = at.unwrap_or(self.next);
        (after, true)
    }

    /// The number that `*` stands for, and whether it is one.
    fn take_number(&mut self) -> Option<i64> {
        let number = match self.take()? {
            GoValue::Int(_, number) => *number,
            GoValue::Uint(_, number) => i64::try_from(*number).ok()?,
            _ => return None,
        };
        (number.unsigned_abs() <= MAX_NUMBER as u64).then_some(number)
    }
}

/// The values in a format.
pub(crate) fn print_format(
    format: &[u8],
    values: &[GoValue],
    budget: &mut TemplateBudget,
) -> Result<GoText, TemplateFailure> {
    let mut printer = Printer::new(budget);
    let mut arguments = FormatArguments { values, next: 0, reordered: false, good_index: true };
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let (before, after) = rest.split_at(at);
        printer.write(before)?;
        rest = printer.print_verb(after.get(1..).unwrap_or_default(), &mut arguments)?;
    }
    printer.write(rest)?;
    if !arguments.reordered && arguments.next < values.len() {
        printer.flags = Flags::default();
        printer.write(b"%!(EXTRA ")?;
        for (at, value) in values.iter().skip(arguments.next).enumerate() {
            if at > 0 {
                printer.write(b", ")?;
            }
            if matches!(value, GoValue::Nil) {
                printer.write(b"<nil>")?;
            } else {
                printer.write(value.type_name().as_bytes())?;
                printer.write(b"=")?;
                printer.print_argument(value, 'v', 0)?;
            }
        }
        printer.write(b")")?;
    }
    Ok(printer.out.into())
}

/// The digits at the start of `rest`: their number, if there are any, and what follows. After too many digits, Go reads nothing more.
fn read_digits(rest: &[u8]) -> (Option<usize>, &[u8]) {
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, after) = rest.split_at(length);
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<usize>().ok());
    match number {
        Some(number) if number / 10 > MAX_NUMBER => (None, &[]),
        number => (number, after),
    }
}

impl<'b> Printer<'b> {
    fn new(budget: &'b mut TemplateBudget) -> Self {
        Self { out: Vec::new(), flags: Flags::default(), budget }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TemplateFailure> {
        self.budget.spend_bytes(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Prints one verb after its `%`, and returns what follows it.
    fn print_verb<'f>(
        &mut self,
        format: &'f [u8],
        arguments: &mut FormatArguments<'_>,
    ) -> Result<&'f [u8], TemplateFailure> {
        self.flags = Flags::default();
        arguments.good_index = true;
        let mut rest = format;
        while let Some(flag) = rest.first() {
            match flag {
                b'#' => self.flags.sharp = true,
                b'0' => self.flags.zero = true,
                b'+' => self.flags.plus = true,
                b'-' => self.flags.minus = true,
                b' ' => self.flags.space = true,
                _ => break,
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        let (after, mut after_index) = arguments.read_index(rest);
        rest = after;
        if let Some(after) = rest.strip_prefix(b"*") {
            rest = after;
            match arguments.take_number() {
                Some(width) => {
                    self.flags.minus |= width < 0;
                    self.flags.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => self.write(b"%!(BADWIDTH)")?,
            }
            after_index = false;
        } else {
            let (width, after) = read_digits(rest);
            self.flags.width = width;
            rest = after;
            // `%[3]2d` is an error.
            if after_index && width.is_some() {
                arguments.good_index = false;
            }
        }
        if let Some(after) = rest.strip_prefix(b".") {
            if after_index {
                arguments.good_index = false;
            }
            (rest, after_index) = arguments.read_index(after);
            if let Some(after) = rest.strip_prefix(b"*") {
                rest = after;
                match arguments.take_number().map(usize::try_from) {
                    Some(precision) => self.flags.precision = precision.ok(),
                    None => self.write(b"%!(BADPREC)")?,
                }
                after_index = false;
            } else {
                let (precision, after) = read_digits(rest);
                self.flags.precision = Some(precision.unwrap_or(0));
                rest = after;
            }
        }
        if !after_index {
            (rest, _) = arguments.read_index(rest);
        }
        let Some((part, verb)) = chars(rest).next() else {
            self.write(b"%!(NOVERB)")?;
            return Ok(&[]);
        };
        rest = rest.get(part.len()..).unwrap_or_default();
        if verb == '%' {
            self.write(b"%")?;
        } else if !arguments.good_index {
            self.write(format!("%!{verb}(BADINDEX)").as_bytes())?;
        } else if let Some(value) = arguments.take() {
            if verb == 'v' {
                self.flags.sharp_v = std::mem::take(&mut self.flags.sharp);
                // It is about the names of fields.
                self.flags.plus = false;
            }
            self.print_argument(value, verb, 0)?;
        } else {
            self.write(format!("%!{verb}(MISSING)").as_bytes())?;
        }
        Ok(rest)
    }

    /// Prints a value with a verb that may not fit it.
    fn print_argument(&mut self, value: &GoValue, verb: char, depth: usize) -> Result<(), TemplateFailure> {
        self.budget.spend_steps(1)?;
        if verb == 'T' && depth == 0 {
            return self.pad(value.type_name().as_bytes());
        }
        match value {
            GoValue::Nil if depth > 0 && self.flags.sharp_v => self.write(b"interface {}(nil)"),
            GoValue::Nil if depth > 0 => self.write(b"<nil>"),
            GoValue::Nil if verb == 'v' => self.pad(b"<nil>"),
            GoValue::Bool(bool) if matches!(verb, 't' | 'v') => self.pad(bool.to_string().as_bytes()),
            GoValue::Int(_, number) => self.print_integer(value, i128::from(*number), verb, depth),
            GoValue::Uint(_, number) => self.print_integer(value, i128::from(*number), verb, depth),
            GoValue::Float(number) => self.print_float(value, *number, verb, depth),
            GoValue::Text(text) => self.print_text(value, text.bytes(), verb, depth),
            GoValue::List(list) => self.print_list(list, verb, depth),
            GoValue::Map(map) => self.print_map(map, verb, depth),
            GoValue::Time(_) | GoValue::Version(_)
                if self.flags.sharp_v || !matches!(verb, 'v' | 's' | 'q' | 'x' | 'X') =>
            {
                // Go prints private fields.
                let name = value.type_name();
                Err(TemplateFailure::function(format!("federate does not carry out %{verb} of {name}")))
            }
            GoValue::Time(time) => self.print_text(value, time.to_string().as_bytes(), verb, depth),
            GoValue::Version(version) => self.print_text(value, version.to_string().as_bytes(), verb, depth),
            _ => self.print_bad_verb(value, verb, depth),
        }
    }

    /// What stands for a value that a verb does not fit.
    fn print_bad_verb(&mut self, value: &GoValue, verb: char, depth: usize) -> Result<(), TemplateFailure> {
        self.write(format!("%!{verb}(").as_bytes())?;
        if matches!(value, GoValue::Nil) {
            self.write(b"<nil>")?;
        } else {
            self.write(value.type_name().as_bytes())?;
            self.write(b"=")?;
            self.print_argument(value, 'v', depth)?;
        }
        self.write(b")")
    }

    fn print_list(&mut self, list: &GoList, verb: char, depth: usize) -> Result<(), TemplateFailure> {
        let deeper = descend(depth)?;
        let (open, separator, close) = if self.flags.sharp_v { ("{", ", ", "}") } else { ("[", " ", "]") };
        if self.flags.sharp_v {
            self.write(GoValue::List(list.clone()).type_name().as_bytes())?;
            if list.is_nil() {
                return self.write(b"(nil)");
            }
        }
        self.write(open.as_bytes())?;
        for (at, item) in list.items().iter().enumerate() {
            if at > 0 {
                self.write(separator.as_bytes())?;
            }
            self.print_argument(item, verb, deeper)?;
        }
        self.write(close.as_bytes())
    }

    fn print_map(&mut self, map: &GoMap, verb: char, depth: usize) -> Result<(), TemplateFailure> {
        let deeper = descend(depth)?;
        let sharp = self.flags.sharp_v;
        if sharp {
            self.write(GoValue::Map(map.clone()).type_name().as_bytes())?;
            if map.is_nil() {
                return self.write(b"(nil)");
            }
        }
        self.write(if sharp { b"{" } else { b"map[" })?;
        for (at, (key, value)) in map.entries().into_iter().enumerate() {
            if at > 0 {
                self.write(if sharp { b", " } else { b" " })?;
            }
            self.print_argument(&GoValue::Text(key), verb, deeper)?;
            self.write(b":")?;
            self.print_argument(&value, verb, deeper)?;
        }
        self.write(if sharp { b"}" } else { b"]" })
    }

    fn print_text(
        &mut self,
        value: &GoValue,
        bytes: &[u8],
        verb: char,
        depth: usize,
    ) -> Result<(), TemplateFailure> {
        match verb {
            'v' if self.flags.sharp_v => self.print_quoted(bytes),
            'v' | 's' => self.pad(self.truncate(bytes)),
            'q' => self.print_quoted(self.truncate(bytes)),
            'x' | 'X' => self.print_hex(bytes, verb),
            _ => self.print_bad_verb(value, verb, depth),
        }
    }

    /// The first characters, as many as the precision says.
    fn truncate<'t>(&self, bytes: &'t [u8]) -> &'t [u8] {
        let Some(precision) = self.flags.precision else { return bytes };
        let length = chars(bytes).take(precision).map(|(part, _)| part.len()).sum::<usize>();
        bytes.get(..length).unwrap_or(bytes)
    }

    fn print_quoted(&mut self, bytes: &[u8]) -> Result<(), TemplateFailure> {
        let mut quoted = Vec::new();
        let raw = self.flags.sharp
            && std::str::from_utf8(bytes).is_ok()
            && chars(bytes).all(|(_, c)| c == '\t' || (c != '`' && c != '\u{feff}' && !c.is_control()));
        if raw {
            quoted.push(b'`');
            quoted.extend_from_slice(bytes);
            quoted.push(b'`');
        } else {
            quote_text(bytes, self.flags.plus, &mut quoted);
        }
        self.pad(&quoted)
    }

    fn print_hex(&mut self, bytes: &[u8], verb: char) -> Result<(), TemplateFailure> {
        let bytes = bytes.get(..self.flags.precision.unwrap_or(bytes.len())).unwrap_or(bytes);
        self.budget.spend_bytes(bytes.len().saturating_mul(3))?;
        let prefix = match (self.flags.sharp && !bytes.is_empty(), verb) {
            (true, 'x') => "0x",
            (true, _) => "0X",
            (false, _) => "",
        };
        let digits =
            bytes.iter().map(|byte| if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
        let digits: Vec<String> = digits.collect();
        let text = if self.flags.space {
            digits.iter().map(|pair| format!("{prefix}{pair}")).collect::<Vec<_>>().join(" ")
        } else {
            format!("{prefix}{}", digits.concat())
        };
        self.pad(text.as_bytes())
    }

    fn print_integer(
        &mut self,
        value: &GoValue,
        number: i128,
        verb: char,
        depth: usize,
    ) -> Result<(), TemplateFailure> {
        let magnitude = number.unsigned_abs();
        let is_unsigned = matches!(value, GoValue::Uint(..));
        let (digits, prefix) = match verb {
            'v' if self.flags.sharp_v && is_unsigned => (format!("{magnitude:x}"), "0x"),
            'v' | 'd' => (magnitude.to_string(), ""),
            'b' => (format!("{magnitude:b}"), if self.flags.sharp { "0b" } else { "" }),
            'o' => {
                let digits = format!("{magnitude:o}");
                let prefix = if self.flags.sharp && !digits.starts_with('0') { "0" } else { "" };
                (digits, prefix)
            }
            'O' => (format!("{magnitude:o}"), "0o"),
            'x' => (format!("{magnitude:x}"), if self.flags.sharp { "0x" } else { "" }),
            'X' => (format!("{magnitude:X}"), if self.flags.sharp { "0X" } else { "" }),
            'c' | 'q' => {
                let c = u32::try_from(number).ok().and_then(char::from_u32);
                let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
                let mut text = Vec::new();
                if verb == 'q' {
                    quote_char(c, self.flags.plus, &mut text);
                } else {
                    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                return self.pad(&text);
            }
            'U' => return self.print_code_point(magnitude),
            _ => return self.print_bad_verb(value, verb, depth),
        };
        let Flags { plus, space, .. } = self.flags;
        let sign = if number < 0 {
            "-"
        } else if plus {
            "+"
        } else if space {
            " "
        } else {
            ""
        };
        let least = match (self.flags.precision, self.flags.width) {
            (Some(0), _) if number == 0 => {
                return self.pad_with_blanks(b"");
            }
            (Some(precision), _) => precision,
            (None, Some(width)) if self.flags.zero && !self.flags.minus => width.saturating_sub(sign.len()),
            _ => 0,
        };
        self.budget.spend_bytes(least)?;
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        let text = format!("{sign}{prefix}{zeros}{digits}");
        self.pad_with_blanks(text.as_bytes())
    }

    fn print_code_point(&mut self, magnitude: u128) -> Result<(), TemplateFailure> {
        let least = self.flags.precision.unwrap_or(4).max(4);
        self.budget.spend_bytes(least)?;
        let digits = format!("{magnitude:X}");
        let mut text = format!("U+{}{digits}", "0".repeat(least.saturating_sub(digits.len())));
        let c = u32::try_from(magnitude).ok().and_then(char::from_u32);
        if let Some(c) = c.filter(|c| self.flags.sharp && crate::text::is_printable(*c)) {
            text.push_str(&format!(" '{c}'"));
        }
        self.pad_with_blanks(text.as_bytes())
    }

    fn print_float(
        &mut self,
        value: &GoValue,
        number: f64,
        verb: char,
        depth: usize,
    ) -> Result<(), TemplateFailure> {
        let precision = self.flags.precision;
        self.budget.spend_bytes(precision.unwrap_or(0))?;
        if !number.is_finite() && matches!(verb, 'v' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'b' | 'x' | 'X') {
            let text = display_float(number);
            let text = if self.flags.plus { text } else { text.replace('+', "") };
            let text = if text == "Inf" { "+Inf".to_owned() } else { text };
            return self.pad_with_blanks(text.as_bytes());
        }
        let text = match verb {
            'v' | 'g' | 'G' => format_float(number, 'g', precision, self.flags.sharp),
            'e' | 'E' => format_float(number, 'e', Some(precision.unwrap_or(6)), false),
            'f' | 'F' => format_float(number, 'f', Some(precision.unwrap_or(6)), false),
            'b' => write_binary_float(number),
            'x' | 'X' if precision.is_none() && !self.flags.sharp => write_hex_float(number),
            'x' | 'X' => {
                return Err(TemplateFailure::function(
                    "federate does not carry out %x of a float with a precision or #",
                ));
            }
            _ => return self.print_bad_verb(value, verb, depth),
        };
        let text = if matches!(verb, 'E' | 'G' | 'X') { text.to_ascii_uppercase() } else { text };
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None if self.flags.plus => ("+", text.as_str()),
            None if self.flags.space => (" ", text.as_str()),
            None => ("", text.as_str()),
        };
        let zeros = match self.flags.width {
            Some(width) if self.flags.zero && !self.flags.minus => {
                width.saturating_sub(sign.len() + digits.len())
            }
            _ => 0,
        };
        self.budget.spend_bytes(zeros)?;
        let text = format!("{sign}{}{digits}", "0".repeat(zeros));
        self.pad_with_blanks(text.as_bytes())
    }

    /// Writes a text within the width, whose zeros it already has.
    fn pad_with_blanks(&mut self, bytes: &[u8]) -> Result<(), TemplateFailure> {
        let zero = std::mem::take(&mut self.flags.zero);
        let result = self.pad(bytes);
        self.flags.zero = zero;
        result
    }

    /// Writes a text within the width.
    fn pad(&mut self, bytes: &[u8]) -> Result<(), TemplateFailure> {
        let missing = self.flags.width.unwrap_or(0).saturating_sub(count_chars(bytes));
        self.budget.spend_bytes(missing)?;
        let fill = if self.flags.zero && !self.flags.minus { b'0' } else { b' ' };
        let padding = vec![fill; missing];
        if self.flags.minus {
            self.write(bytes)?;
            self.out.extend_from_slice(&padding);
            return Ok(());
        }
        self.out.extend_from_slice(&padding);
        self.write(bytes)
    }
}

/// The parts of a number: whether it is negative, its 53 bits, and the exponent of two of the last one.
fn split_float(number: f64) -> (&'static str, u64, i64) {
    const FRACTION: u32 = 52;
    let bits = number.to_bits();
    let fraction = bits & ((1 << FRACTION) - 1);
    let exponent = i64::try_from((bits >> FRACTION) & 0x7ff).unwrap_or(0);
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if exponent == 0 { (sign, fraction, -1074) } else { (sign, fraction | (1 << FRACTION), exponent - 1075) }
}

fn write_binary_float(number: f64) -> String {
    let (sign, mantissa, exponent) = split_float(number);
    format!("{sign}{mantissa}p{exponent:+}")
}

fn write_hex_float(number: f64) -> String {
    let (sign, mantissa, exponent) = split_float(number);
    if mantissa == 0 {
        return format!("{sign}0x0p+00");
    }
    // The first bit is the whole digit.
    let shift = mantissa.leading_zeros().saturating_sub(11);
    let mantissa = mantissa << shift;
    let exponent = exponent + 52 - i64::from(shift);
    let fraction = format!("{:013x}", mantissa & ((1 << 52) - 1));
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}0x1{point}{fraction}p{exponent_sign}{:02}", exponent.unsigned_abs())
}
