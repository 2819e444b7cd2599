//! sops asks the key services that a file names, also where nothing confines it: so it is given files that name none. The tests
//! run `sops`; where it is missing, they say so and pass.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use federate_builder::{Confiner, DecryptionKeys, ProgramPaths, SopsDecryptor};
use federate_kubernetes::sops::{EncryptedFile, SopsFormat};
use federate_repo::build::Decryptor as _;

/// A recipient of age whose private key is unknown.
const AGE: &str = "age1wksx5xm55klj9draf0ln5ewfv8slmjdxugwpslf0u8ryuhl46dls8fqahx";
const AGE_TEXT: &str = "-----BEGIN AGE ENCRYPTED FILE-----\\nYWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBraEFKRkhvN0lFN0hHMnhu\\nR2w1dWNwbVhkejlhRkdZeHdob3JiZGkvMUVFCk5UWm1qdFRxK1U1Wms1SUxObmow\\nTkVlTGo1cGNZbzhyNk5iTEtrSjFUbjgKLS0tIDQrTHRoSTkxT0c5dkJ2UDZZNlFX\\nMXFKcDBxc1lLRVYxQWprSmdZcUtYQ28KElWfo///aQ4w2tw7TO8L7OTPv86O3n7U\\n9jhLAMDYuhpVXQlAAB8NwkF6AbiSb8rnflC3+4efeDo/4bbxV1x1UA==\\n-----END AGE ENCRYPTED FILE-----\\n";
const VALUE: &str = "ENC[AES256_GCM,data:DEU0KX7rc3tohnLV,iv:X3AkzOiCp/QKLtvyveZAd8CN2DacAX8/rHk+NWRn08Y=,tag:rHzljnUSqt7kgUmYtT6VGg==,type:str]";

/// A server that counts who connects.
fn count_connections() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    (address, count)
}

fn find_sops() -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join("sops"))
        .find(|path| path.is_file());
    #[allow(clippy::print_stderr, reason = "whoever runs the tests must know")]
    if found.is_none() {
        eprintln!("skipped: this machine lacks sops");
    }
    found
}

/// Files that name the server, in every format and notation, with a key of age that does not decrypt them, so that SOPS would go on
/// with the server.
fn hostile_files(address: &str) -> Vec<(&'static str, String)> {
    let vault = format!(
        "[{{\"vault_address\": \"{address}\", \"engine_path\": \"transit\", \"key_name\": \"k\", \"created_at\": \"2026-01-01T00:00:00Z\", \"enc\": \"vault:v1:AAAA\"}}]"
    );
    let age = format!("[{{\"recipient\": \"{AGE}\", \"enc\": \"{AGE_TEXT}\"}}]");
    let rest =
        format!("\"lastmodified\": \"2026-01-01T00:00:00Z\", \"mac\": \"{VALUE}\", \"version\": \"3.9.0\"");
    let json = |key: &str| {
        format!("{{\"a\": \"{VALUE}\", \"sops\": {{\"age\": {age}, \"{key}\": {vault}, {rest}}}}}\n")
    };
    let groups = format!(
        "{{\"a\": \"{VALUE}\", \"sops\": {{\"key_groups\": [{{\"age\": {age}}}, {{\"hc_vault\": {vault}}}], \"shamir_threshold\": 1, {rest}}}}}\n"
    );
    let yaml = |lines: &str| {
        format!(
            "a: {VALUE}\nsops:\n  age: {age}\n{lines}\n  lastmodified: \"2026-01-01T00:00:00Z\"\n  mac: {VALUE}\n  version: 3.9.0\n"
        )
    };
    let flat = |prefix: &str, between: &str| {
        let fields = [
            ("age__list_0__map_recipient", AGE),
            ("age__list_0__map_enc", AGE_TEXT),
            ("HC_Vault__list_0__map_vault_address", address),
            ("HC_Vault__list_0__map_engine_path", "transit"),
            ("HC_Vault__list_0__map_key_name", "k"),
            ("HC_Vault__list_0__map_created_at", "2026-01-01T00:00:00Z"),
            ("HC_Vault__list_0__map_enc", "vault:v1:AAAA"),
            ("lastmodified", "2026-01-01T00:00:00Z"),
            ("mac", VALUE),
            ("version", "3.9.0"),
        ];
        fields.map(|(key, value)| format!("{prefix}{key}{between}{value}\n")).concat()
    };
    vec![
        ("a.json", json("hc_vault")),
        ("a.json", json("HC_Vault")),
        ("a.json", groups),
        ("key.pem", json("hc_vault").replace("\"a\"", "\"data\"")),
        ("a.yaml", yaml(&format!("  hc_vault: {vault}"))),
        ("a.yaml", yaml(&format!("  \"hc_\\x76ault\": {vault}"))),
        ("a.yaml", yaml(&format!("  <<: {{hc_vault: {vault}}}"))),
        ("a.yaml", format!("x: &v {vault}\n{}", yaml("  hc_vault: *v"))),
        ("a.env", format!("A={VALUE}\n{}", flat("sops_", "="))),
        ("a.ini", format!("[db]\na = {VALUE}\n[sops]\n{}", flat("", " = "))),
    ]
}

#[test]
fn no_key_service_is_asked_without_a_sandbox() {
    let Some(sops) = find_sops() else { return };
    let (address, count) = count_connections();
    let paths = ProgramPaths { sops: Some(sops.clone().into_os_string()), ..ProgramPaths::default() };
    let decryptor = SopsDecryptor::new(paths, DecryptionKeys::default(), Confiner::default());
    for (name, text) in hostile_files(&address) {
        let file = EncryptedFile::read(name, &text).unwrap();
        for output in [SopsFormat::Yaml, file.format] {
            let error = decryptor.decrypt_file(&file, output).unwrap_err();
            assert!(
                error.why.contains("none of the given keys") || error.why.contains("key service"),
                "{name}: {text}: {error:?}"
            );
        }
        assert_eq!(count.load(Ordering::SeqCst), 0, "{name}: {text}");
    }
    // The files are such that sops would ask.
    let folder = tempfile::tempdir().unwrap();
    let (name, text) = hostile_files(&address).swap_remove(0);
    std::fs::write(folder.path().join(name), text).unwrap();
    let mut direct = std::process::Command::new(sops);
    direct.arg("--decrypt").arg(folder.path().join(name)).env("HOME", folder.path()).env("VAULT_TOKEN", "x");
    let _ = direct.output().unwrap();
    assert!(count.load(Ordering::SeqCst) > 0);
}
