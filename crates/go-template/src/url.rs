//! Addresses as Go's `net/url` splits and joins them.

/// The parts of an address, without escapes where Go resolves them.
#[derive(Clone, Debug, Default)]
pub(crate) struct UrlParts {
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) opaque: String,
    pub(crate) fragment: String,
    /// The user and the password, with escapes.
    pub(crate) userinfo: String,
}

/// Escapes all but letters, digits and some other characters. In a query a blank is `+`.
pub(crate) fn escape(bytes: &[u8], kept: &str, in_query: bool) -> String {
    let mut out = String::new();
    for byte in bytes {
        let c = char::from(*byte);
        if c.is_ascii_alphanumeric() || kept.contains(c) {
            out.push(c);
        } else if in_query && c == ' ' {
            out.push('+');
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Resolves `%XX`; the reason if one is not followed by two digits.
fn unescape(text: &str) -> Result<String, String> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()));
        let Some(code) = code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            return Err(format!("invalid URL escape in {text:?}"));
        };
        out.push(code);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(crate::text::to_valid_text(&out).into_owned())
}

impl UrlParts {
    /// Splits an address.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.chars().any(|c| c.is_ascii_control()) {
            return Err("invalid control character in URL".to_owned());
        }
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut parts = Self { fragment: unescape(fragment)?, ..Self::default() };
        if text == "*" {
            "*".clone_into(&mut parts.path);
            return Ok(parts);
        }
        let (scheme, rest) = split_scheme(text)?;
        parts.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut parts.query);
        if !rest.starts_with('/') {
            if !parts.scheme.is_empty() {
                rest.clone_into(&mut parts.opaque);
                return Ok(parts);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let may_have_host = !parts.scheme.is_empty() || !rest.starts_with("///");
        if may_have_host && let Some(after) = rest.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            parts.read_authority(authority)?;
            rest = path;
        }
        parts.path = unescape(rest)?;
        Ok(parts)
    }

    fn read_authority(&mut self, authority: &str) -> Result<(), String> {
        let host = match authority.rsplit_once('@') {
            None => authority,
            Some((userinfo, host)) => {
                let is_valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
                if !userinfo.chars().all(is_valid) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                let (user, password) =
                    userinfo.split_once(':').map_or((userinfo, None), |(u, p)| (u, Some(p)));
                self.userinfo = escape(unescape(user)?.as_bytes(), "-_.~$&+,;=", false);
                if let Some(password) = password {
                    self.userinfo.push(':');
                    self.userinfo.push_str(&escape(unescape(password)?.as_bytes(), "-_.~$&+,;=", false));
                }
                host
            }
        };
        let (name, port) = match host.strip_prefix('[') {
            Some(inside) => {
                let (address, port) = inside.split_once(']').ok_or("missing ']' in host")?;
                (address, port)
            }
            None => match host.rfind(':') {
                Some(at) => host.split_at(at),
                None => (host, ""),
            },
        };
        let is_port = port.is_empty()
            || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_port {
            return Err(format!("invalid port {port:?} after host"));
        }
        let is_valid =
            |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
        if let Some(c) = name.chars().find(|c| !is_valid(*c)) {
            return Err(format!("invalid character {c:?} in host name"));
        }
        if name.contains('%') && !host.starts_with('[') && unescape(name)?.is_ascii() {
            return Err("invalid URL escape in host name".to_owned());
        }
        self.host = unescape(host)?;
        Ok(())
    }

    /// The host without its port, and without brackets.
    pub(crate) fn hostname(&self) -> &str {
        if let Some((address, _)) = self.host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            return address;
        }
        self.host.split_once(':').map_or(self.host.as_str(), |(name, _)| name)
    }

    /// Joins the parts to an address.
    pub(crate) fn join(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if self.opaque.is_empty() {
            let kept = if self.path == "*" { "*" } else { "-_.~$&+,/:;=@" };
            let path = escape(self.path.as_bytes(), kept, false);
            let has_authority = !self.host.is_empty() || !self.userinfo.is_empty();
            if has_authority || (!self.scheme.is_empty() && !path.is_empty()) {
                out.push_str("//");
                if !self.userinfo.is_empty() {
                    out.push_str(&self.userinfo);
                    out.push('@');
                }
                out.push_str(&escape(self.host.as_bytes(), "-_.~!$&'()*+,;=:[]<>\"", false));
            }
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            let first = path.split('/').next().unwrap_or_default();
            if out.is_empty() && first.contains(':') {
                out.push_str("./");
            }
            out.push_str(&path);
        } else {
            out.push_str(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&escape(self.fragment.as_bytes(), "-_.~$&+,/:;=?@!()*'", false));
        }
        out
    }
}

/// The scheme before the first colon, and what follows it.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default())),
            _ => break,
        }
    }
    Ok(("", text))
}
