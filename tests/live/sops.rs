//! What SOPS encrypted is sent to clusters in clear, and is nowhere else. The tests encrypt with `sops` and `age-keygen`; where
//! they are missing, they say so and pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::gnupg::Gnupg;
use crate::sandbox::{Ran, Sandbox, config};

const SECRET: &str = "/api/v1/namespaces/shop/secrets/db";
const CONFIG: &str = "/api/v1/namespaces/shop/configmaps/settings";

/// What is encrypted, and must be nowhere but in clusters.
const VALUES: [&str; 3] = ["hunter2", "aHVudGVyMg", "shibboleth"];

const PLAIN: &str = "apiVersion: v1
kind: Secret
metadata: {name: db, namespace: shop}
stringData: {password: hunter2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {word: shibboleth}
";

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A sandbox with encrypted objects, and the key that decrypts them.
struct EncryptedRepo {
    sandbox: Sandbox,
    key: String,
    recipient: String,
}

impl EncryptedRepo {
    /// `None`, with a message, where a program is missing.
    fn new() -> Option<Self> {
        let (Some(_), Some(keygen)) = (find_program("sops"), find_program("age-keygen")) else {
            #[allow(clippy::print_stderr, reason = "whoever runs the tests must know")]
            {
                eprintln!("skipped: this machine lacks sops or age-keygen");
            }
            return None;
        };
        let output = Command::new(keygen).output().unwrap();
        let key = String::from_utf8(output.stdout).unwrap();
        let recipient = key.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap().to_owned();
        let repo = Self { sandbox: Sandbox::simulated(&["m1"]), key, recipient };
        repo.encrypt("secret.yaml", PLAIN);
        Some(repo)
    }

    /// Writes an encrypted file to the repo.
    fn encrypt(&self, name: &str, text: &str) {
        encrypt_file(&self.sandbox, Command::new("sops").args(["--age", &self.recipient]), name, text);
    }

    fn run(&self, command: &mut Command) -> Ran {
        let ran = self.sandbox.ran(command.env("SOPS_AGE_KEY", &self.key));
        let all = format!("{}{}", ran.out, ran.err);
        assert!(VALUES.iter().all(|value| !all.contains(value)), "{ran:#?}");
        ran
    }

    fn apply(&self, arguments: &str) -> Ran {
        self.run(&mut self.sandbox.command(&format!("--decrypt sops {arguments}")))
    }
}

/// Writes an encrypted file to a repo. `sops` has the arguments that name keys.
fn encrypt_file(sandbox: &Sandbox, sops: &mut Command, name: &str, text: &str) {
    let path = sandbox.path("plain.yaml");
    fs::write(&path, text).unwrap();
    let output =
        sops.args(["--encrypt", "--encrypted-regex", "^(data|stringData)$"]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_file(&path).unwrap();
    sandbox.write(name, std::str::from_utf8(&output.stdout).unwrap());
}

/// Fails if a file below a folder has a value in clear.
#[track_caller]
fn no_file_has_values(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, is_folder) = (entry.path(), entry.file_type().unwrap().is_dir());
        if is_folder {
            no_file_has_values(&path);
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            assert!(VALUES.iter().all(|value| !text.contains(value)), "{}", path.display());
        }
    }
}

#[test]
fn encrypted_objects_are_refused_unless_they_are_decrypted() {
    let Some(repo) = EncryptedRepo::new() else { return };
    let sandbox = &repo.sandbox;
    let refused = repo.run(&mut sandbox.command("")).code(2);
    assert!(refused.err.contains("error[sops]") && refused.err.contains("--decrypt sops"), "{refused:#?}");
    assert!(!sandbox.has("m1", SECRET));
    for arguments in ["--dry-run=client -o json", "--dry-run=server"] {
        repo.apply(arguments).code(0);
    }
    repo.apply("--remember").code(0);
    assert_eq!(sandbox.get("m1", SECRET)["data"], json!({"password": "aHVudGVyMg=="}));
    assert_eq!(sandbox.get("m1", CONFIG)["data"], json!({"word": "shibboleth"}));
    assert_eq!(sandbox.get("m1", SECRET).get("sops"), None);
    let again = repo.apply("-o json").code(0);
    assert_eq!(again.action("m1", "Secret", "db")["action"], "unchanged", "{again:#?}");
    // What runs otherwise is put back, and shown without values.
    sandbox.edit("m1", "kubectl-edit", CONFIG, &json!({"data": {"word": "other"}}));
    let ran = repo.apply("-o json").code(0);
    let diff = &ran.action("m1", "ConfigMap", "settings")["diffs"][0];
    assert_eq!((&diff["desired"], &diff["live"]), (&json!("(encrypted)"), &json!("(encrypted)")), "{ran:#?}");
    assert_eq!(sandbox.get("m1", CONFIG)["data"], json!({"word": "shibboleth"}));
    for parent in sandbox.get("m1", "/api/v1/namespaces/default/configmaps")["items"].as_array().unwrap() {
        assert!(VALUES.iter().all(|value| !parent.to_string().contains(value)), "{parent:#}");
    }
    fs::remove_file(sandbox.path("kubeconfig")).unwrap();
    no_file_has_values(&sandbox.path(""));
}

