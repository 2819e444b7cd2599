//! Releases of a control plane: which are known, how they are written, and which changes they have.
//!
//! A dialect resolves a release to named behaviours once. Nothing else in it looks at the release.

use std::fmt;

use federate_kubernetes::image::Image;
use federate_kubernetes::{Finding, Object};
use federate_repo::{Config, Repo};
use rayon::prelude::*;
use serde_json::Value;

/// The key below `dialects.<name>` in `federate.yaml`.
pub const VERSION_SETTING: &str = "version";

/// The first patches with a change, one for each minor version that got it, in ascending order. Every later
/// minor version has the change from its first release on.
pub type FirstPatches = &'static [(u16, u16)];

/// The releases of one control plane.
#[derive(Debug)]
pub struct ReleaseCatalog {
    /// The name of the control plane.
    pub product: &'static str,
    /// The major version that all releases have.
    pub major: u16,
    /// The newest patch of each minor version, oldest first.
    pub newest: &'static [(u16, u16)],
    /// States of the code with a name instead of a number.
    pub named: &'static [(&'static str, (u16, u16))],
}

/// One release of a control plane.
#[derive(Clone, Copy)]
pub struct Release {
    catalog: &'static ReleaseCatalog,
    /// Minor version and patch.
    number: (u16, u16),
}

/// The name of a release that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a known release of {product}; known are {}", known.join(", "))]
pub struct UnknownRelease {
    /// The name.
    pub name: String,
    /// The control plane.
    pub product: &'static str,
    /// The releases that are known: minor versions with their newest patch, and names.
    pub known: Vec<String>,
}

/// A setting in `federate.yaml` that names no release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReleaseSetting {
    /// It names a release that is not known.
    #[error(transparent)]
    Unknown(#[from] UnknownRelease),
    /// It is a number, a list or a map.
    #[error("the version must be a string: write it in quotes, such as \"1.16\"")]
    NotText,
}

impl Release {
    /// Whether it has a change.
    pub fn includes_change(self, since: FirstPatches) -> bool {
        let (minor, patch) = self.number;
        match since.iter().find(|(first, _)| *first == minor) {
            Some((_, first)) => patch >= *first,
            None => since.last().is_some_and(|(first, _)| minor > *first),
        }
    }

    /// Returns `after` if the release has a change, else `before`.
    pub fn select_by_change<T>(self, since: FirstPatches, before: T, after: T) -> T {
        if self.includes_change(since) { after } else { before }
    }
}

impl PartialEq for Release {
    fn eq(&self, other: &Self) -> bool {
        self.catalog.product == other.catalog.product && self.number == other.number
    }
}

impl Eq for Release {}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.catalog.product)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.catalog.named.iter().find(|(_, number)| *number == self.number) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}.{}.{}", self.catalog.major, self.number.0, self.number.1),
        }
    }
}

impl ReleaseCatalog {
    /// The newest known state of the code.
    pub fn find_latest(&'static self) -> Release {
        let numbered = self.newest.iter().copied();
        let number = numbered.chain(self.named.iter().map(|(_, number)| *number)).max().unwrap_or_default();
        Release { catalog: self, number }
    }

    /// Reads `1.16`, which is the newest patch of that minor version, `1.16.2`, `v1.16.2`, or a name.
    pub fn parse_release(&'static self, text: &str) -> Result<Release, UnknownRelease> {
        let named = self.named.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
        let number = named.or_else(|| self.parse_number(text)).ok_or_else(|| self.unknown_release(text))?;
        Ok(Release { catalog: self, number })
    }

