//! The page of the book about findings.

use federate_kubernetes::schema::find_nearest;
use federate_report::findings;

use super::CommandError;

/// The page of the book about findings.
const FINDINGS_PAGE: &str = include_str!("../../docs/reference/findings.md");

/// The codes of all findings.
pub(super) fn finding_codes() -> impl Iterator<Item = &'static str> {
    FINDINGS_PAGE.lines().filter_map(|line| line.strip_prefix("### "))
}

/// The section of the page about findings with this code, without its heading.
pub(super) fn find_section(code: &str) -> Option<String> {
    let mut lines = FINDINGS_PAGE.lines().skip_while(|line| line.strip_prefix("### ") != Some(code));
    lines.next()?;
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("##")).collect();
    Some(section.join("\n").trim().to_owned())
}

/// The same for a person, or which codes there are.
pub(super) fn find_explanation(code: &str) -> Result<String, CommandError> {
    let section = find_section(code).ok_or_else(|| {
        let codes: Vec<&str> = finding_codes().collect();
        let near = find_nearest(code, &codes).map(|near| format!("; did you mean `{near}`?"));
        let near = near.unwrap_or_default();
        let page = findings::FINDINGS_PAGE_URL;
        CommandError::Failed(format!("no finding has the code `{code}`{near}\n{page} lists all codes"))
    })?;
    Ok(format!("{code}\n\n{section}\n"))
}
