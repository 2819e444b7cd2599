//! Sprig's functions for upper and lower case and for words.
//!
//! Facts: `snakecase` and `kebabcase` split between lower and upper case, before the last of several upper case
//! letters, and around digits, except that digits with lower case letters behind them are one word.

use super::FunctionParameter::Text;
use super::{GoFunction, make_text, strings};
use crate::text::{chars, map_chars, to_lower, to_upper};

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("upper", &[Text], |a, budget| strings::change_case(a, true, budget)),
    GoFunction::new("lower", &[Text], |a, budget| strings::change_case(a, false, budget)),
    GoFunction::new("title", &[Text], |a, budget| make_text(to_title(a.text(0)), budget)),
    GoFunction::new("untitle", &[Text], |a, budget| make_text(uncapitalize(a.text(0)), budget)),
    GoFunction::new("swapcase", &[Text], |a, budget| make_text(swap_case(a.text(0)), budget)),
    GoFunction::new("initials", &[Text], |a, budget| make_text(initials(a.text(0)), budget)),
    GoFunction::new("nospace", &[Text], |a, budget| {
        let text = a.text(0);
        let kept: String = text.iter().map(|byte| char::from(*byte)).filter(|c| !c.is_whitespace()).collect();
        // Each byte counts as a character as soon as one goes.
        let is_whole = kept.chars().count() == text.len();
        if is_whole { make_text(text, budget) } else { make_text(kept, budget) }
    }),
    GoFunction::new("camelcase", &[Text], |a, budget| make_text(camel_case(a.text(0)), budget)),
    GoFunction::new("snakecase", &[Text], |a, budget| make_text(join_words(a.text(0), '_'), budget)),
    GoFunction::new("kebabcase", &[Text], |a, budget| make_text(join_words(a.text(0), '-'), budget)),
];

/// Each letter after what separates words in upper case.
fn to_title(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut starts = true;
    for (part, c) in chars(bytes) {
        if starts {
            out.extend_from_slice(to_upper(c).encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            out.extend_from_slice(part);
        }
        starts = if c.is_ascii() {
            !(c.is_ascii_alphanumeric() || c == '_')
        } else {
            !c.is_alphanumeric() && c.is_whitespace()
        };
    }
    out
}

/// The first letter of each word in lower case.
fn uncapitalize(bytes: &[u8]) -> String {
    let mut starts = true;
    map_chars(bytes, |c| {
        if c.is_whitespace() {
            starts = true;
            return c;
        }
        if std::mem::take(&mut starts) { to_lower(c) } else { c }
    })
}

fn swap_case(bytes: &[u8]) -> String {
    let mut after_space = true;
    map_chars(bytes, |c| {
        if c.is_uppercase() {
            after_space = false;
            to_lower(c)
        } else if c.is_lowercase() {
            after_space = false;
            to_upper(c)
        } else {
            after_space = c.is_whitespace();
            c
        }
    })
}

/// The first byte of each word, each as a character.
fn initials(bytes: &[u8]) -> String {
    let mut starts = true;
    let mut out = String::new();
    for c in bytes.iter().map(|byte| char::from(*byte)) {
        if c.is_whitespace() {
            starts = true;
        } else if std::mem::take(&mut starts) {
            out.push(c);
        }
    }
    out
}

/// A character between words.
fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// The words joined, each with an upper case letter. Connectors at the start stay, and all but one between words.
fn camel_case(bytes: &[u8]) -> String {
    let all: Vec<char> = chars(bytes).map(|(_, c)| c).collect();
    let start = all.iter().take_while(|c| is_connector(**c)).count();
    let (leading, words) = all.split_at(start.min(all.len()));
    let mut out: String = leading.iter().collect();
    if words.is_empty() {
        // The last connector is written twice where nothing else follows.
        out.extend(leading.last());
    }
    let mut before: Option<char> = None;
    for (at, c) in words.iter().copied().enumerate() {
        let last = at + 1 == words.len();
        match before {
            None => out.push(to_upper(c)),
            Some(before) if is_connector(before) && is_connector(c) => out.push(before),
            Some(before) if is_connector(before) => out.push(to_upper(c)),
            Some(_) if is_connector(c) => {}
            Some(_) => out.push(c),
        }
        if last && is_connector(c) && before.is_some() {
            out.push(c);
        }
        before = Some(c);
    }
    out
}

/// The kinds of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    Digits,
    /// Begins with an upper case letter.
    Upper,
    Letters,
    Connectors,
    Punctuation,
    Other,
}

