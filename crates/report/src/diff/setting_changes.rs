//! Settings that differ and act on more than what is rendered.

use super::edits::dotted_path;
use super::format_values;
use federate_engine::change::SettingChange;
use federate_kubernetes::display_text::escape_line;

/// The parts of a line about a setting.
pub(crate) struct SettingLine {
    /// The key, in the notation of the documentation.
    pub(crate) key: String,
    /// What it was.
    pub(crate) from: String,
    /// What it is.
    pub(crate) to: String,
    /// The file and the line.
    pub(crate) place: String,
}

impl SettingLine {
    pub(crate) fn new(setting: &SettingChange) -> Self {
        let (from, to) = format_values(&setting.field.change);
        Self {
            key: escape_line(&dotted_path(&setting.field.change.path)),
            from,
            to,
            place: escape_line(&format!("{}:{}", setting.file, setting.field.line)),
        }
    }
}
