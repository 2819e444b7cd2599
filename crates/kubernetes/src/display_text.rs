//! Text of a repo, a server or a remote, as people and assistants may see it: every character that cannot be seen is written
//! out. What is printable is allowed; nothing lists what is not.
//!
//! Facts: `str::escape_debug` of the standard library leaves letters, marks, numbers, punctuation and symbols of Unicode as they
//! are; `Default_Ignorable_Code_Point` of Unicode's `DerivedCoreProperties.txt` and its blank symbols are not seen either; ECMA-48
//! (SGR).

use std::fmt::Write as _;

/// Characters of printable categories that are seen as nothing, or as a space: fillers, selectors of variants, and blanks.
const BLANKS: [(char, char); 15] = [
    ('\u{34f}', '\u{34f}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fffc}', '\u{fffc}'),
    ('\u{13441}', '\u{13446}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{1da7f}', '\u{1da80}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// The styles that federate itself gives text: bold, dim, italic, underlined, some colours, and the end of them.
const STYLES: [&str; 13] = ["0", "1", "2", "3", "4", "31", "32", "33", "34", "35", "36", "90", "91"];

/// Whether a character can be seen, or is a space.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    if BLANKS.iter().any(|(first, last)| (*first..=*last).contains(&c)) {
        return false;
    }
    // After another character, a mark is not escaped, which belongs to it.
    let mut buffer = [b'a'; 5];
    let length = 1 + c.encode_utf8(buffer.get_mut(1..).unwrap_or_default()).len();
    let text = buffer.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}

/// The text with `\u{…}` in place of each character that cannot be seen. Line breaks and tabs stay.
pub fn escape_text(text: &str) -> String {
    escape_where(
        text,
        |c| is_printable(c) || matches!(c, '\n' | '\t'),
        |out, c| out.extend(c.escape_unicode()),
    )
}

/// The text on one line, with `\u{…}` in place of each character that cannot be seen.
pub fn escape_line(text: &str) -> String {
    escape_where(text, is_printable, |out, c| match c {
        '\n' | '\t' => out.push(' '),
        '\r' => {}
        c => out.extend(c.escape_unicode()),
    })
}

/// The text on one line of at most this many characters.
pub fn shorten_line(text: &str, most: usize) -> String {
    let line = escape_line(text);
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// JSON with the escapes of JSON in place of characters that cannot be seen: it means the same.
pub fn escape_json(json: &str) -> String {
    escape_where(
        json,
        |c| is_printable(c) || matches!(c, '\n' | '\t'),
        |out, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// Text for a terminal, like [`escape_text`], in which the styles that federate gives text stay.
pub fn escape_styled(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default();
    if first.len() == text.len() {
        return escape_text(text);
    }
    let mut out = escape_text(first);
    for part in parts {
        let style = part.strip_prefix('[').and_then(|rest| rest.split_once('m')).map(|(style, _)| style);
        out.push_str(if style.is_some_and(|style| STYLES.contains(&style)) { "\u{1b}" } else { "\\u{1b}" });
        out.push_str(&escape_text(part));
    }
    out
}

fn escape_where(text: &str, stays: fn(char) -> bool, escape: fn(&mut String, char)) -> String {
    let Some(first) = text.find(|c| !stays(c)) else { return text.to_owned() };
    let (start, rest) = text.split_at(first);
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(start);
    for c in rest.chars() {
        if stays(c) { out.push(c) } else { escape(&mut out, c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_seen_stays() {
        for text in ["web-1 (eu)", "Zürich → 東京 ✕ …", "e\u{301}", "नमस्ते", "สวัสดี", "한국어", "🚀", "│ – ●"]
        {
            assert_eq!(escape_text(text), text);
        }
        assert_eq!(escape_text("a\n\tb"), "a\n\tb");
        assert_eq!(escape_line("a\r\n\tb"), "a  b");
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        let hidden = "\u{0}\u{1b}\u{7f}\u{9b}\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{180b}\u{180e}\u{200b}\u{200d}\u{200f}\
                      \u{2028}\u{202e}\u{2060}\u{2066}\u{2800}\u{3164}\u{e000}\u{fe00}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{fffb}\
                      \u{1d159}\u{1d173}\u{e0001}\u{e0041}\u{e0100}\u{e01ef}\u{10ffff}\u{a0}\u{3000}";
        for c in hidden.chars() {
            assert_eq!(escape_text(&format!("a{c}b")), format!("a\\u{{{:x}}}b", u32::from(c)));
        }
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"a\u{202e}": "b\u{e0041}\u{9b}\n\t\u{1b}"});
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let escaped = escape_json(&json);
            assert!(escaped.chars().all(|c| is_printable(c) || c == '\n'), "{escaped}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        }
    }

    #[test]
    fn own_styles_stay() {
        assert_eq!(escape_styled("\u{1b}[1m\u{1b}[31ma\u{1b}[0m"), "\u{1b}[1m\u{1b}[31ma\u{1b}[0m");
        assert_eq!(
            escape_styled("a\u{1b}[8mb\u{1b}]52;c;x\u{7}\u{202e}"),
            "a\\u{1b}[8mb\\u{1b}]52;c;x\\u{7}\\u{202e}"
        );
        assert_eq!(escape_styled("plain"), "plain");
    }

    #[test]
    fn a_line_has_a_limit() {
        assert_eq!(shorten_line("abc\ndef", 5), "abc d…");
        assert_eq!(shorten_line("abc", 3), "abc");
    }
}
