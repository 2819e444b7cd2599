//! Sprig's functions for addresses.

use super::FunctionParameter::{Map, Text};
use super::{GoFunction, make_text};
use crate::error::TemplateFailure;
use crate::text::{GoText, to_valid_text};
use crate::url::{UrlParts, escape};
use crate::value::{GoMap, GoValue};

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("urlParse", &[Text], |a, budget| {
        budget.spend_bytes(a.text(0).len().saturating_mul(2))?;
        let parts = UrlParts::parse(&to_valid_text(a.text(0)))
            .map_err(|reason| TemplateFailure::function(format!("unable to parse url: {reason}")))?;
        let hostname = parts.hostname().to_owned();
        let entries = [
            ("scheme", parts.scheme),
            ("host", parts.host),
            ("hostname", hostname),
            ("path", parts.path),
            ("query", parts.query),
            ("opaque", parts.opaque),
            ("fragment", parts.fragment),
            ("userinfo", parts.userinfo),
        ];
        let entries = entries.into_iter().map(|(key, text)| (GoText::from(key), GoValue::text(text)));
        Ok(GoValue::Map(GoMap::new(entries.collect())))
    }),
    GoFunction::new("urlJoin", &[Map], |a, budget| {
        let map = a.map(0);
        let read = |key: &str| match map.get(key.as_bytes()) {
            None => Ok(String::new()),
            Some(GoValue::Text(text)) => Ok(text.to_valid().into_owned()),
            Some(other) => {
                let message = format!(
                    "unable to parse {key} key, must be of type string, but {} found",
                    other.kind_name()
                );
                Err(TemplateFailure::function(message))
            }
        };
        let userinfo = match read("userinfo")? {
            userinfo if userinfo.is_empty() => userinfo,
            userinfo => {
                UrlParts::parse(&format!("proto://{userinfo}@host"))
                    .map_err(|reason| {
                        TemplateFailure::function(format!("unable to parse userinfo in dict: {reason}"))
                    })?
                    .userinfo
            }
        };
        let parts = UrlParts {
            scheme: read("scheme")?,
            host: read("host")?,
            path: read("path")?,
            query: read("query")?,
            opaque: read("opaque")?,
            fragment: read("fragment")?,
            userinfo,
        };
        make_text(parts.join(), budget)
    }),
];

/// A text for the query of an address.
pub(super) fn escape_query(bytes: &[u8]) -> String {
    escape(bytes, "-_.~", true)
}
