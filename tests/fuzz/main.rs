//! Runs the fuzz targets over seeds and small changes to them, always the same ones and on any toolchain.
//!
//! `FUZZ_SEEDS=FOLDER cargo test --test fuzz` writes the seeds there, one folder per target, for libFuzzer.
//! `FUZZ_CHANGES=N FUZZ_TARGETS=memory,sync cargo test --test fuzz` makes N changes to each seed of these targets.

#![cfg(feature = "live")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use federate_dialects::DIALECTS;
use std::fs;
use std::io::Read;
use std::path::Path;

use rayon::prelude::*;
use serde_json::{Value, json};

mod seeds;
mod targets;

/// The distance between recorded cases that are seeds.
const STEP: usize = 60;

/// The number of changes to each seed, unless `FUZZ_CHANGES` says otherwise.
const CHANGES: u64 = 3;

/// Every [`STEP`]th recorded case of each file.
fn cases() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut paths: Vec<_> =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path())).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "gz")) {
        let mut text = String::new();
        let bytes = fs::read(path).unwrap();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
        cases.extend(text.lines().step_by(STEP).map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    cases
}

/// The files of a case as one text.
fn repo(case: &Value) -> Option<String> {
    let files = case["files"].as_array()?;
    let written = files.iter().map(|file| {
        let mut text = String::new();
        federate_yaml::write_document(file, &mut text);
        text
    });
    Some(written.collect::<Vec<_>>().join(targets::BETWEEN))
}

fn seeds(target: &str, repos: &[String]) -> Vec<Vec<u8>> {
    let texts: Vec<String> = match target {
        "kubeconfig" => return seeds::kubeconfigs(),
        "webhook" => return seeds::webhooks(),
        "git" => return seeds::repositories(),
        "memory" => return seeds::memories(repos.first().map_or(String::new(), |repo| plan_of(repo)).as_str()),
        "discovery" => return seeds::discoveries(),
        "lists" => return seeds::lists(),
        "sync" => return seeds::syncs(),
        "load" | "plan" => repos.to_vec(),
        "yaml" | "observed" => {
            let mut texts: Vec<String> =
                repos.iter().map(|repo| repo.replace(targets::BETWEEN, "\n---\n")).collect();
            texts.extend(["a: &a [1, yes, 0o17, 1_0.5]\nb: *a\n<<: {c: d}\n", "? |\n  x\n: \"\\u00e9\\n\"\n", "{\"a\": [1.0, null]}", "- >-\n  a\n  b\n\n- 'it''s'\n"].map(str::to_owned));
            texts
        }
        "settings" => [
            "paths: [apps]\nvalues: {a: [1, {b: c}]}\nclusterValues: {m1: {a: 2}}\n",
            "drift: {ignore: [{kinds: [Deployment], paths: [/spec/replicas]}]}\ncontexts: {m1: one}\n",
            "dialects: {kubeadmiral: {excludeNamespaces: ^sh}}\napply: {rolling: [Rollout.argoproj.io]}\n",
        ]
        .map(str::to_owned)
        .to_vec(),
        "template" => [
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-{{ cluster.name | lower }}}\n",
            "{% for z in range(3) %}---\na: {{ loop.index ~ z }}\n{% endfor %}",
            "{% macro f(x, y=1) %}{{ x + y }}{% endmacro %}{{ f(2) }}{{ [1, 2] | map('string') | join(', ') }}",
            "{% set ns = namespace(x=[]) %}{% for i in [1] %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x | tojson }}",
            "{% if cluster.name == 'm1' and not values %}{{ 'x' * 3 | indent(2) }}{% elif 1 %}{{ '%d' | format(1) }}{% endif %}",
            "{% filter upper %}{% set x %}a{% endset %}{{ x[0:1] }}{% endfilter %}{{ {'a': (1, 2)}.a }}",
        ]
        .map(str::to_owned)
        .to_vec(),
        "patch" => [
            json!([{"a": [1, 2, {"b": null}]}, {"op": "add", "path": "/a/-", "value": 3}, {"op": "remove", "path": "/a/0"}]),
            json!([{"a~b": {"c/d": 1}}, {"op": "replace", "path": "/a~0b/c~1d", "value": {}}, {"op": "test", "path": ""}]),
            json!([[], {"op": "add", "path": "/0", "value": []}, {"op": "add", "path": "/0/0", "value": "x"}]),
        ]
        .map(|seed| seed.to_string())
        .to_vec(),
        _ => repos.iter().step_by(5).map(|repo| plan_of(repo)).collect(),
    };
    texts.into_iter().map(String::into_bytes).collect()
}

/// The plan of a repo, as a seed for reading plans.
fn plan_of(repo: &str) -> String {
    let files = repo.split(targets::BETWEEN).enumerate().map(|(number, text)| federate_repo::RepoFile {
        path: format!("{number}.yaml").into(),
        bytes: text.as_bytes().into(),
    });
    let session = federate_session::Session::from_files(
        files.collect(),
        federate_repo::Config::default(),
        federate_session::SessionOptions::new(DIALECTS),
    );
    federate_engine::previous::serialize_plan(session.plan())
}

/// Changes, removes or repeats a few bytes of a seed, or replaces them by text that is often handled wrongly.
fn changed(seed: &[u8], mut random: u64) -> Vec<u8> {
    const ODD: [&[u8]; 10] =
        [b"\n", b"- ", b": ", b"{{", b"%}", b"-1", b"9223372036854775808", b"\xff", b"&a *a", b"[[[["];
    let mut bytes = seed.to_vec();
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % below.max(1)
    };
    for _ in 0..=next(4) {
        let (at, length) = (next(bytes.len()), 1 + next(20));
        let end = (at + length).min(bytes.len());
        let put: Vec<u8> = match next(4) {
            0 => Vec::new(),
            1 => bytes[at..end].repeat(2),
            2 => ODD[next(ODD.len())].to_vec(),
            _ => bytes[at..end].iter().map(|byte| byte ^ 1).collect(),
        };
        bytes.splice(at..end, put);
    }
    bytes
}

#[test]
fn targets_hold_for_seeds_and_changes_to_them() {
    let repos: Vec<String> = cases().iter().filter_map(repo).collect();
    assert!(repos.len() > 30, "{} recorded repos", repos.len());
    let variable = |name: &str| std::env::var(name).ok();
    let changes = variable("FUZZ_CHANGES").map_or(CHANGES, |text| text.parse().expect("a number"));
    let chosen = variable("FUZZ_TARGETS");
    let is_chosen = |name: &str| chosen.as_ref().is_none_or(|names| names.split(',').any(|one| one == name));
    for (name, target) in targets::TARGETS.into_iter().filter(|(name, _)| is_chosen(name)) {
        let seeds = seeds(name, &repos);
        if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
            let folder = Path::new(&folder).join(name);
            fs::create_dir_all(&folder).unwrap();
            for (number, seed) in seeds.iter().enumerate() {
                fs::write(folder.join(format!("{number:04}")), seed).unwrap();
            }
        }
        (0..).zip(&seeds).collect::<Vec<(u64, _)>>().par_iter().for_each(|(number, seed)| {
            target(seed);
            for change in 0..changes {
                target(&changed(seed, number * changes + change));
            }
        });
    }
}
