//! The tokens of JSON pointers (RFC 6901).

use std::borrow::Cow;

/// A key as one token of a JSON pointer.
///
/// ```
/// assert_eq!(federate_yaml::pointer::escape("example.com/~owner"), "example.com~1~0owner");
/// ```
pub fn escape(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) { key.replace('~', "~0").replace('/', "~1").into() } else { key.into() }
}

/// The key that one token of a JSON pointer stands for.
///
/// ```
/// assert_eq!(federate_yaml::pointer::unescape("example.com~1~0owner"), "example.com/~owner");
/// ```
pub fn unescape(token: &str) -> Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}