    fn parse_number(&self, text: &str) -> Option<(u16, u16)> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.').map(|part| part.parse().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        let newest = self.newest.iter().find(|(known, _)| major == self.major && *known == minor)?;
        match parts.next() {
            None => Some(*newest),
            Some(patch) => Some((minor, patch?)).filter(|number| number <= newest),
        }
    }

    fn unknown_release(&self, name: &str) -> UnknownRelease {
        let major = self.major;
        let numbered = self.newest.iter().map(|(minor, patch)| match patch {
            0 => format!("{major}.{minor}"),
            _ => format!("{major}.{minor} (up to {major}.{minor}.{patch})"),
        });
        let named = self.named.iter().map(|(name, _)| (*name).to_owned());
        let known = numbered.chain(named).collect();
        UnknownRelease { name: name.to_owned(), product: self.product, known }
    }

    /// The release that `federate.yaml` names for a dialect, or the newest; or what is wrong with the name.
    pub fn resolve_configured(
        &'static self,
        config: &Config,
        dialect: &str,
    ) -> Result<Release, InvalidReleaseSetting> {
        let setting = config.dialects.get(dialect).and_then(|settings| settings.get(VERSION_SETTING));
        match setting.map(Value::as_str) {
            None => Ok(self.find_latest()),
            Some(None) => Err(InvalidReleaseSetting::NotText),
            Some(Some(text)) => Ok(self.parse_release(text)?),
        }
    }

    /// The release that a repo names for a dialect, or the newest, with a finding if the name is not known.
    pub fn resolve_for_repo(&'static self, repo: &Repo, dialect: &str) -> (Release, Option<Finding>) {
        match self.resolve_configured(&repo.config, dialect) {
            Ok(release) => (release, None),
            Err(why) => {
                let pointer = format!("/dialects/{dialect}/{VERSION_SETTING}");
                (self.find_latest(), Some(repo.invalid_config(&pointer, why.to_string())))
            }
        }
    }
}

/// The tags of the images with each of some names that Deployments, StatefulSets or Pods run, in the order of the
/// objects.
pub fn image_tags<const N: usize>(objects: &[&Object], names: [&str; N]) -> [Vec<String>; N] {
    let found = objects.par_iter().map(|object| names.map(|name| image_tags_of(object, name)));
    let found: Vec<[Vec<String>; N]> = found.filter(|all| all.iter().any(|tags| !tags.is_empty())).collect();
    let mut all = [const { Vec::new() }; N];
    for tags in found {
        all.iter_mut().zip(tags).for_each(|(all, tags)| all.extend(tags));
    }
    all
}

fn image_tags_of(object: &Object, name: &str) -> Vec<String> {
    let pod = match object.id.kind.as_str() {
        "Deployment" | "StatefulSet" => object.value_at(&["spec", "template", "spec", "containers"]),
        "Pod" => object.value_at(&["spec", "containers"]),
        _ => None,
    };
    let images = pod.and_then(Value::as_array).into_iter().flatten().filter_map(|c| c.get("image")?.as_str());
    let parsed = images.filter(|image| image.contains(name)).filter_map(Image::parse);
    let named = parsed.filter(|image| image.repository.rsplit('/').next() == Some(name));
    named.map(|image| image.tag).filter(|tag| !tag.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    static RELEASES: ReleaseCatalog = ReleaseCatalog {
        product: "Example",
        major: 1,
        newest: &[(15, 9), (16, 8), (17, 0)],
        named: &[("main", (18, 0))],
    };

    fn release(text: &str) -> Release {
        RELEASES.parse_release(text).unwrap()
    }

    #[test]
    fn a_minor_version_is_its_newest_patch() {
        for (text, shown) in [
            ("1.16", "1.16.8"),
            ("1.16.2", "1.16.2"),
            ("v1.16.2", "1.16.2"),
            ("1.17", "1.17.0"),
            ("main", "main"),
        ] {
            assert_eq!(release(text).to_string(), shown);
        }
        assert_eq!(RELEASES.find_latest(), release("main"));
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        for text in ["", "1", "1.14", "1.18", "2.16", "1.16.9", "1.16.x", "1.16.2.1", "Main", "v1"] {
            let message = RELEASES.parse_release(text).unwrap_err().to_string();
            let known = "known are 1.15 (up to 1.15.9), 1.16 (up to 1.16.8), 1.17, main";
            assert!(message.contains(known) && message.contains(&format!("`{text}`")), "{message}");
        }
    }

    #[test]
    fn backports_are_told_by_their_patch() {
        const SINCE: FirstPatches = &[(15, 8), (16, 5), (17, 2)];
        for (text, has) in [
            ("1.15.7", false),
            ("1.15.8", true),
            ("1.16.4", false),
            ("1.16", true),
            ("1.17", false),
            ("main", true),
        ] {
            assert_eq!(release(text).includes_change(SINCE), has, "{text}");
            assert_eq!(release(text).select_by_change(SINCE, "before", "after") == "after", has, "{text}");
        }
    }
}
