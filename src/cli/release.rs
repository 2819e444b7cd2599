//! Control plane releases as given on the command line.

use std::str::FromStr;

use federate_dialect::Dialect;
use federate_dialect::release::UnknownRelease;
use federate_dialects::DIALECTS;

/// A control plane release, such as `karmada=1.16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DialectRelease {
    pub(super) dialect: &'static str,
    /// The full version.
    pub(super) version: String,
}

impl FromStr for DialectRelease {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known: Vec<&str> = DIALECTS
            .iter()
            .filter(|dialect| dialect.kinds().releases().is_some())
            .map(Dialect::name)
            .collect();
        let known = known.join(" and ");
        let (name, version) = text
            .split_once('=')
            .ok_or_else(|| format!("expected NAME=VERSION, such as karmada=1.16, where NAME is {known}"))?;
        let (dialect, releases) = DIALECTS
            .get(name)
            .and_then(|dialect| Some((dialect.name(), dialect.kinds().releases()?)))
            .ok_or_else(|| format!("unknown control plane `{name}`; releases can be chosen for {known}"))?;
        Ok(Self {
            dialect,
            version: releases.parse_release(version).map_err(|error| error.to_string())?.to_string(),
        })
    }
}

/// Parses a known release of Karmada, and returns its full version.
pub(super) fn parse_karmada(text: &str) -> Result<String, UnknownRelease> {
    federate_karmada::RELEASES.parse_release(text).map(|release| release.to_string())
}

/// The name of one side of a comparison, with the releases chosen for it.
pub(super) fn side_name(place: &str, releases: &[DialectRelease]) -> String {
    let releases = releases.iter().map(|one| format!("{} {}", one.dialect, one.version));
    std::iter::once(place.to_owned()).chain(releases).collect::<Vec<_>>().join(", ")
}
