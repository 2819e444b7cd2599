//! Helm charts.

use std::sync::Arc;

use serde_json::Value;

use super::folder_of;
use federate_file_tree::RepoFile;

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) file: Arc<str>,
    pub(super) folder: String,
    pub(super) name: String,
    /// Whether other charts use it and nothing is installed from it alone.
    pub(super) is_library: bool,
}

impl Chart {
    /// Reads `Chart.yaml`; `None` if the file is not of a chart.
    pub(super) fn parse(file: &RepoFile) -> Option<Self> {
        let stream = federate_yaml::read_stream(&file.bytes);
        let value = &stream.documents.first()?.value;
        let name = value.get("name").and_then(Value::as_str)?;
        value.get("apiVersion")?;
        Some(Self {
            file: file.path.clone(),
            folder: folder_of(&file.path).to_owned(),
            name: name.to_owned(),
            is_library: value.get("type").and_then(Value::as_str) == Some("library"),
        })
    }

    /// Whether a file is one of the chart's templates, or those of a chart in it.
    pub(super) fn is_template(&self, path: &str) -> bool {
        let below = path.strip_prefix(&*self.folder).unwrap_or(path);
        below.split('/').any(|folder| folder == "templates")
    }
}
