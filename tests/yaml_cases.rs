//! How `kubectl` reads YAML scalars, keys and items: recorded cases.

use federate::yaml;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};

#[test]
fn scalars_read_as_kubectl_reads_them() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/data/yaml/scalars.jsonl.gz");
    let mut count = 0;
    let mut failures = Vec::new();
    for line in BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines() {
        let case: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = case["yaml"].as_str().unwrap();
        let stream = yaml::read(text.as_bytes());
        let refused = case["error"] == true;
        let got = stream.documents.first().map(|document| document.value["spec"].clone());
        let want = (!refused).then(|| case["json"].clone());
        if got != want || stream.errors.is_empty() == refused {
            failures.push(format!("{text:?}: got {got:?} {:?}, want {want:?}", stream.errors));
        }
        count += 1;
    }
    assert!(failures.is_empty(), "{} of {count} cases:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 1000, "only {count} cases were found");
}
