//! Downloads charts with `helm`, with the user's own configuration of it: repositories, logins, proxies, certificates.
//!
//! Facts: Helm's documentation of `helm pull`, `helm repo list` and `helm repo update`. Helm resolves ranges of versions, in the index of
//! a repository and among the tags of a registry. The credentials of a repository are only used if it is named as in `helm repo list`.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use federate_builder::{NetworkedProgram, PackedFile, unpack_chart};
use federate_gitops::{RemoteReference, is_chart_name};
use federate_kubernetes::hex::to_hex;
use federate_source::git::program::without_credentials;

/// The longest version of a chart, which is the name of a folder.
const MAX_VERSION_LENGTH: usize = 128;

/// The most files of a chart.
const MAX_FILES: usize = 20_000;

/// The most characters of a message of Helm that are shown.
const MAX_SHOWN_CHARS: usize = 600;

/// A chart or a base as it was downloaded.
pub(crate) struct DownloadedSource {
    /// The version; of a base, the commit.
    pub(crate) version: String,
    /// The digest of the packaged chart; of a base, the commit.
    pub(crate) archive: String,
    pub(crate) files: Vec<PackedFile>,
}

/// Calls `helm`.
pub struct HelmClient {
    program: NetworkedProgram,
    /// The names of the repositories that the user has added, by their addresses.
    repositories: OnceCell<BTreeMap<String, String>>,
}

impl HelmClient {
    /// Calls this program.
    pub fn new(program: NetworkedProgram) -> Self {
        Self { program, repositories: OnceCell::new() }
    }

    /// Downloads a chart to a folder, which is empty, in the newest version of the requested range, or in exactly `version`. The
    /// error is a sentence.
    pub(crate) fn download(
        &self,
        chart: &RemoteReference,
        version: Option<&str>,
        folder: &Path,
    ) -> Result<DownloadedSource, String> {
        let explain = |why: String| format!("the {chart} cannot be downloaded: {why}");
        self.pull(chart, version.unwrap_or(&chart.version), folder).map_err(explain)?;
        let packed = read_archive(folder).map_err(explain)?;
        let read = read_chart(chart, &packed);
        read.map_err(|why| format!("the {chart} was downloaded, and is refused: {why}"))
    }

    fn pull(&self, chart: &RemoteReference, version: &str, folder: &Path) -> Result<(), String> {
        let mut args: Vec<OsString> = vec!["pull".into()];
        let RemoteReference { repository, name, .. } = chart;
        let mut version = Some(version).filter(|version| *version != "*");
        if let Some(registry) = repository.strip_prefix("oci://") {
            let digest = version.take_if(|version| version.starts_with("sha256:"));
            let at = digest.map_or_else(String::new, |digest| format!("@{digest}"));
            args.push(format!("{repository}/{name}{at}").into());
            if is_loopback(registry) {
                args.push("--plain-http".into());
            }
        } else if let Some(known) = self.known_repositories().get(repository) {
            self.run(&["repo".into(), "update".into(), known.into()], folder)?;
            args.push(format!("{known}/{name}").into());
        } else {
            args.extend([name.into(), "--repo".into(), repository.into()]);
        }
        args.extend(version.map(|version| format!("--version={version}").into()));
        args.extend(["--destination".into(), folder.into()]);
        self.run(&args, folder).map(drop)
    }

    /// The repositories that the user has added; none if Helm cannot say.
    fn known_repositories(&self) -> &BTreeMap<String, String> {
        self.repositories.get_or_init(|| {
            let args = ["repo", "list", "--output", "json"].map(OsString::from);
            let listed = self.program.run(&args, &std::env::temp_dir()).unwrap_or_default();
            let listed: Vec<Value> = serde_json::from_slice(&listed).unwrap_or_default();
            let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            listed
                .iter()
                .filter_map(|entry| {
                    let name = text(entry, "name").filter(|name| is_chart_name(name))?;
                    Some((text(entry, "url")?.trim_end_matches('/').to_owned(), name))
                })
                .collect()
        })
    }

    fn run(&self, args: &[OsString], folder: &Path) -> Result<Vec<u8>, String> {
        self.program.run(args, folder).map_err(|why| {
            let last = why.lines().rev().find(|line| line.starts_with("Error: ")).unwrap_or(&why);
            let last = without_credentials(last.strip_prefix("Error: ").unwrap_or(last));
            let shown: String = last.chars().take(MAX_SHOWN_CHARS).collect();
            let is_denied =
                ["401", "403", "unauthorized", "denied"].iter().any(|word| last.to_lowercase().contains(word));
            if is_denied {
                format!(
                    "{shown}; log in with `helm registry login`, or add the repository with its credentials (`helm repo add`)"
                )
            } else {
                shown
            }
        })
    }
}

/// Whether a registry is on this machine, which is reached without TLS.
fn is_loopback(registry: &str) -> bool {
    let host = registry.split('/').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    matches!(host, "127.0.0.1" | "localhost" | "[::1]")
}

/// The packaged chart in a folder.
fn read_archive(folder: &Path) -> Result<Vec<u8>, String> {
    let entries = fs::read_dir(folder).map_err(|why| why.to_string())?;
    let mut found = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| {
        path.extension().is_some_and(|extension| extension == "tgz") && path.is_file() && !path.is_symlink()
    });
    match (found.next(), found.next()) {
        (Some(path), None) => fs::read(path).map_err(|why| why.to_string()),
        _ => Err("helm has not written one packaged chart".to_owned()),
    }
}

/// Unpacks a chart, and checks that it is the one that was asked for.
fn read_chart(chart: &RemoteReference, packed: &[u8]) -> Result<DownloadedSource, String> {
    let mut files = unpack_chart(packed).map_err(|why| format!("it cannot be unpacked: {why}"))?;
    // Files of git would change what git stores of the others.
    files.retain(|file| !file.path.split('/').any(|part| part.starts_with(".git")));
    if files.len() > MAX_FILES {
        return Err(format!("it has more than {MAX_FILES} files"));
    }
    let paths: std::collections::BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    if paths.len() < files.len() {
        return Err("a path in it stands twice".to_owned());
    }
    let own = files.iter().find(|file| file.path == "Chart.yaml").ok_or("it has no Chart.yaml")?;
    let document = federate_yaml::read_stream(&own.bytes).documents.into_iter().next();
    let fields = document.map(|document| document.value).unwrap_or_default();
    let field = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    if field("name") != chart.name {
        return Err(format!("its Chart.yaml has the name `{}`", field("name").escape_debug()));
    }
    let version = field("version");
    if !is_version(version) {
        return Err(format!("its Chart.yaml has the version `{}`", version.escape_debug()));
    }
    let archive = format!("sha256:{}", to_hex(&Sha256::digest(packed)));
    Ok(DownloadedSource { version: version.to_owned(), archive, files })
}

/// Whether a text can be a version, and so the name of a folder.
fn is_version(text: &str) -> bool {
    text.len() <= MAX_VERSION_LENGTH
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'))
}
