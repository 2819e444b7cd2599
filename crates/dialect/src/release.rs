//! Releases of a control plane: which are known, how they are written, and which changes they have.
//!
//! A dialect resolves a release to named behaviours once. Nothing else in it looks at the release.

use std::fmt;

use federate_kubernetes::image::Image;
use federate_kubernetes::{Finding, Object, Severity};
use federate_repo::{Config, Repo};
use rayon::prelude::*;
use serde_json::Value;

/// The key below `dialects.<name>` in `federate.yaml`.
pub const VERSION_SETTING: &str = "version";

/// The code of findings about releases that federate does not know.
pub const UNKNOWN_RELEASE: &str = "unknown-release";

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
    /// The newest known patch of each minor version, oldest first.
    pub newest: &'static [(u16, u16)],
    /// States of the code with a name instead of a number, oldest first.
    pub named: &'static [NamedState],
}

/// A state of the code of a control plane that is no release.
#[derive(Debug)]
pub struct NamedState {
    /// The name, such as that of the branch.
    pub name: &'static str,
    /// Which state of it is known: its date, and between which releases it is.
    pub recorded: &'static str,
    /// The minor version and patch that it counts as.
    pub number: (u16, u16),
}

/// One release of a control plane.
#[derive(Clone, Copy)]
pub struct Release {
    catalog: &'static ReleaseCatalog,
    /// Minor version and patch.
    number: (u16, u16),
}

/// A release as it is named, and the one whose rules apply.
///
/// The two differ if the named release is newer than all that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRelease {
    /// The full version, or the name of a state of the code.
    pub name: String,
    /// The release whose rules apply.
    pub release: Release,
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
enum InvalidReleaseSetting {
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

    /// What names it in `federate.yaml`.
    pub fn name(self) -> String {
        match self.named_state() {
            Some(state) => state.name.to_owned(),
            None => self.to_string(),
        }
    }

    fn named_state(self) -> Option<&'static NamedState> {
        self.catalog.named.iter().find(|state| state.number == self.number)
    }
}

impl NamedRelease {
    /// That the named release is not known yet, and which one decides in its place; `None` for a known release.
    pub fn describe_stand_in(&self) -> Option<String> {
        let Self { name, release } = self;
        if *name == release.name() {
            return None;
        }
        let which = match release.named_state() {
            Some(_) => "the newest state that federate knows".to_owned(),
            None => format!(
                "the newest patch of {}.{} that federate knows",
                release.catalog.major, release.number.0
            ),
        };
        Some(format!(
            "{} {name} is newer than this version of federate: the rules of {release} decide, {which}",
            release.catalog.product
        ))
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
        match self.named_state() {
            Some(state) => write!(f, "{state}"),
            None => write!(f, "{}.{}.{}", self.catalog.major, self.number.0, self.number.1),
        }
    }
}

impl fmt::Display for NamedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.recorded)
    }
}

impl ReleaseCatalog {
    /// The newest known state of the code.
    pub fn find_latest(&'static self) -> Release {
        let numbered = self.newest.iter().copied();
        let number = numbered.chain(self.named.iter().map(|state| state.number)).max().unwrap_or_default();
        Release { catalog: self, number }
    }

    /// The release whose rules apply for a name, as in [`parse_named`](Self::parse_named).
    pub fn parse_release(&'static self, text: &str) -> Result<Release, UnknownRelease> {
        Ok(self.parse_named(text)?.release)
    }

    /// Reads `1.16`, which is the newest patch of that minor version, `1.16.2`, `v1.16.2`, or the name of a state.
    ///
    /// Control planes are released more often than federate. The newest known patch stands in for a newer one of its minor
    /// version, and the newest known state for a newer minor or major version.
    pub fn parse_named(&'static self, text: &str) -> Result<NamedRelease, UnknownRelease> {
        let known = self.find_state(text).or_else(|| self.find_known(Version::parse(text)?));
        if let Some(number) = known {
            let release = Release { catalog: self, number };
            return Ok(NamedRelease { name: release.name(), release });
        }
        let stand_in = Version::parse(text).and_then(|version| self.find_stand_in(version));
        let release = stand_in.ok_or_else(|| self.unknown_release(text))?;
        Ok(NamedRelease { name: text.strip_prefix('v').unwrap_or(text).to_owned(), release })
    }

