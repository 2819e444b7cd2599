//! The releases of control planes by the repo's own objects: a repo that installs a control plane, or keeps the
//! objects of its installation beside the inventory, says which release decides.

use std::collections::BTreeMap;

use rayon::prelude::*;

use federate_dialect::release::{UNKNOWN_RELEASE, UnknownRelease};
use federate_dialect::{Dialect, Dialects, release};
use federate_kubernetes::{Finding, Object, Severity};
use federate_repo::Repo;

/// By dialect, the release of an installation among the repo's objects, for dialects whose release `federate.yaml`
/// does not set; with a finding for each release that is not known, and the one that decides in its place.
pub(crate) fn find_installed_releases(
    dialects: Dialects,
    repo: &Repo,
) -> (BTreeMap<String, String>, Vec<Finding>) {
    let templates = repo.templates.iter().map(|template| &template.object);
    let objects: Vec<&Object> = repo.claimed.iter().map(|c| &c.object).chain(templates).collect();
    let unset = dialects.iter().filter(|dialect| {
        let settings = repo.config.dialects.get(dialect.name());
        !settings.is_some_and(|settings| settings.contains_key(release::VERSION_SETTING))
    });
    let unset: Vec<&dyn Dialect> = unset.collect();
    let found: Vec<_> = unset.par_iter().map(|dialect| dialect.hub().detect_release(&objects)).collect();
    let (mut releases, mut findings) = (BTreeMap::new(), Vec::new());
    for (dialect, found) in unset.iter().zip(found) {
        match found {
            Some(Ok(named)) => {
                findings.extend(release::stand_in_finding(&named).map(|finding| Finding {
                    message: format!(
                        "the repo contains an installation of {}: {}",
                        dialect.name(),
                        finding.message
                    ),
                    ..finding
                }));
                releases.insert(dialect.name().to_owned(), named.release.name());
            }
            Some(Err(unknown)) => findings.push(unknown_release(dialect.name(), &unknown)),
            None => {}
        }
    }
    (releases, findings)
}

fn unknown_release(dialect: &str, unknown: &UnknownRelease) -> Finding {
    let message = format!(
        "the repo contains an installation of {dialect} whose release is not known, so the rules of the newest \
         release decide: {unknown}"
    );
    let help =
        format!("name the release below `dialects.{dialect}.{}` in federate.yaml", release::VERSION_SETTING);
    Finding::about_run(Severity::Warning, UNKNOWN_RELEASE, message).with_help(help)
}
