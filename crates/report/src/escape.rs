//! Escapes text of a repo for Markdown and HTML.
//!
//! Facts: a code span ends at a run of as many backticks as opened it; a table cell ends at `|` even there;
//! character references never count as markup; mentions and links are not recognised inside `<code>`.

use federate_kubernetes::display_text::{escape_line, escape_text};

/// Text as code, within a sentence or a table cell.
pub fn format_code(text: &str) -> String {
    let text = escape_line(text);
    if text.is_empty() || text.contains(['`', '|', '\\']) || text.trim() != text {
        return format_html_code(&text);
    }
    format!("`{text}`")
}

/// Text as code, where HTML is understood.
pub(crate) fn format_html_code(text: &str) -> String {
    format!("<code>{}</code>", escape_markup(&escape_line(text)))
}

/// A path as part of an address, within the parentheses of a link.
pub(crate) fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Prose, within a sentence or a table cell.
pub fn escape_prose(text: &str) -> String {
    // Quoted text is already marked as code; an unpaired backtick is escaped.
    let text = escape_line(text);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape_markup(&text);
    }
    parts
        .iter()
        .enumerate()
        .map(|(at, part)| if at % 2 == 1 { format_code(part) } else { escape_markup(part) })
        .collect()
}

/// Replaces everything except letters, digits, spaces and safe punctuation by character references. An `@` is
/// separated from the next character, so that it mentions no user.
fn escape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '@' => out.push_str("&#64;<!-- -->"),
            c if c.is_alphanumeric() || " .:,;=/-–…→()%'\"".contains(c) => out.push(c),
            c => out.push_str(&format!("&#{};", u32::from(c))),
        }
    }
    // Prevents that addresses become links.
    out.replace("://", "&#58;//").replace("www.", "www&#46;")
}

/// A diff in a fenced block that the diff cannot close.
pub(crate) fn fence_diff(diff: &str) -> String {
    let text = escape_text(diff);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}diff\n{text}{end}{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_text_is_easy_to_read() {
        assert_eq!(format_code("/spec/a[name=b]"), "`/spec/a[name=b]`");
        assert_eq!(
            escape_prose("no policy places Deployment shop/web"),
            "no policy places Deployment shop/web"
        );
        assert_eq!(escape_prose("taint `a=b:NoSchedule` is there"), "taint `a=b:NoSchedule` is there");
    }

    #[test]
    fn nothing_breaks_out() {
        assert_eq!(format_code("a|b"), "<code>a&#124;b</code>");
        assert_eq!(format_code("a`b"), "<code>a&#96;b</code>");
        assert_eq!(format_html_code("<img src=x>"), "<code>&#60;img src=x&#62;</code>");
        assert_eq!(format_code("<b>@all"), "`<b>@all`");
        assert_eq!(
            escape_prose("@team [x](http://e.vil) <b>"),
            "&#64;<!-- -->team &#91;x&#93;(http&#58;//e.vil) &#60;b&#62;"
        );
        assert_eq!(escape_prose("one ` alone"), "one &#96; alone");
        assert_eq!(format_code("two\nlines"), "`two lines`");
        assert!(fence_diff("+```\n+````\n").starts_with("`````diff\n"));
    }

    #[test]
    fn hidden_signs_are_shown() {
        assert_eq!(
            format_code("a\u{202e}b\u{1b}[1m"),
            "<code>a&#92;u&#123;202e&#125;b&#92;u&#123;1b&#125;&#91;1m</code>"
        );
    }
}