    /// The state of the code with this name, also with the date.
    fn find_state(&self, text: &str) -> Option<(u16, u16)> {
        let mut named = self.named.iter();
        Some(named.find(|state| state.name == text || state.to_string() == text)?.number)
    }

    /// The known release with this number.
    fn find_known(&self, version: Version<'_>) -> Option<(u16, u16)> {
        let newest = self.find_newest_patch(version)?;
        let patch = version.patch.map_or(Some(newest.1), |patch| u16::try_from(patch).ok())?;
        Some((newest.0, patch)).filter(|(_, patch)| *patch <= newest.1 && version.suffix.is_empty())
    }

    /// The release that stands in for a newer one.
    fn find_stand_in(&'static self, version: Version<'_>) -> Option<Release> {
        if let Some(newest) = self.find_newest_patch(version) {
            let is_newer = version.patch.is_some_and(|patch| patch > u64::from(newest.1));
            return is_newer.then_some(Release { catalog: self, number: newest });
        }
        let newest = (u64::from(self.major), u64::from(self.newest.last()?.0));
        ((version.major, version.minor) > newest).then(|| self.find_latest())
    }

    /// The newest known patch of the minor version of a version.
    fn find_newest_patch(&self, version: Version<'_>) -> Option<(u16, u16)> {
        let minor = u16::try_from(version.minor).ok().filter(|_| version.major == u64::from(self.major))?;
        self.newest.iter().copied().find(|(known, _)| *known == minor)
    }

    fn unknown_release(&self, name: &str) -> UnknownRelease {
        let major = self.major;
        let numbered = self.newest.iter().map(|(minor, patch)| match patch {
            0 => format!("{major}.{minor}"),
            _ => format!("{major}.{minor} (up to {major}.{minor}.{patch})"),
        });
        let named = self.named.iter().map(ToString::to_string);
        let known = numbered.chain(named).collect();
        UnknownRelease { name: name.to_owned(), product: self.product, known }
    }

    /// The release that `federate.yaml` names for a dialect; the newest if it names none, or none that can be read.
    pub fn resolve_configured(&'static self, config: &Config, dialect: &str) -> Release {
        self.read_setting(config, dialect)
            .ok()
            .flatten()
            .map_or_else(|| self.find_latest(), |named| named.release)
    }

    /// The same for a repo, with a finding if the setting is invalid, or if another release stands in for a newer one.
    pub fn resolve_for_repo(&'static self, repo: &Repo, dialect: &str) -> (Release, Option<Finding>) {
        let pointer = format!("/dialects/{dialect}/{VERSION_SETTING}");
        match self.read_setting(&repo.config, dialect) {
            Ok(None) => (self.find_latest(), None),
            Ok(Some(named)) => {
                let stand_in =
                    stand_in_finding(&named).map(|Finding { severity, code, message, help, .. }| {
                        let place = repo.invalid_config(&pointer, "");
                        Finding { severity, code, message, help, ..place }
                    });
                (named.release, stand_in)
            }
            Err(why) => (self.find_latest(), Some(repo.invalid_config(&pointer, why.to_string()))),
        }
    }

    fn read_setting(
        &'static self,
        config: &Config,
        dialect: &str,
    ) -> Result<Option<NamedRelease>, InvalidReleaseSetting> {
        let setting = config.dialects.get(dialect).and_then(|settings| settings.get(VERSION_SETTING));
        let text =
            setting.map(|setting| setting.as_str().ok_or(InvalidReleaseSetting::NotText)).transpose()?;
        Ok(text.map(|text| self.parse_named(text)).transpose()?)
    }
}

