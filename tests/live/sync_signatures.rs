//! `spec.source.verify` of Sync objects: the keys in a Secret, of OpenPGP as Flux names them, and of SSH.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::gnupg::Gnupg;
use crate::sandbox::{Ran, WEB, deployment};
use crate::sync_objects::{Hub, condition, git, image};

const SECRETS: &str = "/api/v1/namespaces/shop/secrets";

/// Commits and pushes the repo, signed.
fn push(hub: &Hub, settings: &str) {
    git(&hub.sandbox, "-C repo add -A");
    git(&hub.sandbox, &format!("{settings} -C repo commit -q -S --allow-empty -m signed"));
    git(&hub.sandbox, "-C repo push -q --force ../origin.git main");
}

/// Replaces the Secret with the keys.
fn keys(hub: &Hub, keys: &Value) {
    if hub.sandbox.has("hub", &format!("{SECRETS}/keys")) {
        hub.sandbox.delete("hub", &format!("{SECRETS}/keys"));
    }
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": keys});
    hub.sandbox.create("hub", SECRETS, "test", &secret);
}

/// Pushes a commit of 2019 that an SSH key signs.
fn backdate(hub: &Hub, key: &Path) {
    let mut commit = Command::new("git");
    commit.args([
        "-C",
        "repo",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.com",
        "-c",
        "gpg.format=ssh",
        "-c",
    ]);
    commit.arg(format!("user.signingkey={}", key.display())).args([
        "commit",
        "-q",
        "-a",
        "-S",
        "-m",
        "backdated",
    ]);
    commit.env("GIT_COMMITTER_DATE", "2019-01-01T00:00:00Z").current_dir(hub.sandbox.path(""));
    assert!(commit.status().unwrap().success());
    git(&hub.sandbox, "-C repo push -q --force ../origin.git main");
}

#[track_caller]
fn refused(hub: &Hub, why: &str) {
    let ran: Ran = hub.once().code(2);
    assert!(ran.out.contains("VerificationError: ") && ran.out.contains(why), "{ran:#?}");
    let stalled = condition(&hub.status("web"), "Stalled");
    assert!(stalled["message"].as_str().unwrap().contains(why), "{stalled}");
}

#[test]
fn revisions_are_signed_by_keys_of_a_secret() {
    let hub = Hub::new();
    let gnupg = Gnupg::new();
    gnupg.key("author");
    gnupg.key("stranger");
    gnupg.expired("former");
    let ssh = hub.sandbox.path("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&ssh).status();
    assert!(made.unwrap().success());
    let line = std::fs::read_to_string(hub.sandbox.path("key.pub")).unwrap();
    let all = json!({
        "author1.asc": gnupg.public("author"),
        "author2.asc": gnupg.public("former"),
        "signers": format!("dev@example.com namespaces=\"git\" {line}"),
    });
    let verify = json!({"mode": "HEAD", "secretRef": {"name": "keys"}});
    let source = json!({"url": hub.url(), "ref": {"branch": "main"}, "verify": verify});
    hub.create(&hub.sync("web", &json!({"source": source})));
    keys(&hub, &all);
    refused(&hub, "there is no signature");

    push(&hub, &gnupg.signing("author"));
    hub.once().code(0);
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    push(&hub, &format!("-c gpg.format=ssh -c user.signingkey={}", ssh.display()));
    hub.once().code(0);
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.28");

    hub.sandbox.write("web.yaml", &deployment("nginx:1.29"));
    let expired = format!("dev@example.com valid-before=\"20200101\" {line}");
    keys(&hub, &json!({"signers": expired}));
    backdate(&hub, &ssh);
    refused(&hub, "key has expired");
    keys(&hub, &all);
    push(&hub, &gnupg.signing("stranger"));
    refused(&hub, "is not among the allowed signers: add its public key");
    push(&hub, &gnupg.signing_long_ago("former"));
    refused(&hub, "has expired: sign the revision with another key");
    push(&hub, &gnupg.signing("author"));
    gnupg.revoke("author");
    keys(&hub, &json!({"author1.asc": gnupg.public("author")}));
    refused(&hub, "has been revoked: sign the revision with another key");
    keys(&hub, &json!({"author1.asc": "\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n"}));
    refused(&hub, "`author1.asc` in the Secret of `source.verify`, line 2: this OpenPGP key has no end");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.28", "nothing of these revisions was read");
    assert!(hub.sandbox.has("m2", WEB));
}
