//! Addresses of servers that are not git servers.

use federate_http_client::find_refusal;
use http::Uri;

/// An address. Only a server on this machine is reached without encryption.
pub(crate) fn parse_uri(address: &str) -> Result<Uri, String> {
    let uri: Uri = address.parse().map_err(|_| "the address is not valid".to_owned())?;
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) | (Some("http"), Some("127.0.0.1" | "localhost")) => Ok(uri),
        _ => Err("the address must start with https://".to_owned()),
    }
}

/// Why a request has no answer. Only what is known of the address is said, and nothing that a server says.
pub(crate) fn describe_failure(error: &kube::Error) -> String {
    find_refusal(error).map_or_else(|| "the server cannot be reached".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_reached_encrypted() {
        assert!(
            parse_uri("https://hooks.example.com/x").is_ok() && parse_uri("http://127.0.0.1:1/x").is_ok()
        );
        assert!(parse_uri("http://hooks.example.com/x").is_err() && parse_uri("file:///etc/passwd").is_err());
    }
}