/// The warning that another release stands in for a newer one.
pub fn stand_in_finding(named: &NamedRelease) -> Option<Finding> {
    let finding = Finding::about_run(Severity::Warning, UNKNOWN_RELEASE, named.describe_stand_in()?);
    Some(finding.with_help(
        "a later version of federate may know its rules; to decide by those of a known release without this warning, name that release",
    ))
}

/// A version as control planes number their releases: `1.16`, `v1.16.2`, `1.16.2-rc.1`.
#[derive(Clone, Copy, Debug)]
struct Version<'t> {
    major: u64,
    minor: u64,
    patch: Option<u64>,
    /// The pre-release and the build after a patch, with the sign before them.
    suffix: &'t str,
}

impl<'t> Version<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, suffix) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
        let mut numbers = numbers.split('.').map(parse_number);
        let (major, minor) = (numbers.next()??, numbers.next()??);
        let patch = numbers.next().map_or(Some(None), |patch| patch.map(Some))?;
        let is_suffix = |text: &str| {
            text.len() > 1 && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'))
        };
        let fits = numbers.next().is_none() && (suffix.is_empty() || (patch.is_some() && is_suffix(suffix)));
        fits.then_some(Self { major, minor, patch, suffix })
    }
}

/// A number of digits alone.
fn parse_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
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
        named: &[NamedState { name: "main", recorded: "2020-01-02, before 1.18", number: (18, 0) }],
    };

    fn release(text: &str) -> Release {
        RELEASES.parse_release(text).unwrap()
    }

    const MAIN: &str = "main (2020-01-02, before 1.18)";

    #[test]
    fn a_minor_version_is_its_newest_patch() {
        for (text, shown, name) in [
            ("1.16", "1.16.8", "1.16.8"),
            ("1.16.2", "1.16.2", "1.16.2"),
            ("v1.16.2", "1.16.2", "1.16.2"),
            ("1.17", "1.17.0", "1.17.0"),
            ("main", MAIN, "main"),
            // As plans name it.
            (MAIN, MAIN, "main"),
        ] {
            let named = RELEASES.parse_named(text).unwrap();
            assert_eq!((&*named.release.to_string(), &*named.name), (shown, name));
            assert_eq!(named.describe_stand_in(), None);
        }
        assert_eq!(RELEASES.find_latest(), release("main"));
    }

    #[test]
    fn the_newest_known_stands_in_for_a_newer_release() {
        for (text, shown, name) in [
            ("1.16.9", "1.16.8", "1.16.9"),
            ("v1.16.9-rc.1", "1.16.8", "1.16.9-rc.1"),
            ("1.16.70000", "1.16.8", "1.16.70000"),
            ("1.18", MAIN, "1.18"),
            ("v1.18.0-alpha.2", MAIN, "1.18.0-alpha.2"),
            ("1.40.3+build.7", MAIN, "1.40.3+build.7"),
            ("2.0.1", MAIN, "2.0.1"),
            ("2.3", MAIN, "2.3"),
        ] {
            let named = RELEASES.parse_named(text).unwrap();
            assert_eq!((&*named.release.to_string(), &*named.name), (shown, name), "{text}");
            let said = named.describe_stand_in().unwrap();
            assert!(said.contains(&format!("Example {name} is newer")) && said.contains(shown), "{said}");
            assert_eq!(RELEASES.parse_named(&named.name), Ok(named), "{text}");
        }
    }

    #[test]
    fn what_is_not_known_and_not_newer_is_refused_with_what_is() {
        for text in [
            "",
            "1",
            "1.14",
            "0.99",
            "1.16.x",
            "1.16.2.1",
            "Main",
            "v1",
            "1.16.2-rc.1",
            "1.16.8-rc.1",
            "1.19-rc.1",
            "1.19.0-",
            "1.+19",
            "1.19.",
            "main (2020-01-01, before 1.18)",
        ] {
            let message = RELEASES.parse_release(text).unwrap_err().to_string();
            let known = format!("known are 1.15 (up to 1.15.9), 1.16 (up to 1.16.8), 1.17, {MAIN}");
            assert!(message.contains(&known) && message.contains(&format!("`{text}`")), "{message}");
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
