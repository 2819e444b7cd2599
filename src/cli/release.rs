//! Releases of control planes as arguments name them.

use std::str::FromStr;

use federate_dialect::release::Releases;

/// The control planes whose releases differ, by dialect.
const KNOWN: [(&str, &Releases); 2] =
    [("karmada", &federate_karmada::RELEASES), ("kubefleet", &federate_kubefleet::RELEASES)];

/// A release of a control plane: `karmada=1.16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) dialect: &'static str,
    /// As it is written in full.
    pub(super) version: String,
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || KNOWN.map(|(dialect, _)| dialect).join(" and ");
        let (name, version) = text.split_once('=').ok_or_else(|| {
            format!(
                "it is not of the form NAME=VERSION, such as karmada=1.16; there are releases of {}",
                known()
            )
        })?;
        let found = KNOWN.into_iter().find(|(dialect, _)| *dialect == name);
        let (dialect, releases) =
            found.ok_or_else(|| format!("there are no releases of `{name}`, but of {}", known()))?;
        Ok(Self { dialect, version: releases.read(version)?.to_string() })
    }
}

/// A release of Karmada that is known, as it is written in full.
pub(super) fn karmada(text: &str) -> Result<String, String> {
    federate_karmada::RELEASES.read(text).map(|release| release.to_string())
}

/// What a side of a comparison is called whose releases are named.
pub(super) fn called(place: &str, releases: &[Release]) -> String {
    let releases = releases.iter().map(|one| format!("{} {}", one.dialect, one.version));
    std::iter::once(place.to_owned()).chain(releases).collect::<Vec<_>>().join(", ")
}
