//! What SOPS encrypted is sent to clusters in clear, and is nowhere else. The tests encrypt with `sops` and `age-keygen`; where
//! they are missing, they say so and pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use federate_test_apiserver::{FaultKind, InjectedFault};

use crate::gnupg::Gnupg;
use crate::sandbox::{Ran, Sandbox, config, deployment};

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

    /// The same, with everything in it encrypted, or what `arguments` say.
    fn encrypt_with(&self, name: &str, text: &str, arguments: &[&str]) {
        let path = self.sandbox.path("plain").with_extension(name.rsplit('.').next().unwrap());
        fs::write(&path, text).unwrap();
        let mut sops = Command::new("sops");
        sops.args(["--encrypt", "--age", &self.recipient]).args(arguments).arg(&path);
        let output = sops.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::remove_file(&path).unwrap();
        self.sandbox.write(name, std::str::from_utf8(&output.stdout).unwrap());
    }

    /// `federate render` into `out`, which reads no key.
    fn render(&self) -> Ran {
        let mut command = self.sandbox.runs("render", "");
        let line = ["render", "repo", "--out", "out", "--prune-limit", "100"];
        let mut own = Command::new(command.get_program());
        own.args(line).current_dir(self.sandbox.path("")).env("XDG_CACHE_HOME", self.sandbox.path("cache"));
        command = own;
        self.sandbox.ran(&mut command)
    }

    /// What `sops --decrypt` says of a rendered file.
    fn decrypts(&self, path: &str) -> bool {
        let mut sops = Command::new("sops");
        sops.arg("--decrypt").arg(self.sandbox.path(path)).env("SOPS_AGE_KEY", &self.key);
        sops.output().unwrap().status.success()
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

/// Whether kustomize is there; otherwise says so.
fn has_kustomize() -> bool {
    let found = find_program("kustomize").or_else(|| find_program("kubectl")).is_some();
    #[allow(clippy::print_stderr, reason = "whoever runs the tests must know")]
    if !found {
        eprintln!("skipped: this machine lacks kustomize and kubectl");
    }
    found
}

const TOKEN: &str = "apiVersion: v1
kind: Secret
metadata:
  name: token
type: Opaque
stringData:
  zz: hunter2
  aa: shibboleth
";

const KUSTOMIZATION: &str = "namespace: shop
namePrefix: x-
labels: [{pairs: {team: a}}]
resources: [token.yaml]
patches:
- target: {kind: Secret}
  patch: |
    {apiVersion: v1, kind: Secret, metadata: {name: any, annotations: {patched: \"yes\"}}}
";

#[test]
fn what_a_kustomization_changes_of_an_encrypted_object_is_rendered_and_applied() {
    let (Some(repo), true) = (EncryptedRepo::new(), has_kustomize()) else { return };
    let sandbox = &repo.sandbox;
    sandbox.remove("secret.yaml");
    sandbox.write("app/kustomization.yaml", KUSTOMIZATION);
    for only_encrypted in [false, true] {
        let mut arguments = vec!["--encrypted-regex", "^stringData$"];
        arguments.extend(only_encrypted.then_some("--mac-only-encrypted"));
        repo.encrypt_with("app/token.yaml", TOKEN, &arguments);
        let ran = repo.render().code(0);
        // With a MAC over all values, other readers cannot verify it.
        assert_eq!(ran.err.contains("sops-mac"), !only_encrypted, "{ran:#?}");
        let path = "out/m1/shop/secret_x-token.yaml";
        let text = fs::read_to_string(sandbox.path(path)).unwrap();
        for part in [
            "name: x-token\n",
            "namespace: shop\n",
            "team: a\n",
            "patched: \"yes\"\n",
            "ENC[AES256_GCM,",
            "mac:",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(repo.decrypts(path), only_encrypted);
    }
    let refused = repo.run(&mut sandbox.command("")).code(2);
    assert!(
        refused.err.contains("error[sops]: Secret shop/x-token") && refused.err.contains("app/token.yaml:"),
        "{refused:#?}"
    );
    repo.apply("").code(0);
    let secret = sandbox.get("m1", "/api/v1/namespaces/shop/secrets/x-token");
    assert_eq!(secret["data"], json!({"zz": "aHVudGVyMg==", "aa": "c2hpYmJvbGV0aA=="}));
    assert_eq!(
        (&secret["metadata"]["labels"]["team"], &secret["metadata"]["annotations"]["patched"]),
        (&json!("a"), &json!("yes"))
    );
    assert_eq!(secret.get("sops"), None);
    let again = repo.apply("-o json").code(0);
    assert_eq!(again.action("m1", "Secret", "x-token")["action"], "unchanged", "{again:#?}");
    // A file that was changed after it was encrypted is not decrypted.
    let changed = sandbox.read_file("app/token.yaml").replace("type: Opaque", "type: other");
    sandbox.write("app/token.yaml", &changed);
    repo.encrypt_with("app/token.yaml", TOKEN, &["--encrypted-regex", "^stringData$"]);
    sandbox
        .write("app/token.yaml", &sandbox.read_file("app/token.yaml").replace("type: Opaque", "type: other"));
    let ran = repo.apply("").code(2);
    assert!(ran.err.contains("its MAC does not match"), "{ran:#?}");
}

#[test]
fn what_a_generator_reads_is_decrypted_for_clusters_only() {
    let (Some(repo), true) = (EncryptedRepo::new(), has_kustomize()) else { return };
    let sandbox = &repo.sandbox;
    sandbox.remove("secret.yaml");
    let files = "namespace: shop
secretGenerator:
- name: files
  options: {disableNameSuffixHash: true}
  files: [token.yaml=token.enc.yaml, a.json, key.pem, .env=all.env, db.ini]
";
    repo.encrypt_with("app/token.enc.yaml", "token: hunter2\n", &[]);
    repo.encrypt_with("app/a.json", "{\"word\": \"shibboleth\"}", &[]);
    repo.encrypt_with("app/key.pem", "hunter2\nshibboleth\n", &[]);
    repo.encrypt_with("app/all.env", "WORD=shibboleth\n", &[]);
    repo.encrypt_with("app/db.ini", "[db]\nword = shibboleth\n", &[]);
    sandbox.write("app/kustomization.yaml", files);
    let ran = repo.render().code(0);
    assert!(ran.err.contains("warning[sops]: Secret shop/files is encrypted by SOPS"), "{ran:#?}");
    let checked = sandbox.ran(
        Command::new(env!("CARGO_BIN_EXE_federate")).args(["check", "repo"]).current_dir(sandbox.path("")),
    );
    assert!(
        checked.out.contains("warning[sops]") && !checked.out.contains("secret-in-clear"),
        "{checked:#?}"
    );
    let refused = repo.run(&mut sandbox.command("")).code(2);
    assert!(
        refused.err.contains("error[sops]: Secret shop/files") && refused.err.contains("app/"),
        "{refused:#?}"
    );
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/secrets/files"));
    repo.apply("").code(0);
    let data = sandbox.get("m1", "/api/v1/namespaces/shop/secrets/files")["data"].clone();
    let decoded = |key: &str| {
        let bytes: k8s_openapi::ByteString = serde_json::from_value(data[key].clone()).unwrap();
        String::from_utf8(bytes.0).unwrap()
    };
    assert_eq!(decoded("token.yaml"), "token: hunter2\n");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&decoded("a.json")).unwrap(),
        json!({"word": "shibboleth"})
    );
    assert_eq!(decoded("key.pem"), "hunter2\nshibboleth\n");
    assert_eq!(decoded(".env"), "WORD=shibboleth\n");
    assert_eq!(decoded("db.ini"), "[db]\nword = shibboleth\n");

    // Nothing but federate could decrypt single variables.
    let envs = "namespace: shop
secretGenerator: [{name: envs, envs: [a.env, b.env], literals: [c=plain]}]
";
    repo.encrypt_with("app/a.env", "A=hunter2\n", &[]);
    repo.encrypt_with("app/b.env", "B=shibboleth\n", &[]);
    sandbox.write("app/kustomization.yaml", envs);
    for command in [&mut sandbox.command(""), &mut sandbox.command("--dry-run=server")] {
        let ran = repo.run(command).code(2);
        assert!(
            ran.err.contains("error[sops-changed]: Secret shop/envs-") && ran.err.contains("app/a.env:1"),
            "{ran:#?}"
        );
    }
    let ran = repo.render().code(2);
    assert!(ran.err.contains("no reader of the rendered files could decrypt it"), "{ran:#?}");
    let ran = repo.apply("--prune-limit 100 -o json").code(0);
    let actions = ran.json()["actions"].as_array().unwrap().clone();
    let name = actions.iter().find_map(|action| {
        let name = action["object"]["name"].as_str().unwrap();
        (action["object"]["kind"] == "Secret" && name.starts_with("envs-")).then(|| name.to_owned())
    });
    let secret = sandbox.get("m1", &format!("/api/v1/namespaces/shop/secrets/{}", name.unwrap()));
    assert_eq!(secret["data"], json!({"A": "aHVudGVyMg==", "B": "c2hpYmJvbGV0aA==", "c": "cGxhaW4="}));
}

/// Ciphertext without keys in objects, as a person may copy it, in every form.
#[test]
fn ciphertext_is_never_sent() {
    let Some(repo) = EncryptedRepo::new() else { return };
    let sandbox = &repo.sandbox;
    let text = sandbox.read_file("secret.yaml");
    let ciphertext = text.lines().find_map(|line| line.trim().strip_prefix("password: ")).unwrap();
    sandbox.remove("secret.yaml");
    let overridden = "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: o, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: plain}]
  overrideRules: [{overriders: {plaintext: [{path: /data/k, operator: replace, value: 'CIPHERTEXT'}]}}]
";
    for (kind, more) in [
        ("ConfigMap", "data: {a: 'CIPHERTEXT'}"),
        ("ConfigMap", "data: {url: 'db://u:CIPHERTEXT@h'}"),
        ("ConfigMap", "data: {a: 'ENC[AES256_GCM,data:'}"),
        ("Secret", "stringData: {a: 'CIPHERTEXT'}"),
    ] {
        let object =
            format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: copied, namespace: shop}}\n{more}\n");
        sandbox.write("copied.yaml", &object.replace("CIPHERTEXT", ciphertext));
        for arguments in ["", "--decrypt sops", "--decrypt sops --keep-going"] {
            let ran = repo.run(&mut sandbox.command(arguments)).code(2);
            assert!(
                ran.err.contains("error[sops") && ran.err.contains("copied.yaml"),
                "{more} {arguments}: {ran:#?}"
            );
            let path = format!("/api/v1/namespaces/shop/{}s/copied", kind.to_lowercase());
            assert!(!sandbox.has("m1", &path), "{more} {arguments}");
        }
    }
    sandbox.remove("copied.yaml");
    sandbox.write("plain.yaml", &config("plain", "1"));
    sandbox.write("override.yaml", &overridden.replace("CIPHERTEXT", ciphertext));
    for arguments in ["", "--decrypt sops", "--decrypt sops --dry-run=server", "--decrypt sops --keep-going"]
    {
        let ran = repo.run(&mut sandbox.command(arguments)).code(2);
        assert!(ran.err.contains("that SOPS encrypted"), "{arguments}: {ran:#?}");
        assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/plain"), "{arguments}");
    }
}

/// Servers, webhooks and policies quote what they are sent, in forms that no search for the value would find.
#[test]
fn nothing_that_a_server_says_about_an_encrypted_object_is_shown() {
    let Some(repo) = EncryptedRepo::new() else { return };
    let sandbox = &repo.sandbox;
    let web = deployment("nginx:1.27").replace("  replicas: 2\n", "  replicas: -7654321\n");
    let quotes = ["HUNTER2", "hunte...", "h\\u0075nter2", "[104 117 110 116]", "aHVudGVy", "retnuh"];
    let message = format!("admission webhook denied the request: {} is not allowed", quotes.join(" "));
    let hides = |ran: &Ran| {
        let all = format!("{}{}", ran.out, ran.err);
        assert!(!all.contains("admission webhook denied"), "{ran:#?}");
        assert!(quotes.iter().all(|quote| !all.contains(quote)), "{ran:#?}");
    };
    sandbox.write_sync("1m", "  apply: {}\n");
    for verb in ["patch", "dry run"] {
        let fault = InjectedFault::new(verb, FaultKind::Refusal(message.clone()));
        sandbox.fleet.lock_cluster("m1").add_fault(fault.on_path("configmaps/settings").with_times(99));
        for arguments in ["-o json", "", "--dry-run=server"] {
            hides(&repo.apply(arguments));
        }
        if verb == "patch" {
            let ran = repo.apply("").code(2);
            assert!(ran.err.contains("ConfigMap shop/settings: Invalid"), "{ran:#?}");
        }
        hides(&repo.run(&mut sandbox.sync("--once --decrypt sops")));
        sandbox.fleet.lock_cluster("m1").repair();
    }
    // What is predicted without a server quotes as well.
    repo.encrypt_with("web.yaml", &web, &["--encrypted-regex", "^replicas$"]);
    for arguments in ["--dry-run=client -o json", "-o json", "", "--wait 1s"] {
        let ran = repo.apply(arguments).code(2);
        let all = format!("{}{}", ran.out, ran.err);
        assert!(all.contains("Deployment") && !all.contains("7654321"), "{arguments}: {ran:#?}");
    }
}

#[test]
fn an_encrypted_number_is_a_number_in_clusters() {
    let Some(repo) = EncryptedRepo::new() else { return };
    let sandbox = &repo.sandbox;
    sandbox.remove("secret.yaml");
    repo.encrypt_with("web.yaml", &deployment("nginx:1.27"), &["--encrypted-regex", "^replicas$"]);
    let refused = repo.run(&mut sandbox.command("")).code(2);
    assert!(refused.err.contains("error[sops]: Deployment shop/web"), "{refused:#?}");
    repo.apply("").code(0);
    assert_eq!(sandbox.get("m1", crate::sandbox::WEB)["spec"]["replicas"], 2);
    // A scheduler would divide what it cannot read.
    let divided = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: p, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}
";
    sandbox.write("policy.yaml", divided);
    let refused = repo.apply("").code(2);
    assert!(refused.err.contains("changes its field `spec`, but SOPS encrypted it"), "{refused:#?}");
}

/// The status of an object may quote what it was given.
#[test]
fn why_an_encrypted_object_is_not_ready_is_not_shown() {
    let Some(repo) = EncryptedRepo::new() else { return };
    let sandbox = &repo.sandbox;
    sandbox.remove("secret.yaml");
    repo.encrypt_with("web.yaml", &deployment("hunter2"), &["--encrypted-regex", "^image$"]);
    repo.apply("").code(0);
    let web = crate::sandbox::WEB;
    let condition = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "HUNTER-2 cannot be pulled"});
    sandbox.edit(
        "m1",
        "controller",
        &format!("{web}/status"),
        &json!({"status": {"conditions": [condition], "observedGeneration": 1}}),
    );
    for arguments in ["--wait 1s", "--wait 1s -o json"] {
        let ran = repo.apply(arguments).code(2);
        let all = format!("{}{}", ran.out, ran.err);
        assert!(all.contains("why is not shown") && !all.contains("HUNTER-2"), "{arguments}: {ran:#?}");
    }
}
