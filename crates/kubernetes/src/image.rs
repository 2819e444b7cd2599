//! Container image references, by the Docker reference grammar: `[host[:port]/]repository[:tag][@digest]`.

/// The parts of an image reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Host and port; empty if missing.
    pub host: String,
    /// The path below the host.
    pub repository: String,
    /// The tag; empty if missing.
    pub tag: String,
    /// `algorithm:hex`; empty if missing.
    pub digest: String,
}

impl Image {
    /// Parses a reference; `None` if it is malformed.
    ///
    /// ```
    /// use federate_kubernetes::image::Image;
    /// let image = Image::parse("localhost:5000/team/app:v1").ok_or("invalid")?;
    /// assert_eq!((image.host.as_str(), image.repository.as_str()), ("localhost:5000", "team/app"));
    /// assert_eq!(Image::parse("Team/App:v1"), None);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, is_digest(digest).then_some(digest)?),
            None => (text, ""),
        };
        // A colon after the last slash begins a tag; one before it begins a port.
        let path_from = rest.rfind('/').map_or(0, |at| at + 1);
        let (name, tag) = match rest[path_from..].find(':') {
            Some(at) => (&rest[..path_from + at], &rest[path_from + at + 1..]),
            None => (rest, ""),
        };
        if name.len() < rest.len() && !is_tag(tag) {
            return None;
        }
        if !is_name(name) {
            return None;
        }
        let (host, repository) = split_host(name);
        Some(Self {
            host: host.into(),
            repository: repository.into(),
            tag: tag.into(),
            digest: digest.into(),
        })
    }

    /// The tag, or else the digest.
    pub fn tag_or_digest(&self) -> &str {
        if self.tag.is_empty() { &self.digest } else { &self.tag }
    }

    /// Sets the tag or the digest, whichever `text` is, and clears the other; does nothing if it is neither.
    pub fn set_tag_or_digest(&mut self, text: &str) {
        if is_tag(text) {
            text.clone_into(&mut self.tag);
            self.digest.clear();
        } else if is_digest(text) {
            text.clone_into(&mut self.digest);
            self.tag.clear();
        }
    }

    /// Removes the tag, or the digest if there is no tag.
    pub fn remove_tag_or_digest(&mut self) {
        if self.tag.is_empty() { self.digest.clear() } else { self.tag.clear() }
    }
}

impl std::fmt::Display for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.host.is_empty() {
            write!(f, "{}/", self.host)?;
        }
        f.write_str(&self.repository)?;
        if !self.tag.is_empty() {
            write!(f, ":{}", self.tag)?;
        }
        if self.digest.is_empty() { Ok(()) } else { write!(f, "@{}", self.digest) }
    }
}

/// The text before the first slash is a host only if it looks like one.
fn split_host(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
        _ => ("", name),
    }
}

/// `[domain/]component[/component…]`
fn is_name(name: &str) -> bool {
    if name.is_empty() || name.len() > 255 {
        return false;
    }
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or_default();
    let several = name.contains('/');
    (is_component(first) || (several && is_domain(first))) && parts.all(is_component)
}

/// Lower-case letters and digits, separated by single `.`, `_`, `__` or any number of `-`.
fn is_component(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    is_letter(*first)
        && is_letter(*last)
        && bytes
            .split(|byte| is_letter(*byte))
            .all(|gap| matches!(gap, b"" | b"." | b"_" | b"__") || gap.iter().all(|byte| *byte == b'-'))
}

/// Labels of letters, digits and inner dashes joined by dots, or an IPv6 address in brackets, with an
/// optional port.
fn is_domain(text: &str) -> bool {
    let (host, port) = match text.rfind(':').filter(|at| !text[*at..].contains(']')) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let port_ok = port.is_none_or(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    if let Some(address) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return port_ok && !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    }
    port_ok && host.split('.').all(is_domain_label)
}

fn is_domain_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn is_algorithm_part(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Whether the text is a tag.
pub fn is_tag(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Whether the text is a digest: `algorithm[+._-algorithm…]:hex`, at least 32 hexadecimal digits.
pub fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    algorithm.split(['+', '.', '_', '-']).all(is_algorithm_part)
        && hex.len() >= 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for text in [
            "nginx",
            "nginx:1.27",
            "docker.io/library/redis",
            "registry.local:5000/team/worker:7",
            "a/b__c-d/e.f",
        ] {
            assert_eq!(Image::parse(text).map(|i| i.to_string()).as_deref(), Some(text));
        }
        let both = Image::parse(&format!("nginx:1@{digest}")).unwrap();
        assert_eq!((both.tag.as_str(), both.digest.as_str()), ("1", digest.as_str()));
        assert_eq!(both.to_string(), format!("nginx:1@{digest}"));
        assert_eq!(Image::parse(&format!("nginx@{digest}")).unwrap().digest, digest);
    }

    #[test]
    fn refuses_what_is_no_reference() {
        for text in ["", "Nginx", "nginx:", ":v1", "a//b", "a_-b", "nginx@sha256:12", "host:5000/app:", "a b"]
        {
            assert_eq!(Image::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_unfit_tag_changes_nothing() {
        let mut image = Image::parse("nginx:1").unwrap();
        image.set_tag_or_digest(".x");
        assert_eq!(image.to_string(), "nginx:1");
    }
}
