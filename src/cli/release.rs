//! Control plane releases as given on the command line.

use std::str::FromStr;

use federate_dialect::Dialect;
use federate_dialect::release::{NamedRelease, UnknownRelease, stand_in_finding};
use federate_dialects::DIALECTS;
use federate_kubernetes::Finding;

/// A control plane release, such as `karmada=1.16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DialectRelease {
    pub(super) dialect: &'static str,
    pub(super) named: NamedRelease,
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
        Ok(Self { dialect, named: releases.parse_named(version).map_err(|error| error.to_string())? })
    }
}

/// Parses a release of Karmada.
pub(super) fn parse_karmada(text: &str) -> Result<NamedRelease, UnknownRelease> {
    federate_karmada::RELEASES.parse_named(text)
}

/// One warning for each release that was chosen and that another one stands in for.
pub(super) fn find_stand_ins<'r>(chosen: impl Iterator<Item = &'r NamedRelease>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = chosen.filter_map(stand_in_finding).collect();
    findings.dedup();
    findings
}

/// The name of one side of a comparison, with the releases chosen for it.
pub(super) fn side_name(place: &str, releases: &[DialectRelease]) -> String {
    let releases = releases.iter().map(|one| format!("{} {}", one.dialect, one.named.release));
    std::iter::once(place.to_owned()).chain(releases).collect::<Vec<_>>().join(", ")
}
