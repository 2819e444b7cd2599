//! Tables of the commands about Syncs.

/// The space between two columns.
const COLUMN_GAP: usize = 2;

/// Rows in columns that are as wide as they need to be; the last one has the rest of the line. An empty cell has a dash.
pub(super) fn format_columns<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = head.map(|title| title.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in std::iter::once(&head.map(str::to_owned)).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let cell = if cell.is_empty() { "-" } else { cell };
            line += cell;
            line += &" ".repeat(width + COLUMN_GAP - cell.chars().count().min(width));
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// A time span as `kubectl` writes ages: `45s`, `12m`, `5h`, `3d`.
pub(super) fn format_age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [["web".to_owned(), String::new()], ["a".to_owned(), "long text".to_owned()]];
        assert_eq!(format_columns(["N", "TEXT"], &rows), "N    TEXT\nweb  -\na    long text\n");
        assert_eq!([5, 600, 90_000, 400_000].map(format_age), ["5s", "10m", "25h", "4d"]);
    }
}
