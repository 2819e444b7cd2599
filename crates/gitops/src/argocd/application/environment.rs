//! The build environment of a source: variables that Argo CD fills in (`$ARGOCD_APP_NAME`).
//!
//! Facts: Argo CD's documentation of the build environment, and Go's `os.Expand`. `$$` stands for `$`, and what is not known is empty.

/// The values of the variables.
pub(super) struct BuildEnvironment<'s> {
    /// The name of the Application.
    pub(super) name: &'s str,
    /// The namespace of the destination; empty for none.
    pub(super) namespace: &'s str,
    pub(super) project: &'s str,
    pub(super) path: &'s str,
    pub(super) repo_url: &'s str,
    pub(super) target_revision: &'s str,
}

impl BuildEnvironment<'_> {
    /// Fills the variables of a text in. The error names a variable whose value is not known here.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let after = after.get(1..).unwrap_or_default();
            if after.is_empty() {
                out.push('$');
                return Ok(out);
            }
            let Reference { name, length } = read_reference(after);
            rest = after.get(length..).unwrap_or_default();
            match name {
                Some(name) => out.push_str(self.find_value(name)?),
                // A dollar sign without a name stays, and what is not valid goes.
                None if length == 0 => out.push('$'),
                None => {}
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    fn find_value(&self, name: &str) -> Result<&str, String> {
        Ok(match name {
            "$" => "$",
            "ARGOCD_APP_NAME" => self.name,
            "ARGOCD_APP_NAMESPACE" => self.namespace,
            "ARGOCD_APP_PROJECT_NAME" => self.project,
            "ARGOCD_APP_SOURCE_PATH" => self.path,
            "ARGOCD_APP_SOURCE_REPO_URL" => self.repo_url,
            "ARGOCD_APP_SOURCE_TARGET_REVISION" => self.target_revision,
            "ARGOCD_APP_REVISION" | "ARGOCD_APP_REVISION_SHORT" | "ARGOCD_APP_REVISION_SHORT_8" => {
                return Err(format!(
                    "`{name}` is the commit, and what federate builds does not depend on it"
                ));
            }
            _ => "",
        })
    }
}

/// What follows a dollar sign: a name, and the bytes that it takes.
struct Reference<'t> {
    name: Option<&'t str>,
    length: usize,
}

fn read_reference(text: &str) -> Reference<'_> {
    let is_special = |byte: u8| matches!(byte, b'*' | b'#' | b'$' | b'@' | b'!' | b'?' | b'-' | b'0'..=b'9');
    let Some(first) = text.bytes().next() else { return Reference { name: None, length: 0 } };
    if first == b'{' {
        let inner = text.get(1..).unwrap_or_default();
        return match inner.find('}') {
            Some(0) => Reference { name: None, length: 2 },
            Some(end) => Reference { name: inner.get(..end), length: end + 2 },
            None => Reference { name: None, length: 1 },
        };
    }
    if is_special(first) {
        return Reference { name: text.get(..1), length: 1 };
    }
    let end = text.find(|c: char| !(c == '_' || c.is_ascii_alphanumeric())).unwrap_or(text.len());
    Reference { name: text.get(..end).filter(|name| !name.is_empty()), length: end }
}

#[cfg(test)]
mod tests {
    use super::BuildEnvironment;

    #[test]
    fn variables_are_filled_in() {
        let environment = BuildEnvironment {
            name: "web",
            namespace: "shop",
            project: "default",
            path: "apps/web",
            repo_url: "https://git.example.com/r.git",
            target_revision: "HEAD",
        };
        for (text, expected) in [
            ("$ARGOCD_APP_NAME-${ARGOCD_APP_NAMESPACE}", "web-shop"),
            (
                "${ARGOCD_APP_PROJECT_NAME}/$ARGOCD_APP_SOURCE_PATH@$ARGOCD_APP_SOURCE_TARGET_REVISION",
                "default/apps/web@HEAD",
            ),
            ("$none/x ${none} $$ $", "/x  $ $"),
            ("a$ b$/c${}d${e", "a$ b$/cde"),
            ("$1x", "x"),
        ] {
            assert_eq!(environment.expand(text).as_deref(), Ok(expected), "{text}");
        }
        assert!(environment.expand("$ARGOCD_APP_REVISION_SHORT").is_err());
    }
}
