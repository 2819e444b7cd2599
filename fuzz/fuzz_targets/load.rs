//! Loading never panics, gives identities that are sorted, unique and safe as file names, and does not
//! depend on the order of files.
#![no_main]

use federate::k8s::names::{safe_name, safe_namespace};
use federate::repo::{Config, File, Repo, load_bytes};
use libfuzzer_sys::fuzz_target;

fn load(files: Vec<File>) -> Repo {
    let claims = |_: &str, _: &str| None;
    load_bytes(files, Config::default(), &claims).expand(&[])
}

fuzz_target!(|texts: Vec<(u8, Vec<u8>)>| {
    const ENDINGS: [&str; 4] = ["yaml", "json", "yml", "yaml.j2"];
    let files: Vec<File> = (0..)
        .zip(texts)
        .map(|(n, (ending, bytes)): (usize, _)| File {
            path: format!("{n}.{}", ENDINGS[usize::from(ending) % ENDINGS.len()]).into(),
            bytes: bytes.into(),
        })
        .collect();
    let repo = load(files.clone());
    assert!(repo.templates.is_sorted_by(|a, b| a.object.id < b.object.id));
    for template in &repo.templates {
        let id = &template.object.id;
        assert!(safe_name(&id.name).is_ok());
        assert!(id.namespace.as_deref().is_none_or(|namespace| safe_namespace(namespace).is_ok()));
    }
    let again = load(files.into_iter().rev().collect());
    assert_eq!(format!("{:?}", repo.templates), format!("{:?}", again.templates));
    assert_eq!(repo.findings, again.findings);
});
