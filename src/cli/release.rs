//! Control plane releases as given on the command line.

use std::str::FromStr;

use federate_dialect::release::Releases;

/// The dialects whose releases differ.
const KNOWN: [(&str, &Releases); 2] =
    [("karmada", &federate_karmada::RELEASES), ("kubefleet", &federate_kubefleet::RELEASES)];

/// A control plane release, such as `karmada=1.16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) dialect: &'static str,
    /// The full version.
    pub(super) version: String,
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || KNOWN.map(|(dialect, _)| dialect).join(" and ");
        let (name, version) = text.split_once('=').ok_or_else(|| {
            format!("expected NAME=VERSION, such as karmada=1.16, where NAME is {}", known())
        })?;
        let found = KNOWN.into_iter().find(|(dialect, _)| *dialect == name);
        let (dialect, releases) = found.ok_or_else(|| {
            format!("unknown control plane `{name}`; releases can be chosen for {}", known())
        })?;
        Ok(Self { dialect, version: releases.read(version)?.to_string() })
    }
}

/// Parses a known release of Karmada, and returns its full version.
pub(super) fn karmada(text: &str) -> Result<String, String> {
    federate_karmada::RELEASES.read(text).map(|release| release.to_string())
}

/// The name of one side of a comparison, with the releases chosen for it.
pub(super) fn side_name(place: &str, releases: &[Release]) -> String {
    let releases = releases.iter().map(|one| format!("{} {}", one.dialect, one.version));
    std::iter::once(place.to_owned()).chain(releases).collect::<Vec<_>>().join(", ")
}