/// Punctuation, as Unicode has it; of ASCII, what is no symbol.
fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation() && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
    }
    matches!(c, '¡' | '§' | '«' | '¶' | '·' | '»' | '¿' | '‐'..='‧' | '‰'..='⁞' | '、'..='〃')
}

/// A letter of an alphabet, which Chinese characters are not.
fn is_letter(c: char) -> bool {
    let is_chinese =
        matches!(c, '\u{3400}'..='\u{4d85}' | '\u{4e00}'..='\u{9fcc}' | '\u{20000}'..='\u{2b81d}');
    c.is_alphabetic() && !c.is_numeric() && !is_chinese
}

fn kind_of(c: char) -> WordKind {
    if is_connector(c) {
        WordKind::Connectors
    } else if is_punctuation(c) {
        WordKind::Punctuation
    } else if c.is_uppercase() {
        WordKind::Upper
    } else if is_letter(c) {
        WordKind::Letters
    } else if c.is_numeric() {
        WordKind::Digits
    } else {
        WordKind::Other
    }
}

/// Splits a text into words.
fn split_words(all: &[char]) -> Vec<(WordKind, &[char])> {
    let mut words = Vec::new();
    let mut rest = all;
    while let Some(first) = rest.first() {
        let kind = kind_of(*first);
        let run = |kind: WordKind, from: usize| {
            from + rest.iter().skip(from).take_while(|c| kind_of(**c) == kind).count()
        };
        let length = match kind {
            WordKind::Upper => {
                let uppers = run(WordKind::Upper, 0);
                let is_followed = rest.get(uppers).is_some_and(|c| kind_of(*c) == WordKind::Letters);
                match uppers {
                    1 if is_followed => run(WordKind::Letters, 1),
                    // The last one belongs to the letters behind it.
                    _ if is_followed => uppers - 1,
                    _ => uppers,
                }
            }
            kind => run(kind, 0),
        };
        let (word, after) = rest.split_at(length.max(1).min(rest.len()));
        words.push((kind, word));
        rest = after;
    }
    words
}

/// The words in lower case with a connector between them.
fn join_words(bytes: &[u8], connector: char) -> String {
    let all: Vec<char> = chars(bytes).map(|(_, c)| c).collect();
    let words = split_words(&all);
    let mut out = String::new();
    let mut at = 0;
    let is_part = |kind: WordKind| matches!(kind, WordKind::Letters | WordKind::Digits);
    // Words of letters and digits from one on, which are one word.
    let write_parts = |out: &mut String, from: usize| {
        let parts = words.iter().skip(from).take_while(|(kind, _)| is_part(*kind));
        from + parts.map(|(_, word)| out.extend(word.iter())).count()
    };
    while let Some((kind, word)) = words.get(at).copied() {
        let next = words.get(at + 1).map(|(kind, _)| *kind);
        at += 1;
        match kind {
            WordKind::Connectors => out.extend(word.iter().map(|_| connector)),
            WordKind::Upper => {
                out.extend(word.iter().map(|c| if c.is_uppercase() { to_lower(*c) } else { *c }));
            }
            _ => out.extend(word.iter()),
        }
        let separates = |kind: Option<WordKind>| {
            kind.is_some_and(|kind| !matches!(kind, WordKind::Connectors | WordKind::Punctuation))
        };
        match kind {
            WordKind::Connectors | WordKind::Punctuation => {}
            WordKind::Digits => {
                at = write_parts(&mut out, at);
                if separates(words.get(at).map(|(kind, _)| *kind)) {
                    out.push(connector);
                }
            }
            _ if next != Some(WordKind::Digits) => {
                if separates(next) {
                    out.push(connector);
                }
            }
            // Digits belong to the word before them, unless lower case letters follow.
            _ => {
                let after = words.get(at + 1).map(|(kind, _)| *kind);
                if after == Some(WordKind::Letters) {
                    out.push(connector);
                    at = write_parts(&mut out, at);
                    if separates(words.get(at).map(|(kind, _)| *kind)) {
                        out.push(connector);
                    }
                } else if let Some((_, digits)) = words.get(at) {
                    out.extend(digits.iter());
                    at += 1;
                    if separates(after) {
                        out.push(connector);
                    }
                }
            }
        }
    }
    out
}
