//! Paths to API servers. All of them are made here, segment by segment.
//!
//! Names in paths come from people who must not choose what is asked: the author of a Sync or of a repo, the inventory, the
//! discovery documents of a member. A server, or a proxy on the way, that normalizes paths would take `../` in a name as a way to another
//! object, and federate would ask for it with its own credentials. So each segment is percent-encoded, and what an API
//! server could not have as a name is refused before anything is sent.
//!
//! Facts: names that are path segments must not be `.` or `..`, nor contain `/` or `%` (`path.IsValidPathSegmentName` of
//! the API machinery).

use super::Error;
use federate_reconcile::ApplySet;
use federate_reconcile::ownership::PART_OF_LABEL;

/// The path of a resource on an API server, and its query. A segment that is refused makes every request with it fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiPath {
    text: String,
    query: String,
    /// The first segment that is refused, and why.
    refused: Option<(String, &'static str)>,
    /// Whether it leads to Secrets.
    secret: bool,
}

impl ApiPath {
    /// The path with these segments.
    pub fn new<'s>(segments: impl IntoIterator<Item = &'s str>) -> Self {
        segments.into_iter().fold(Self::default(), Self::join)
    }

    /// The path of an API version: `/api/v1`, or `/apis/GROUP/VERSION`.
    pub fn from_version(api_version: &str) -> Self {
        Self::default().join_version(api_version)
    }

    /// The path with one more segment.
    #[must_use]
    pub fn join(mut self, segment: &str) -> Self {
        if let Some(why) = find_refusal(segment)
            && self.refused.is_none()
        {
            self.refused = Some((segment.to_owned(), why));
        }
        self.secret |= segment == "secrets";
        self.text.push('/');
        self.text.push_str(&percent_encoded(segment));
        self
    }

    /// The path with the segments of an API version.
    #[must_use]
    pub fn join_version(self, api_version: &str) -> Self {
        match api_version.split_once('/') {
            Some((group, version)) => self.join("apis").join(group).join(version),
            None => self.join("api").join(api_version),
        }
    }

    /// The path of a namespace below an API version.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.join("namespaces").join(namespace)
    }

    /// The path with one more parameter.
    #[must_use]
    pub fn with_query(mut self, key: &str, value: &str) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(&percent_encoded(key));
        self.query.push('=');
        self.query.push_str(&percent_encoded(value));
        self
    }

    /// Whether it leads to Secrets.
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// Whether it leads to objects of a resource.
    pub fn leads_to(&self, resource: &str) -> bool {
        self.text.split('/').any(|segment| segment == resource)
    }

    /// The path with its query, as it is sent.
    ///
    /// # Errors
    ///
    /// The segment that is refused.
    pub fn to_uri(&self) -> Result<String, Error> {
        match &self.refused {
            None => Ok(format!("{}{}", self.text, self.query)),
            Some((segment, why)) => Err(Error::Access(format!(
                "`{}` cannot be part of the path of a request, because {why}; nothing was sent",
                segment.escape_debug()
            ))),
        }
    }
}

/// The path without its query, for messages.
impl std::fmt::Display for ApiPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a segment is refused.
fn find_refusal(segment: &str) -> Option<&'static str> {
    match segment {
        "" => Some("it is empty"),
        "." | ".." => Some("it leads to another path"),
        _ if segment.contains(['/', '\\', '%']) => Some("it could lead to another path"),
        _ if segment.contains(['?', '#', '&', ';']) => Some("it could become a query"),
        _ if segment.contains(|letter: char| letter.is_control() || letter.is_whitespace()) => {
            Some("it has spaces or control characters")
        }
        _ => None,
    }
}

/// Text, encoded as a part of a URL.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The path of the parent of an `ApplySet`.
pub(super) fn parent_path(apply_set: &ApplySet) -> ApiPath {
    ApiPath::from_version("v1").in_namespace(&apply_set.namespace).join("configmaps").join(&apply_set.name)
}

/// The selector of the members of `ApplySet`s.
pub(super) fn member_selector(ids: &[String]) -> String {
    match ids {
        [one] => format!("{PART_OF_LABEL}={one}"),
        several => format!("{PART_OF_LABEL} in ({})", several.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_queries_are_encoded() {
        let path =
            ApiPath::from_version("rbac.authorization.k8s.io/v1").join("clusterroles").join("system:é");
        assert_eq!(path.to_uri().unwrap(), "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3A%C3%A9");
        let path = ApiPath::from_version("v1")
            .in_namespace("a")
            .join("configmaps")
            .with_query("labelSelector", "a/b=c");
        let uri = path.clone().with_query("limit", "500").to_uri().unwrap();
        assert_eq!(uri, "/api/v1/namespaces/a/configmaps?labelSelector=a%2Fb%3Dc&limit=500");
        assert_eq!(path.to_string(), "/api/v1/namespaces/a/configmaps");
        assert_eq!(
            ApiPath::new(["openapi", "v3"]).join_version("v1").to_uri().unwrap(),
            "/openapi/v3/api/v1"
        );
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let secret = |name: &str| ApiPath::from_version("v1").in_namespace("a").join("secrets").join(name);
        for name in [
            "",
            ".",
            "..",
            "../b",
            "../../victim/secrets/git",
            "a/b",
            "a\\b",
            "%2e%2e",
            "a?watch=1",
            "a#b",
            "a;b",
            "a&b",
            "a b",
            "a\nb",
            "a\0",
        ] {
            let refused = secret(name).to_uri().unwrap_err().to_string();
            assert!(refused.contains("cannot be part of the path"), "{name:?}: {refused}");
            assert!(
                ApiPath::from_version("v1").in_namespace(name).join("secrets").to_uri().is_err(),
                "{name:?}"
            );
        }
        for version in ["v1/..", "../v1", "a/b/c", "", "apps/", "/v1"] {
            assert!(ApiPath::from_version(version).join("pods").to_uri().is_err(), "{version:?}");
        }
        assert!(secret("git").to_uri().is_ok() && secret("git").is_secret());
        assert!(!ApiPath::from_version("v1").join("configmaps").join("secrets.s").is_secret());
    }
}
