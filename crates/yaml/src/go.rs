//! Texts as Go's YAML library writes them: which style they have, what is escaped, and where lines are folded.
//!
//! Facts: a text that would be read as another value is in double quotes, as is one that YAML 1.1 reads in base 60;
//! `<<` is plain. A plain or quoted text is folded at the first blank after column 80. Characters above U+FFFF are
//! escaped, and line separators of Unicode break lines.

use super::scalar::{self, PlainScalar};

/// The column after which lines are folded.
const FOLD_COLUMN: usize = 80;

/// The longest key that is not written in the explicit form, in bytes.
const MAX_SIMPLE_KEY: usize = 128;

/// The styles that a text allows.
struct Allowed {
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

/// Whether a key is written in the explicit form.
pub(super) fn is_explicit_key(name: &str) -> bool {
    name.len() > MAX_SIMPLE_KEY || name.contains(is_break)
}

/// Appends a key, which is never folded.
pub(super) fn write_key(name: &str, out: &mut String) {
    let allowed = find_allowed_styles(name);
    match (is_read_as_text(name), &allowed) {
        (true, Allowed { plain: true, .. }) => out.push_str(name),
        (true, Allowed { single_quoted: true, .. }) => Writer::new(out, None).write_single_quoted(name),
        _ => Writer::new(out, None).write_double_quoted(name),
    }
}

/// Appends a text that is not a key. Its further lines are indented by `indent` spaces.
pub(super) fn write_text(text: &str, indent: usize, out: &mut String) {
    let allowed = find_allowed_styles(text);
    let mut writer = Writer::new(out, Some(indent));
    if text.contains('\n') {
        if allowed.literal { writer.write_literal(text, indent) } else { writer.write_double_quoted(text) }
    } else if !is_read_as_text(text) {
        writer.write_double_quoted(text);
    } else if allowed.plain {
        writer.write_plain(text);
    } else if allowed.single_quoted {
        writer.write_single_quoted(text);
    } else {
        writer.write_double_quoted(text);
    }
}

/// Whether the plain text is read as itself, by this library and by older ones.
fn is_read_as_text(text: &str) -> bool {
    scalar::resolve_plain(text) == PlainScalar::Text && !is_timestamp(text) && !is_sexagesimal(text)
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn find_allowed_styles(text: &str) -> Allowed {
    let (mut indicators, mut breaks, mut special) = (false, false, false);
    let (mut break_space, mut space_break) = (false, false);
    indicators |= text.starts_with("---") || text.starts_with("...");
    let mut previous: Option<char> = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let blank_follows = characters.peek().is_none_or(|next| is_blank(*next) || is_break(*next));
        indicators |= match (previous, c) {
            (
                None,
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`',
            ) => true,
            (None, '?' | ':' | '-') | (Some(_), ':') => blank_follows,
            (Some(before), '#') => is_blank(before) || is_break(before),
            _ => false,
        };
        special |= !is_printable(c);
        breaks |= is_break(c);
        break_space |= c == ' ' && previous.is_some_and(is_break);
        space_break |= is_break(c) && previous == Some(' ');
        previous = Some(c);
    }
    let edges = [text.chars().next(), text.chars().next_back()];
    let edges = edges.into_iter().flatten().any(|c| c == ' ' || is_break(c));
    let fits = !space_break && !special;
    Allowed {
        plain: fits && !edges && !break_space && !breaks && !indicators,
        single_quoted: fits && !break_space,
        literal: fits && !text.ends_with(' '),
    }
}

/// Writes the characters of one text.
struct Writer<'o> {
    out: &'o mut String,
    /// The indentation of further lines; `None` in keys, which have none.
    indent: Option<usize>,
    column: usize,
}

impl<'o> Writer<'o> {
    fn new(out: &'o mut String, indent: Option<usize>) -> Self {
        let column = out.rsplit('\n').next().unwrap_or_default().chars().count();
        Self { out, indent, column }
    }

    fn push(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    /// Begins a further line where the text may be folded here; returns whether it was.
    fn fold_line(&mut self) -> bool {
        let Some(indent) = self.indent.filter(|_| self.column > FOLD_COLUMN) else { return false };
        self.out.push('\n');
        self.column = 0;
        self.pad_to(indent);
        true
    }

    fn pad_to(&mut self, indent: usize) {
        while self.column < indent {
            self.push(' ');
        }
    }

    fn write_plain(&mut self, text: &str) {
        let mut after_space = false;
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            let single = c == ' ' && !after_space && characters.peek() != Some(&' ');
            if !(single && self.fold_line()) {
                self.push(c);
            }
            after_space = c == ' ';
        }
    }

    fn write_single_quoted(&mut self, text: &str) {
        self.push('\'');
        let (mut after_space, mut after_break) = (false, false);
        let last = text.chars().count().saturating_sub(1);
        let mut characters = text.chars().enumerate().peekable();
        while let Some((at, c)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            if is_break(c) {
                self.push(c);
                (self.column, after_break) = (0, true);
                continue;
            }
            if after_break {
                self.pad_to(self.indent.unwrap_or_default());
            }
            let single = c == ' ' && !after_space && at > 0 && at < last && next != Some(' ');
            if !(single && self.fold_line()) {
                if c == '\'' {
                    self.push('\'');
                }
                self.push(c);
            }
            (after_space, after_break) = (c == ' ', false);
        }
        if after_break {
            self.pad_to(self.indent.unwrap_or_default());
        }
        self.push('\'');
    }

    fn write_double_quoted(&mut self, text: &str) {
        self.push('"');
        let mut after_space = false;
        let last = text.chars().count().saturating_sub(1);
        let mut characters = text.chars().enumerate().peekable();
        while let Some((at, c)) = characters.next() {
            if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.write_escape(c);
                after_space = false;
                continue;
            }
            let folds = c == ' ' && !after_space && at > 0 && at < last;
            if folds && self.fold_line() {
                if characters.peek().is_some_and(|(_, next)| *next == ' ') {
                    self.push('\\');
                }
            } else {
                self.push(c);
            }
            after_space = c == ' ';
        }
        self.push('"');
    }

    fn write_escape(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => c,
            '\u{85}' => 'N',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = u32::from(c);
                let text = match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                return text.chars().for_each(|c| self.push(c));
            }
        };
        self.push('\\');
        self.push(short);
    }

    /// A literal block, without the line break at its end.
    fn write_literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.out.push('2');
        }
        let mut from_end = text.chars().rev();
        match (from_end.next(), from_end.next()) {
            (Some(last), _) if !is_break(last) => self.out.push('-'),
            (_, None) => self.out.push('+'),
            (_, Some(before)) if is_break(before) => self.out.push('+'),
            _ => {}
        }
        self.out.push('\n');
        let mut after_break = true;
        for c in text.strip_suffix('\n').unwrap_or(text).chars() {
            if is_break(c) {
                self.out.push(c);
            } else {
                if after_break {
                    self.out.extend(std::iter::repeat_n(' ', indent));
                }
                self.out.push(c);
            }
            after_break = is_break(c);
        }
    }
}

/// Whether the text is a number in base 60, as `1:30`.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let Some(first) = parts.next() else { return false };
    let is_first = first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let rest: Vec<&str> = parts.collect();
    let Some((last, inner)) = rest.split_last() else { return false };
    let (whole, fraction) = last.split_once('.').unwrap_or((last, ""));
    is_first
        && inner.iter().all(|part| is_sexagesimal_part(part))
        && is_sexagesimal_part(whole)
        && fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

/// Whether the text is one digit, or a number below 60 in two digits.
fn is_sexagesimal_part(text: &str) -> bool {
    match text.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [tens, digit] => (b'0'..=b'5').contains(tens) && digit.is_ascii_digit(),
        _ => false,
    }
}

/// Whether the text is a date, or a time on a date.
fn is_timestamp(text: &str) -> bool {
    let (Some(date), rest) = (text.get(..text.find(['T', 't', ' ']).unwrap_or(text.len())), text) else {
        return false;
    };
    let rest = rest.get(date.len()..).unwrap_or_default();
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = *parts.as_slice() else { return false };
    let (Some(years), Some(months), Some(days)) =
        (parse_digits(year, 4), parse_digits(month, 2), parse_digits(day, 2))
    else {
        return false;
    };
    let leap = years.is_multiple_of(4) && (!years.is_multiple_of(100) || years.is_multiple_of(400));
    let in_month = match months {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    year.len() == 4 && (1..=in_month).contains(&days) && (rest.is_empty() || is_time(rest))
}

/// The number that the text is, if it has only digits, and at most `most`.
fn parse_digits(text: &str, most: usize) -> Option<u32> {
    let is_number = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Whether the text after a date is a time: with a zone after `T` or `t`, without one after a blank.
fn is_time(text: &str) -> bool {
    let (zoned, text) = match (text.strip_prefix(['T', 't']), text.strip_prefix(' ')) {
        (Some(text), _) => (true, text),
        (_, Some(text)) => (false, text),
        _ => return false,
    };
    let clock = if zoned {
        if let Some(clock) = text.strip_suffix('Z') {
            clock
        } else {
            let Some(at) = text.rfind(['+', '-']) else { return false };
            let (clock, zone) = text.split_at(at);
            let (hours, minutes) = zone[1..].split_once(':').unwrap_or_default();
            let has_two_digits = hours.len() == 2 && minutes.len() == 2;
            if !has_two_digits || !is_below_limit(hours, 24) || !is_below_limit(minutes, 60) {
                return false;
            }
            clock
        }
    } else {
        text
    };
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, f)| (clock, Some(f)));
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = *parts.as_slice() else { return false };
    is_below_limit(hours, 24)
        && is_below_limit(minutes, 60)
        && is_below_limit(seconds, 60)
        && fraction.is_none_or(|f| !f.is_empty() && f.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the text is a number of one or two digits below a limit.
fn is_below_limit(text: &str, limit: u32) -> bool {
    (1..=2).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<u32>().is_ok_and(|number| number < limit)
}
