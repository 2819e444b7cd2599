//! The chart of a source of Argo CD, with its values.
//!
//! Facts: how Argo CD calls `helm template`. Values win over values files, `valuesObject` as a whole over `values`, and parameters over
//! all: first those with types, then texts, then files. Of parameters with one name, the last one counts.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use federate_file_tree::CachedTree;
use federate_kubernetes::object::field_text;

use super::ApplicationSource;
use super::overrides::{refuse_unknown, release_name};
use crate::description::{ChartParameter, DescribedChart, DescriptionError, list_texts};
use crate::values::require_values_file;

/// Keys of `helm` that are read, or change nothing that is built: tests are never placed, and nothing is fetched with credentials.
const KEYS: [&str; 15] = [
    "apiVersions",
    "fileParameters",
    "ignoreMissingValueFiles",
    "kubeVersion",
    "namespace",
    "parameters",
    "passCredentials",
    "releaseName",
    "skipCrds",
    "skipSchemaValidation",
    "skipTests",
    "valueFiles",
    "values",
    "valuesObject",
    "version",
];

/// The most bytes of a parameter, which is an argument of Helm.
const MAX_PARAMETER_BYTES: usize = 100_000;

/// The most bytes of the parameters together.
const MAX_PARAMETERS_BYTES: usize = 1_000_000;

impl ApplicationSource<'_> {
    /// Reads the settings of the chart at a path.
    pub(super) fn read_chart(
        &self,
        tree: &CachedTree<'_>,
        path: &str,
    ) -> Result<DescribedChart, DescriptionError> {
        refuse_unknown(&self.source, "helm", &KEYS, self.pointer)?;
        let helm = self.source.get("helm").unwrap_or(&Value::Null);
        let version = field_text(helm, "version");
        if !matches!(version, "" | "v3") {
            let why = format!("Argo CD has no version `{version}` of Helm");
            return Err(DescriptionError::new(&format!("{}/helm/version", self.pointer), why));
        }
        let own = |key: &str, default: &str| match field_text(helm, key) {
            "" => default.to_owned(),
            text => text.to_owned(),
        };
        let is_true = |key: &str| helm.get(key) == Some(&Value::Bool(true));
        let namespace =
            if self.environment.namespace.is_empty() { "default" } else { self.environment.namespace };
        Ok(DescribedChart {
            release: own("releaseName", release_name(self.environment.name)),
            namespace: own("namespace", namespace),
            values: self.list_values_files(tree, path, helm)?,
            set: self.read_values(helm)?,
            parameters: self.read_parameters(tree, path, helm)?,
            kubernetes: Some(own("kubeVersion", "")).filter(|version| !version.is_empty()),
            apis: Some(list_texts(helm.get("apiVersions"))).filter(|apis| !apis.is_empty()),
            skips_crds: is_true("skipCrds"),
            skips_schema: is_true("skipSchemaValidation"),
            ..DescribedChart::default()
        })
    }

    fn read_values(&self, helm: &Value) -> Result<Map<String, Value>, DescriptionError> {
        if let Some(values) = helm.get("valuesObject").filter(|values| !values.is_null()) {
            let pointer = format!("{}/helm/valuesObject", self.pointer);
            return values
                .as_object()
                .cloned()
                .ok_or_else(|| DescriptionError::new(&pointer, "its values are not a map"));
        }
        let refuse = |why: String| DescriptionError::new(&format!("{}/helm/values", self.pointer), why);
        match federate_yaml::read_as_go(field_text(helm, "values")) {
            Ok(Value::Object(values)) => Ok(values),
            Ok(Value::Null) => Ok(Map::new()),
            Ok(_) => Err(refuse("its values are not a map".to_owned())),
            Err(error) => Err(refuse(format!("its values are not valid YAML: {error}"))),
        }
    }

    fn read_parameters(
        &self,
        tree: &CachedTree<'_>,
        path: &str,
        helm: &Value,
    ) -> Result<Vec<ChartParameter>, DescriptionError> {
        let (mut typed, mut texts) = (BTreeMap::new(), BTreeMap::new());
        let mut bytes = 0;
        for (index, parameter) in list_items(helm, "parameters").enumerate() {
            let pointer = format!("{}/helm/parameters/{index}/value", self.pointer);
            let value = self.environment.expand(field_text(parameter, "value"));
            let value = value.map_err(|why| DescriptionError::new(&pointer, why))?;
            let is_text = parameter.get("forceString") == Some(&Value::Bool(true));
            let name = field_text(parameter, "name");
            let length = name.len() + value.len();
            bytes += length;
            if length > MAX_PARAMETER_BYTES || bytes > MAX_PARAMETERS_BYTES {
                let why = format!(
                    "a parameter has more than {MAX_PARAMETER_BYTES} bytes, or all have more than {MAX_PARAMETERS_BYTES}"
                );
                return Err(DescriptionError::new(&pointer, why).with_help("write them as `valuesObject`"));
            }
            let of_kind = if is_text { &mut texts } else { &mut typed };
            of_kind.insert(name, quote_commas(&value));
        }
        let mut files = BTreeMap::new();
        for (index, parameter) in list_items(helm, "fileParameters").enumerate() {
            let pointer = format!("{}/helm/fileParameters/{index}/path", self.pointer);
            let file = self.resolve_path(path, field_text(parameter, "path"), &pointer)?;
            require_values_file(tree, &file, false)
                .map_err(|error| DescriptionError::from_values_error(&pointer, error))?;
            files.insert(field_text(parameter, "name"), file);
        }
        let write = |(name, value): (&str, String)| format!("{name}={value}");
        let typed = typed.into_iter().map(|entry| ChartParameter::Typed(write(entry)));
        let texts = texts.into_iter().map(|entry| ChartParameter::Text(write(entry)));
        let files =
            files.into_iter().map(|(name, file)| ChartParameter::File { name: name.to_owned(), file });
        Ok(typed.chain(texts).chain(files).collect())
    }
}

fn list_items<'v>(helm: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    helm.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The value with its commas quoted, unless it is a list in braces.
fn quote_commas(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        return value.to_owned();
    }
    let mut quoted = String::with_capacity(value.len());
    let mut previous = None;
    for character in value.chars() {
        if character == ',' && previous != Some('\\') {
            quoted.push('\\');
        }
        quoted.push(character);
        previous = Some(character);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::quote_commas;

    #[test]
    fn commas_are_quoted_outside_of_lists() {
        for (value, expected) in
            [("x,y", "x\\,y"), ("x\\,y", "x\\,y"), ("{a,b}", "{a,b}"), ("{a,b", "{a\\,b")]
        {
            assert_eq!(quote_commas(value), expected);
        }
    }
}
