//! Wraps lines to the width of a terminal.

/// The smallest width to which lines are wrapped.
const MIN_WIDTH: usize = 40;

/// The text with lines of at most `width` columns, broken between words where possible. What follows a break is indented
/// like its line. Escape sequences take no column.
pub(super) fn wrap_text(text: &str, width: usize) -> String {
    let width = width.max(MIN_WIDTH);
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        if count_columns(body) <= width {
            out.push_str(line);
            continue;
        }
        wrap_line(&mut out, body, width);
        out.push_str(end);
    }
    out
}

/// The characters of a line, each with whether it takes a column.
fn visible_chars(line: &str) -> impl Iterator<Item = (usize, char, bool)> {
    let mut in_escape = false;
    line.char_indices().map(move |(at, c)| {
        let starts = c == '\u{1b}';
        let takes = !in_escape && !starts;
        if starts {
            in_escape = true;
        } else if in_escape && c.is_ascii_alphabetic() {
            in_escape = false;
        }
        (at, c, takes)
    })
}

fn count_columns(line: &str) -> usize {
    visible_chars(line).filter(|(.., takes)| *takes).count()
}

fn wrap_line(out: &mut String, line: &str, width: usize) {
    let indent = line.chars().take_while(|c| *c == ' ').count();
    let indent = if indent + 2 > width / 2 { 0 } else { indent + 2 };
    let mut rest = line;
    let mut room = width;
    loop {
        let Some(cut) = break_at(rest, room) else {
            out.push_str(rest);
            return;
        };
        let (first, next) = rest.split_at(cut);
        out.push_str(first.trim_end_matches(' '));
        out.push('\n');
        out.push_str(&" ".repeat(indent));
        rest = next.trim_start_matches(' ');
        room = width - indent;
    }
}

/// Where to break a line that is wider than `room`: after the last blank that fits, or within a word.
fn break_at(line: &str, room: usize) -> Option<usize> {
    let leading = line.len() - line.trim_start_matches(' ').len();
    let (mut column, mut blank, mut last) = (0, None, None);
    for (at, c, takes) in visible_chars(line) {
        if !takes {
            continue;
        }
        if column == room {
            // A word that would leave most of the line empty is broken, such as an address.
            return blank.or(last.or(Some(at))).map(|cut: usize| cut.max(1));
        }
        column += 1;
        last = Some(at + c.len_utf8());
        if c == ' ' && at >= leading {
            blank = Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_keep_their_words() {
        let text = "error: this sentence is longer than the forty columns of the terminal\nshort\n";
        let wrapped = wrap_text(text, 40);
        assert!(wrapped.lines().all(|line| line.chars().count() <= 40), "{wrapped}");
        assert_eq!(
            wrapped.split_whitespace().collect::<Vec<_>>(),
            text.split_whitespace().collect::<Vec<_>>()
        );
        assert!(wrapped.ends_with("\nshort\n"));
        assert_eq!(wrap_text("short\n", 40), "short\n");
    }

    #[test]
    fn long_words_are_broken_and_indented() {
        let wrapped = wrap_text(&format!("   = help: {}\n", "x".repeat(100)), 40);
        assert!(wrapped.lines().all(|line| line.chars().count() <= 40), "{wrapped}");
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with("     ")), "{wrapped}");
        assert_eq!(wrapped.matches('x').count(), 100);
    }

    #[test]
    fn colours_take_no_column() {
        let text = format!("\u{1b}[1m{}\u{1b}[0m\n", "x".repeat(40));
        assert_eq!(wrap_text(&text, 40), text);
    }
}
