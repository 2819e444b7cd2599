//! A round with nothing changed over many small clusters.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::git_http::Server;
use crate::process::{Running, number};
use crate::servers::Servers;
use crate::{git, inventory};

const SYNCS: &str = "/apis/federate.dev/v1alpha1/namespaces/shop/syncs";

pub(crate) fn many() {
    let clusters = number("FEDERATE_BENCH_MANY", 1000);
    let names: Vec<String> = (0..clusters).map(|at| format!("member-{at}")).collect();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let with_hub: Vec<String> = std::iter::once("hub".to_owned()).chain(names.iter().cloned()).collect();
    let mut servers = Servers::start(folder, &with_hub);
    write_repo(folder, &names);
    let server = Server::start(folder);
    install(&mut servers, &format!("{}/origin.git", server.address()));
    let arguments = "sync --kubeconfig kubeconfig --context hub --leader-election-namespace federate-system --allow-local-addresses --state caches";
    let mut running = Running::start(folder, "log", arguments);
    servers.send(&format!("until {SYNCS}/many /status/clusters/ready {clusters}"));
    println!("{clusters} clusters: the first round: {}", running.spent());
    running.settle();
    println!("  watches begun: {}", running.spent());
    for round in 0..3 {
        servers.send("reset");
        running.mark();
        let begun = Instant::now();
        let request = json!({"metadata": {"annotations": {"federate.dev/requestedAt": round.to_string()}}});
        servers.send(&format!("merge hub {SYNCS}/many {request}"));
        servers.send("compared hub");
        println!("  nothing changed: the last cluster was compared after {:?}", begun.elapsed());
        running.settle();
        println!("  {}, requests {}", running.spent(), servers.send("counts"));
    }
}

fn install(servers: &mut Servers, url: &str) {
    let definition =
        fs::read(format!("{}/deploy/crds/syncs.federate.dev.yaml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for document in federate_yaml::read_stream(&definition).documents {
        servers.send(&format!(
            "create hub /apis/apiextensions.k8s.io/v1/customresourcedefinitions {}",
            document.value
        ));
    }
    for name in ["shop", "federate-system"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        servers.send(&format!("create hub /api/v1/namespaces {namespace}"));
    }
    let sync: Value = json!({
        "apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "metadata": {"name": "many"},
        "spec": {"source": {"url": url, "ref": {"branch": "main"}}, "interval": "1h", "apply": {}},
    });
    servers.send(&format!("create hub {SYNCS} {sync}"));
}

/// A Deployment and nine `ConfigMap`s for every cluster.
fn write_repo(folder: &Path, names: &[String]) {
    let repo = folder.join("repo");
    fs::create_dir_all(&repo).unwrap();
    fs::write(repo.join("clusters.yaml"), inventory(names)).unwrap();
    fs::write(repo.join("policy.yaml"), crate::apps::POLICY).unwrap();
    let config = |at| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{at}, namespace: default}}\ndata: {{k: v}}\n"
        )
    };
    fs::write(repo.join("many.yaml"), (0..9).map(config).collect::<String>()).unwrap();
    let web = crate::apps::app(0).replace("namespace: team-0", "namespace: default");
    fs::write(repo.join("web.yaml"), web.split("---").next().unwrap()).unwrap();
    git(folder, "init -q -b main repo");
    git(folder, "init -q --bare -b main origin.git");
    crate::push(folder);
}
