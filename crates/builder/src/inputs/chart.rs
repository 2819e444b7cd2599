//! Reads the files of charts. Packaged charts are unpacked and packed anew, so that Helm gets the files that were seen here,
//! whatever it would find in the archive.
//!
//! Facts: Helm reads `.tgz` in a folder `charts`, takes away the first folder of each path in an archive, and reads
//! `values.schema.json` of a chart and of each of its dependencies.

use std::io::{self, Read as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use tar::{Archive, Builder, Header};

use federate_repo::build::{BuildError, ChartJob, ChartParameter, is_packaged_chart};
use federate_repo::file_tree::EntryKind;
use federate_repo::normalize_path;

use super::schema::{self, SCHEMA_NAME, SchemaProblem};
use super::{MAX_BYTES, Reader, Reference, join_path, refuse_build};

/// How deep packaged charts may contain each other.
const MAX_DEPTH: usize = 8;

/// The folder in a packed chart.
const PACKED_FOLDER: &str = "chart";

/// A file of a packaged chart.
#[derive(Clone, Debug)]
pub struct PackedFile {
    /// Its path in the chart, which leads nowhere else.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Reader<'_> {
    /// Adds a chart: a packaged one, or all files of a folder.
    pub(super) fn add_chart(&mut self, chart: &ChartJob) -> Result<(), BuildError> {
        self.add_chart_files(&chart.path)?;
        self.check_charts(&chart.path)?;
        for path in &chart.values {
            self.add_file(path, None)?;
        }
        for parameter in &chart.parameters {
            if let ChartParameter::File { name, file } = parameter {
                refuse_path_in_name(name)?;
                self.add_file(file, None)?;
            }
        }
        self.leave_out_values(chart)
    }

    fn add_chart_files(&mut self, path: &str) -> Result<(), BuildError> {
        match self.kind_of(path) {
            Some(EntryKind::File) if is_packaged_chart(path) => self.add_file(path, None),
            Some(EntryKind::Folder) => {
                self.add_folder(path)?;
                if self.inputs.files.contains_key(&join_path(path, "Chart.yaml")) {
                    return Ok(());
                }
                Err(refuse_build(None, format!("`{path}` has no Chart.yaml"), None))
            }
            Some(EntryKind::LinkToFile(_) | EntryKind::LinkToFolder(_) | EntryKind::LinkOutside(_)) => {
                Err(refuse_build(None, format!("`{path}` is a link, or a link leads to it"), None))
            }
            Some(_) => Err(refuse_build(
                None,
                format!("`{path}` is neither a folder nor a packaged chart (`.tgz`)"),
                None,
            )),
            None => Err(refuse_build(None, format!("`{path}` is not in the repo"), None)),
        }
    }

    /// Leaves the chart's own values out, where others stand in place of them.
    fn leave_out_values(&mut self, chart: &ChartJob) -> Result<(), BuildError> {
        let own = format!("{}/values.yaml", chart.path);
        if !chart.replaces_values || chart.values.contains(&own) {
            return Ok(());
        }
        if is_packaged_chart(&chart.path) {
            let why = "the values files stand in place of those of the chart, which is packaged".to_owned();
            return Err(refuse_build(None, why, Some("unpack the chart in the repo".to_owned())));
        }
        self.inputs.files.remove(&own);
        Ok(())
    }

    /// Checks the schemas of the charts that were added, and packs the packaged ones anew.
    fn check_charts(&mut self, chart: &str) -> Result<(), BuildError> {
        let mut unpacked = 0;
        for (path, bytes) in &mut self.inputs.files {
            if is_schema(path) {
                let problem = schema::find_problem(bytes);
                problem.map_or(Ok(()), |problem| Err(refuse_schema(path, bytes, &problem)))?;
            } else if path == chart || is_packaged_dependency(path) {
                *bytes = repack_chart(path, bytes, &mut unpacked, MAX_DEPTH)?;
            }
        }
        Ok(())
    }
}

/// Refuses the name of a parameter for a file which would contain the path of a file itself, or quote what separates it from one.
fn refuse_path_in_name(name: &str) -> Result<(), BuildError> {
    let is_quoted_dot = |rest: &str| rest.starts_with('.');
    let mut backslashes = name.split('\\').skip(1);
    if !name.contains(['=', ',']) && backslashes.all(is_quoted_dot) {
        return Ok(());
    }
    let help = "name the value by keys, dots and indices".to_owned();
    Err(refuse_build(None, format!("`{}` is not the path of a value", name.escape_debug()), Some(help)))
}

fn is_schema(path: &str) -> bool {
    path.rsplit('/').next() == Some(SCHEMA_NAME)
}

/// Whether Helm takes a file for a packaged chart that another one depends on.
fn is_packaged_dependency(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    is_packaged_chart(path) && folder.rsplit('/').next() == Some("charts")
}

fn refuse_schema(path: &str, text: &[u8], problem: &SchemaProblem) -> BuildError {
    let line = federate_yaml::locate_nearest(text, 0, &problem.pointer).map_or(0, |at| at.line);
    let place = Reference { file: path.to_owned(), line };
    refuse_build(
        Some(&place),
        format!("the schema of the values is refused: {}", problem.why),
        Some(help_of_schema()),
    )
}

fn help_of_schema() -> String {
    "copy what it refers to into `$defs` of the schema, and write `\"$ref\": \"#/$defs/NAME\"`".to_owned()
}

/// Checks the schemas in a packaged chart at `path`, and packs its files anew.
fn repack_chart(
    path: &str,
    packed: &[u8],
    unpacked: &mut usize,
    depth: usize,
) -> Result<Vec<u8>, BuildError> {
    let place = Reference { file: path.to_owned(), line: 0 };
    if depth == 0 {
        let why = io::Error::other(format!("more than {MAX_DEPTH} packaged charts contain each other"));
        return Err(refuse_archive(&place, &why));
    }
    let mut files = unpack_within(packed, unpacked).map_err(|why| refuse_archive(&place, &why))?;
    for file in &mut files {
        if is_schema(&file.path)
            && let Some(problem) = schema::find_problem(&file.bytes)
        {
            let why = format!("the schema of the values (`{}`) is refused: {}", file.path, problem.why);
            return Err(refuse_build(Some(&place), why, Some(help_of_schema())));
        }
        if is_packaged_dependency(&file.path) {
            file.bytes = repack_chart(path, &file.bytes, unpacked, depth - 1)?;
        }
    }
    pack_chart(&files).map_err(|why| refuse_archive(&place, &why))
}

fn refuse_archive(place: &Reference, why: &io::Error) -> BuildError {
    let help = "package it anew with `helm package`, or commit the folder of the chart".to_owned();
    refuse_build(Some(place), format!("`{}` cannot be unpacked: {why}", place.file), Some(help))
}

/// The files of a packaged chart, in order; links are left out. Fails if it is not one, is too large, or has paths that lead out of it.
pub fn unpack_chart(packed: &[u8]) -> io::Result<Vec<PackedFile>> {
    unpack_within(packed, &mut 0)
}

/// The files of a packaged chart, in order. `unpacked` are the bytes that a build has unpacked.
fn unpack_within(packed: &[u8], unpacked: &mut usize) -> io::Result<Vec<PackedFile>> {
    let mut files = Vec::new();
    let left = (MAX_BYTES - *unpacked) as u64;
    let mut archive = Archive::new(MultiGzDecoder::new(packed).take(left));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8(entry.path_bytes().into_owned());
        let path = path.map_err(|_| io::Error::other("a path in it is not UTF-8"))?.replace('\\', "/");
        let Some((_, below)) = path.split_once('/') else { continue };
        let below = normalize_path(below)
            .map_err(|why| io::Error::other(format!("`{}` in it is refused: {why}", path.escape_debug())))?;
        if below.is_empty() {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        *unpacked += bytes.len();
        files.push(PackedFile { path: below, bytes });
        if *unpacked >= MAX_BYTES {
            return Err(io::Error::other(format!("its files are larger than {} MiB", MAX_BYTES >> 20)));
        }
    }
    Ok(files)
}

fn pack_chart(files: &[PackedFile]) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for file in files {
        let mut header = Header::new_gnu();
        header.set_size(file.bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("{PACKED_FOLDER}/{}", file.path), file.bytes.as_slice())?;
    }
    archive.into_inner()?.finish()
}
