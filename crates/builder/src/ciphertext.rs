//! What SOPS encrypted among the files of a build.
//!
//! kustomize copies ciphertext, and what is built is decrypted afterwards, for clusters only. A chart computes with its values, so
//! that ciphertext among them could become anything: it is refused.
//!
//! Facts: a Secret that kustomize generates from `envs` has each line of the file as a key.

use std::collections::BTreeMap;
use std::sync::Arc;

use federate_kubernetes::sops::{CIPHERTEXT_START, EncryptedFile, holds_ciphertext};
use federate_repo::build::{BuildError, ChartJob, ChartParameter};
use federate_repo::normalize_path;
use serde_json::Value;

use crate::inputs::KUSTOMIZATION_NAMES;

/// The start of the lines of SOPS in a file of variables.
const METADATA_PREFIX: &str = "sops_";

/// The text of a file, if SOPS encrypted it.
pub(crate) fn find_encrypted_text(path: &str, bytes: &[u8]) -> Option<Arc<[u8]>> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.contains(CIPHERTEXT_START))?;
    EncryptedFile::read(path, text).map(|_| bytes.into())
}

/// Removes the lines of SOPS from the files that generators take as variables: they say how to decrypt, and are not variables.
pub(crate) fn remove_sops_variables(files: &mut BTreeMap<String, Vec<u8>>) {
    let has_name = |path: &str| KUSTOMIZATION_NAMES.contains(&path.rsplit('/').next().unwrap_or_default());
    let kustomizations = files.iter().filter(|(path, _)| has_name(path));
    let named: Vec<String> = kustomizations.flat_map(|(path, text)| list_env_files(path, text)).collect();
    for path in named {
        let Some(bytes) = files.get_mut(&path) else { continue };
        let Ok(text) = std::str::from_utf8(bytes) else { continue };
        if text.lines().any(|line| line.starts_with("sops_mac=")) {
            let kept = text.split_inclusive('\n').filter(|line| !line.starts_with(METADATA_PREFIX));
            *bytes = kept.collect::<String>().into_bytes();
        }
    }
}

/// The files of variables that a kustomization names.
fn list_env_files(kustomization: &str, text: &[u8]) -> Vec<String> {
    let folder = kustomization.rsplit_once('/').map_or("", |(folder, _)| folder);
    let documents = federate_yaml::read_stream(text).documents;
    let mut named = Vec::new();
    for key in ["secretGenerator", "configMapGenerator"] {
        let generators =
            documents.iter().filter_map(|document| document.value.get(key)?.as_array()).flatten();
        for generator in generators {
            let listed = generator.get("envs").and_then(Value::as_array).into_iter().flatten();
            let paths = listed.chain(generator.get("env")).filter_map(Value::as_str);
            named.extend(paths.filter_map(|path| normalize_path(&format!("./{folder}/{path}")).ok()));
        }
    }
    named
}

/// Refuses encrypted values of a chart.
pub(crate) fn refuse_encrypted_values(
    chart: &ChartJob,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<(), BuildError> {
    let of_parameters = chart.parameters.iter().filter_map(|parameter| match parameter {
        ChartParameter::File { file, .. } => Some(file),
        ChartParameter::Typed(_) | ChartParameter::Text(_) => None,
    });
    for path in chart.values.iter().chain(of_parameters) {
        let text = files.get(path).map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default();
        if holds_ciphertext(&text) {
            let line = text.lines().position(|line| line.contains(CIPHERTEXT_START));
            let line = line.and_then(|line| u32::try_from(line + 1).ok()).unwrap_or_default();
            let why = format!("SOPS encrypted `{path}`, and the chart would compute with ciphertext");
            return Err(refuse_values(why, Some((path.clone(), line))));
        }
    }
    let in_parameters = chart.parameters.iter().any(|parameter| match parameter {
        ChartParameter::Typed(entry) | ChartParameter::Text(entry) => holds_ciphertext(entry),
        ChartParameter::File { .. } => false,
    });
    if in_parameters || holds_ciphertext(&chart.set) {
        let why = "SOPS encrypted some of its values, and the chart would compute with ciphertext".to_owned();
        return Err(refuse_values(why, None));
    }
    Ok(())
}

fn refuse_values(why: String, place: Option<(String, u32)>) -> BuildError {
    let help = "keep what is secret in a Secret of its own that SOPS encrypted, and let the chart refer to it by name (many have \
                a value such as `existingSecret`)";
    BuildError { code: "sops-values", why, help: Some(help.to_owned()), place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_sops_in_encrypted_variables_are_removed() {
        let kustomization = "secretGenerator: [{name: a, envs: [../b.env], env: c.env, files: [d.env]}]\n";
        let encrypted = "A=ENC[AES256_GCM,data:YQ==]\nsops_mac=ENC[AES256_GCM,data:YQ==]\nsops_version=3\n";
        let texts = [
            ("x/a/kustomization.yaml", kustomization),
            ("x/b.env", encrypted),
            ("x/a/c.env", "sops_unit=1\n"),
            ("x/a/d.env", encrypted),
        ];
        let mut files: BTreeMap<String, Vec<u8>> =
            texts.into_iter().map(|(path, text)| (path.to_owned(), text.into())).collect();
        remove_sops_variables(&mut files);
        assert_eq!(files["x/b.env"], b"A=ENC[AES256_GCM,data:YQ==]\n");
        assert_eq!(
            (&files["x/a/c.env"][..], &files["x/a/d.env"][..]),
            (&b"sops_unit=1\n"[..], encrypted.as_bytes())
        );
    }
}
