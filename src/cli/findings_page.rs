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

/// The section of the page about findings with this code.
pub(super) fn find_explanation(code: &str) -> Result<String, CommandError> {
    let mut lines = FINDINGS_PAGE.lines().skip_while(|line| line.strip_prefix("### ") != Some(code));
    let Some(heading) = lines.next() else {
        let codes: Vec<&str> = finding_codes().collect();
        let near = find_nearest(code, &codes).map(|near| format!("; did you mean `{near}`?"));
        let near = near.unwrap_or_default();
        let page = findings::FINDINGS_PAGE_URL;
        return Err(CommandError::Failed(format!(
            "no finding has the code `{code}`{near}\n{page} lists all codes"
        )));
    };
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("##")).collect();
    Ok(format!("{}\n\n{}\n", heading.trim_start_matches("### "), section.join("\n").trim()))
}
