//! Conflicts that a merge left in a file.
//!
//! Facts: git-merge(1), "How conflicts are presented": lines that begin with seven `<`, `=` and `>`, and with seven `|` in
//! the styles `diff3` and `zdiff3`.

use super::{Error, Position};

const OURS: &str = "<<<<<<<";
const SEPARATOR: &str = "=======";
const THEIRS: &str = ">>>>>>>";

/// The first conflict of a text, as an error; `None` without one.
pub(super) fn find_conflict(bytes: &[u8]) -> Option<Error> {
    let text = std::str::from_utf8(bytes).ok()?;
    // Most files do not have the marker anywhere.
    text.find(OURS)?;
    let (mut first, mut count, mut open) = (None, 0_usize, Vec::new());
    for (number, line) in (1_u32..).zip(text.lines()) {
        if is_marker(line, OURS) {
            open = vec![number];
        } else if is_marker(line, SEPARATOR) && open.len() == 1 {
            open.push(number);
        } else if is_marker(line, THEIRS) && open.len() == 2 {
            first = first.or_else(|| open.first().copied());
            count += 1;
            open.clear();
        }
    }
    let line = first?;
    let more = match count - 1 {
        0 => String::new(),
        1 => " (the file has another one)".to_owned(),
        more => format!(" (the file has {more} more)"),
    };
    let message = format!(
        "unresolved merge conflict{more}: choose one side of each, and remove the lines that begin with `{OURS}`, \
         `{SEPARATOR}` and `{THEIRS}`"
    );
    Some(Error { at: Position { line, column: 1 }, message })
}

/// Whether a line begins with a marker, and nothing else follows without a space.
fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_told_from_text() {
        let conflict = "a: 1\n<<<<<<< HEAD\nb: 1\n||||||| base\nb: 0\n=======\nb: 2\n>>>>>>> topic\n";
        let error = find_conflict(conflict.as_bytes()).unwrap();
        assert_eq!(error.at, Position { line: 2, column: 1 });
        assert!(error.message.starts_with("unresolved merge conflict: "), "{}", error.message);
        let twice = conflict.repeat(2).replace('\n', "\r\n");
        assert!(find_conflict(twice.as_bytes()).unwrap().message.contains("another one"));
        for text in [
            "a: |\n  <<<<<<< HEAD\n  =======\n  >>>>>>> topic\n",
            "a: <<<<<<< HEAD\n",
            "<<<<<<< HEAD\n",
            "=======\n>>>>>>> topic\n<<<<<<< HEAD\n",
            "<<<<<<<< eight\n=======\n>>>>>>> topic\n",
        ] {
            assert_eq!(find_conflict(text.as_bytes()), None, "{text}");
        }
    }
}
