//! Checks that names are safe as file and folder names.
//!
//! Facts: Kubernetes allows any "path segment" as the name of some kinds (`system:node` for a `ClusterRole`),
//! DNS labels as namespaces, and at most 253 bytes.

/// The longest name in Kubernetes, in bytes.
const MAX_NAME_BYTES: usize = 253;

/// Checks that an object's name is a single path segment; the error is the reason.
///
/// ```
/// use federate_kubernetes::names::safe_name;
/// assert!(safe_name("system:node").is_ok());
/// assert!(safe_name("../etc").is_err());
/// ```
pub fn safe_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("the name is empty")
    } else if name == "." || name == ".." {
        Err("the name would refer to another folder")
    } else if name.contains(['/', '\\']) {
        Err("the name contains a path separator")
    } else if name.chars().any(char::is_control) {
        Err("the name contains a control character")
    } else if name.len() > MAX_NAME_BYTES {
        Err("the name is longer than 253 bytes")
    } else {
        Ok(())
    }
}

/// Checks that a cluster's name can be a folder in the output; the error is the reason.
///
/// ```
/// use federate_kubernetes::names::safe_cluster;
/// assert!(safe_cluster("eu-west-1").is_ok());
/// assert!(safe_cluster(".git").is_err() && safe_cluster("placements.yaml").is_err());
/// ```
pub fn safe_cluster(name: &str) -> Result<(), &'static str> {
    safe_name(name)?;
    if name.starts_with('.') {
        Err("the folder would be hidden")
    } else if name.eq_ignore_ascii_case("placements.yaml") {
        Err("this is the file name of the plan")
    } else {
        Ok(())
    }
}

/// Checks that a namespace is a DNS label; the error is the reason.
///
/// ```
/// use federate_kubernetes::names::safe_namespace;
/// assert!(safe_namespace("shop").is_ok());
/// assert!(safe_namespace("_cluster").is_err());
/// ```
pub fn safe_namespace(name: &str) -> Result<(), &'static str> {
    if name.len() <= 63 && is_dns_label(name) {
        Ok(())
    } else {
        Err("it is not a DNS label (up to 63 of a-z 0-9 -, no - at either end)")
    }
}

/// Whether a text is a DNS label of any length: a-z, 0-9 and inner `-`.
pub fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Whether a text can be the name part of a label key, or a label value, but for its length: A-Z, a-z, 0-9 and inner
/// `-`, `_` and `.`.
pub fn is_name_part(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(['-', '_', '.'])
        && !text.ends_with(['-', '_', '.'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Whether a name is a DNS subdomain, as the names of most objects are: labels of a-z, 0-9 and `-`, separated by dots.
///
/// ```
/// use federate_kubernetes::names::is_dns_subdomain;
/// assert!(is_dns_subdomain("web") && is_dns_subdomain("web.example.com"));
/// assert!(!is_dns_subdomain("a/b") && !is_dns_subdomain("..") && !is_dns_subdomain("a..b"));
/// ```
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && name.split('.').all(is_dns_label)
}

/// Checks an API version, `version` or `group/version`; the error is the reason.
///
/// ```
/// use federate_kubernetes::names::safe_api_version;
/// assert!(safe_api_version("v1").is_ok() && safe_api_version("apps/v1").is_ok());
/// assert!(safe_api_version("../v1").is_err() && safe_api_version("a/b/v1").is_err());
/// ```
pub fn safe_api_version(api_version: &str) -> Result<(), &'static str> {
    let (group, version) = match api_version.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, api_version),
    };
    let is_group =
        group.is_none_or(|group| group.len() <= MAX_NAME_BYTES && group.split('.').all(is_version_part));
    if is_group && version.len() <= 63 && is_version_part(version) {
        Ok(())
    } else {
        Err("it is neither a version (`v1`) nor group and version (`apps/v1`)")
    }
}

fn is_version_part(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Checks that a kind is one word; the error is the reason.
///
/// ```
/// use federate_kubernetes::names::safe_kind;
/// assert!(safe_kind("Deployment").is_ok());
/// assert!(safe_kind("My Kind").is_err() && safe_kind("").is_err());
/// ```
pub fn safe_kind(kind: &str) -> Result<(), &'static str> {
    let word = !kind.is_empty() && kind.len() <= 63 && kind.bytes().all(|b| b.is_ascii_alphanumeric());
    if word { Ok(()) } else { Err("it is not one word of up to 63 letters and digits") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_stays_below_its_folder() {
        let all = ["a", ".", "..", "a/b", "a\\b", "", "a\0b", "a\nb", "a\u{85}b", "..a", "a..", "system:x"];
        for name in all {
            let below = std::path::Path::new("out").join(name);
            let one_part = below.parent() == Some(std::path::Path::new("out"))
                && below.file_name().is_some()
                && !name.contains(['\0', '\n', '\\', '\u{85}']);
            assert_eq!(safe_name(name).is_ok(), one_part, "{name:?}");
        }
        assert!(safe_name(&"x".repeat(253)).is_ok() && safe_name(&"x".repeat(254)).is_err());
    }

    #[test]
    fn namespaces_are_dns_labels() {
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "..", &"x".repeat(64)] {
            assert!(safe_namespace(bad).is_err(), "{bad:?}");
        }
        assert!(safe_namespace("kube-system").is_ok());
    }
}