#[test]
fn what_cannot_be_decrypted_stops_the_run() {
    let Some(repo) = EncryptedRepo::new() else { return };
    let sandbox = repo.sandbox.file("a.yaml", &config("a", "1"));
    let text = sandbox.read_file("secret.yaml");
    let ran = sandbox.ran(&mut sandbox.command("--decrypt sops"));
    assert!(ran.code == 2 && ran.err.contains("none of the given keys decrypts it"), "{ran:#?}");
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"), "nothing is applied");
    let ran = sandbox.ran(sandbox.command("--decrypt sops").env("SOPS_AGE_KEY_FILE", "/nonexistent"));
    assert!(ran.code == 2 && ran.err.contains("the file of SOPS_AGE_KEY_FILE"), "{ran:#?}");
    sandbox.write("secret.yaml", &text.replace("namespace: shop", "namespace: shop\n    labels: {a: b}"));
    let ran = sandbox.ran(sandbox.command("--decrypt sops").env("SOPS_AGE_KEY", &repo.key));
    assert!(ran.code == 2 && ran.err.contains("its MAC does not match"), "{ran:#?}");
    // A type that does not fit lets sops quote the value.
    sandbox.write("secret.yaml", &text.replace("type:str]", "type:int]"));
    let ran = sandbox.ran(sandbox.command("--decrypt sops").env("SOPS_AGE_KEY", &repo.key));
    assert!(ran.code == 2 && !ran.err.contains("hunter2") && !ran.err.contains("shibboleth"), "{ran:#?}");
    sandbox.write("secret.yaml", &text);
    let ran = sandbox
        .ran(sandbox.command("--decrypt sops").env("SOPS_AGE_KEY", &repo.key).env("PATH", "/nonexistent"));
    assert!(ran.code == 2 && ran.err.contains("there is no program `sops`"), "{ran:#?}");
    let named = format!("--decrypt sops={}", find_program("sops").unwrap().display());
    fs::write(sandbox.path("key.txt"), &repo.key).unwrap();
    let mut command = sandbox.command(&named);
    command.env("SOPS_AGE_KEY_FILE", sandbox.path("key.txt")).env("PATH", "/nonexistent");
    sandbox.ran(&mut command).code(0);
    assert!(sandbox.has("m1", SECRET));
}

#[test]
fn what_is_encrypted_for_a_key_of_pgp_is_decrypted_by_gpg() {
    if find_program("sops").is_none() || find_program("gpg").is_none() {
        #[allow(clippy::print_stderr, reason = "whoever runs the tests must know")]
        {
            eprintln!("skipped: this machine lacks sops or gpg");
        }
        return;
    }
    let (gnupg, sandbox) = (Gnupg::new(), Sandbox::simulated(&["m1"]));
    let key = gnupg.encryption_key("team");
    let mut sops = Command::new("sops");
    encrypt_file(&sandbox, sops.args(["--pgp", &key]).env("GNUPGHOME", gnupg.home()), "secret.yaml", PLAIN);
    // Its agent is started by the program that decrypts, and ends with it.
    gnupg.end_agent();
    let ran = sandbox.ran(sandbox.command("--decrypt sops").env("GNUPGHOME", gnupg.home())).code(0);
    let all = format!("{}{}", ran.out, ran.err);
    assert!(VALUES.iter().all(|value| !all.contains(value)), "{ran:#?}");
    assert_eq!(sandbox.get("m1", SECRET)["data"], json!({"password": "aHVudGVyMg=="}));
    assert_eq!(sandbox.get("m1", CONFIG)["data"], json!({"word": "shibboleth"}));
    assert_eq!(list_agents(gnupg.home()), Vec::<String>::new());

    let other = Gnupg::new();
    let ran = sandbox.ran(sandbox.command("--decrypt sops").env("GNUPGHOME", other.home()));
    assert!(ran.code == 2 && ran.err.contains("none of the given keys decrypts it"), "{ran:#?}");
    let ran = sandbox.ran(sandbox.command("--decrypt sops").env_remove("GNUPGHOME"));
    assert!(ran.code == 2 && ran.err.contains("none of the given keys decrypts it"), "{ran:#?}");
}

/// The agents of gpg for a home folder.
fn list_agents(home: &Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains("gpg-agent") && line.contains(&*home.to_string_lossy())).collect()
}

#[test]
fn the_loop_decrypts_and_keeps_nothing_in_clear() {
    let Some(repo) = EncryptedRepo::new() else { return };
    let sandbox = &repo.sandbox;
    sandbox.write_sync("1m", "  apply: {}\n  drift: {mode: correct}\n");
    let refused = repo.run(&mut sandbox.sync("--once")).code(2);
    assert!(refused.out.contains("BuildFailed"), "{refused:#?}");
    repo.run(&mut sandbox.sync("--once --decrypt sops")).code(0);
    assert_eq!(sandbox.get("m1", CONFIG)["data"], json!({"word": "shibboleth"}));
    sandbox.edit("m1", "kubectl-edit", CONFIG, &json!({"data": {"word": "other"}}));
    repo.run(&mut sandbox.sync("--once --decrypt sops")).code(0);
    assert_eq!(sandbox.get("m1", CONFIG)["data"], json!({"word": "shibboleth"}), "drift is put back");
    no_file_has_values(&sandbox.path("state"));
}
