//! Files that only name a content which is kept elsewhere: pointers of Git LFS and of git-annex.
//!
//! A clone without the contents has these files in place of the real ones. Read as manifests, they would be documents
//! without objects, and everything that the real files hold would vanish.
//!
//! Facts: the specification of Git LFS (`docs/spec.md`): keys and values separated by a space, `version` first, less than
//! 1024 bytes; earlier versions had other addresses. An unlocked file of git-annex holds `/annex/objects/KEY`.

use federate_kubernetes::{Finding, Severity};

/// The size below which every pointer is.
const MAX_POINTER_BYTES: usize = 1024;

/// What the first line of a pointer of Git LFS may say.
const LFS_VERSIONS: [&str; 3] =
    ["https://git-lfs.github.com/spec/v1", "https://hawser.github.com/spec/v1", "http://git-media.io/v/2"];

/// A pointer of Git LFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LfsPointer<'p> {
    /// The SHA-256 of the content, as 64 hexadecimal digits.
    pub sha256: &'p str,
    /// The size of the content in bytes.
    pub size: u64,
}

impl<'p> LfsPointer<'p> {
    /// Parses a file; `None` if it is not a pointer.
    pub fn parse(bytes: &'p [u8]) -> Option<Self> {
        if bytes.len() >= MAX_POINTER_BYTES {
            return None;
        }
        let mut lines = std::str::from_utf8(bytes).ok()?.lines().map(str::trim_end);
        let version = lines.next()?.strip_prefix("version ")?;
        let (mut sha256, mut size) = (None, None);
        for line in lines {
            match line.split_once(' ') {
                Some(("oid", id)) => sha256 = id.strip_prefix("sha256:"),
                Some(("size", count)) => size = count.parse().ok(),
                _ => {}
            }
        }
        let sha256 = sha256.filter(|id| id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()))?;
        LFS_VERSIONS.contains(&version).then_some(Self { sha256, size: size? })
    }
}

/// The error about a file that is a pointer.
pub(crate) fn find_pointer(path: &str, bytes: &[u8]) -> Option<Finding> {
    let (what, help) = if LfsPointer::parse(bytes).is_some() {
        (
            "it is a Git LFS pointer, and its content is not here",
            "`git lfs pull` fetches it (`git lfs fetch REMOTE REV` for another revision); or list it in .federateignore",
        )
    } else if bytes.len() < MAX_POINTER_BYTES && bytes.starts_with(b"/annex/objects/") {
        (
            "it is a git-annex pointer, and its content is not here",
            "`git annex get` fetches it; or list it in .federateignore",
        )
    } else {
        return None;
    };
    let message = format!("cannot be read: {what}");
    Some(Finding::in_file(Severity::Error, "unreadable", &path.into(), None, message).with_help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_told_from_manifests() {
        let sha256 = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let pointer =
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize 12345\n");
        assert_eq!(LfsPointer::parse(pointer.as_bytes()), Some(LfsPointer { sha256, size: 12345 }));
        let crlf = pointer.replace('\n', "\r\n");
        assert!(LfsPointer::parse(crlf.as_bytes()).is_some(), "a checkout may have changed its line ends");
        let extended = pointer.replace("oid", "ext-0-foo sha256:1\noid");
        assert!(LfsPointer::parse(extended.as_bytes()).is_some());
        for other in [
            "",
            "version: 1\n",
            "version https://git-lfs.github.com/spec/v1\n",
            "apiVersion: v1\nkind: Pod\n",
        ] {
            assert_eq!(LfsPointer::parse(other.as_bytes()), None);
            assert_eq!(find_pointer("a.yaml", other.as_bytes()), None);
        }
        assert!(find_pointer("a.yaml", b"/annex/objects/SHA256E-s12--00.yaml\n").is_some());
    }
}
