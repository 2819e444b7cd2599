//! Rewrites a script before it is compiled: `a .. b` becomes `a .. joiner .. b`.
//!
//! Gopher-lua writes numbers in another way than C does (`1e+20`, `100000000000000`), also where they are
//! joined to strings. The joiner is a value whose `..` does that. The script gets it as its argument, on the
//! first line, so that all lines keep their numbers.

/// The name of the joiner. A script that assigns to it only fails to join strings.
const JOINER: &str = "joiner_of_strings_";

/// The text that is compiled.
pub(crate) fn prepare_script(script: &str) -> String {
    let mut text = format!("local {JOINER}=...;");
    let mut rest = script;
    while let Some(token) = token_length(rest) {
        let (head, tail) = rest.split_at(token);
        if head == ".." {
            text.extend(["..", JOINER, ".. "]);
        } else {
            text.push_str(head);
        }
        rest = tail;
    }
    text
}

/// The length of the first token; `None` at the end. Blanks and unknown characters are tokens, too.
fn token_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let first = *bytes.first()?;
    let length = match first {
        b'-' if text.starts_with("--") => match long_bracket(&text[2..]) {
            Some(length) => 2 + length,
            None => text.find('\n').unwrap_or(text.len()),
        },
        b'"' | b'\'' => quoted_length(bytes, first),
        b'[' => long_bracket(text).unwrap_or(1),
        b'.' if text.starts_with("...") => 3,
        b'.' if text.starts_with("..") => 2,
        b'.' if bytes.get(1).is_some_and(u8::is_ascii_digit) => numeral_length(bytes),
        b'0'..=b'9' => numeral_length(bytes),
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
            bytes.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(text.len())
        }
        _ => text.chars().next().map_or(1, char::len_utf8),
    };
    Some(length)
}

/// The length of a string in quotes, up to its end or that of the line.
fn quoted_length(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            byte if *byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The length of `[[...]]` or `[==[...]==]`, if the text begins with one.
fn long_bracket(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let level = inner.bytes().take_while(|b| *b == b'=').count();
    let body = inner[level..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    Some(body.find(&close).map_or(text.len(), |at| text.len() - body.len() + at + close.len()))
}

/// The length of what Lua reads as a number, dots included.
fn numeral_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let signed = matches!(byte, b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E') && !is_hex(bytes);
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || (at > 0 && signed)) {
            break;
        }
        at += 1;
    }
    at
}

fn is_hex(bytes: &[u8]) -> bool {
    bytes.starts_with(b"0x") || bytes.starts_with(b"0X")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(script: &str) -> String {
        prepare_script(script).replace(JOINER, "J")
    }

    #[test]
    fn only_the_operator_is_joined() {
        assert_eq!(joined("a..b"), "local J=...;a..J.. b");
        for script in
            ["f(...)", "'a..b'", "\"\\\"..\"", "-- a..b\nx", "--[[ a..b ]] x", "[==[ ].. ]==]", "1e-5"]
        {
            assert_eq!(joined(script), format!("local J=...;{script}"));
        }
        assert_eq!(joined("x[1]..[[a..]]..'é'"), "local J=...;x[1]..J.. [[a..]]..J.. 'é'");
    }
}
