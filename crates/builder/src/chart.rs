//! How Helm is called, and what its errors mean.

use std::ffi::OsString;
use std::io;

use federate_repo::build::{BuildError, ChartJob, ChartParameter, is_packaged_chart, strip_chart_version};

use crate::inputs::BuildInputs;
use crate::process::{BuildFolder, ProcessError};
use crate::program::Program;

pub(crate) fn list_arguments(
    folder: &BuildFolder,
    job: &ChartJob,
    inputs: &BuildInputs,
) -> io::Result<Vec<OsString>> {
    let mut args: Vec<OsString> = vec!["template".into()];
    args.push(release_of(job, inputs).into());
    args.push(folder.path_of(&job.path).into());
    args.extend(["--namespace".into(), job.namespace.clone().into()]);
    if let Some(version) = &job.kubernetes {
        args.extend(["--kube-version".into(), version.into()]);
    }
    for api in job.apis.iter() {
        args.extend(["--api-versions".into(), api.into()]);
    }
    for path in &job.values {
        args.extend(["--values".into(), folder.path_of(path).into()]);
    }
    if !job.set.is_empty() {
        args.extend(["--values".into(), folder.write_extra("set.json", job.set.as_bytes())?.into()]);
    }
    for parameter in &job.parameters {
        let (option, value) = match parameter {
            ChartParameter::Typed(entry) => ("--set", entry.clone()),
            ChartParameter::Text(entry) => ("--set-string", entry.clone()),
            ChartParameter::File { name, file } => {
                ("--set-file", format!("{name}={}", quote_value(&folder.path_of(file).to_string_lossy())))
            }
        };
        args.extend([option.into(), value.into()]);
    }
    args.push("--skip-tests".into());
    if job.skips_schema {
        args.push("--skip-schema-validation".into());
    }
    if !job.skips_crds {
        args.push("--include-crds".into());
    }
    if job.drops_hooks {
        args.push("--no-hooks".into());
    }
    Ok(args)
}

/// A value as Helm reads it in its language for values by path.
fn quote_value(value: &str) -> String {
    let quoted = value.chars().flat_map(|c| matches!(c, '\\' | ',').then_some('\\').into_iter().chain([c]));
    quoted.collect()
}

/// The name of the release: that of the chart, if it is not given.
fn release_of(job: &ChartJob, inputs: &BuildInputs) -> String {
    if let Some(release) = &job.release {
        return release.clone();
    }
    let chart_file =
        if job.path.is_empty() { "Chart.yaml".to_owned() } else { format!("{}/Chart.yaml", job.path) };
    let chart = inputs.files.get(&chart_file);
    let name = chart.and_then(|text| {
        let document = federate_yaml::read_stream(text).documents.into_iter().next()?;
        document.value.get("name")?.as_str().map(str::to_owned)
    });
    let name = name.or_else(|| packaged_chart_name(&job.path)).unwrap_or_default();
    if federate_repo::config::is_release_name(&name) { name } else { "release".to_owned() }
}

/// What an error of Helm means.
pub(crate) fn explain_error(program: &Program, job: &ChartJob, error: &ProcessError) -> BuildError {
    let text = error.describe_failure(&program.name());
    let text = text.trim_end_matches("\n\nUse --debug flag to render out invalid YAML").to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("Error: ")).unwrap_or(&text);
    let mut help = None;
    if line.contains("missing in charts/ directory") {
        help = Some(format!("vendor it: run `helm dependency build {}`, and commit `charts/`", job.path));
    } else if line.contains("kubeVersion") {
        let version = job.kubernetes.as_deref().unwrap_or("that Helm assumes");
        help = Some(format!(
            "the chart does not support the version {version}: update the chart, or build it for other clusters only"
        ));
    } else if line.contains("library chart") || line.contains("library charts are not installable") {
        help = Some("a library chart gives nothing: remove it from `sources`".to_owned());
    }
    BuildError { code: error.code(), why: line.to_owned(), help, place: find_place(job, line) }
}

/// The file and line that a message of Helm names, as `NAME/templates/web.yaml:3:4`.
fn find_place(job: &ChartJob, message: &str) -> Option<(String, u32)> {
    if is_packaged_chart(&job.path) {
        return None;
    }
    let words = message.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"'));
    words.filter(|word| word.contains("/templates/")).find_map(|word| {
        let mut parts = word.split(':');
        let (file, line) = (parts.next()?, parts.next()?.parse().ok()?);
        let (_, below) = file.split_once('/')?;
        let file = if job.path.is_empty() { below.to_owned() } else { format!("{}/{below}", job.path) };
        Some((file, line))
    })
}

/// The name of a packaged chart.
fn packaged_chart_name(path: &str) -> Option<String> {
    let name = strip_chart_version(path).rsplit('/').next()?;
    is_packaged_chart(path).then(|| name.to_owned())
}
