//! A round with nothing changed over many small clusters, by one, two and four replicas.

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
    for replicas in [1, 2, 4] {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let with_hub: Vec<String> = std::iter::once("hub".to_owned()).chain(names.iter().cloned()).collect();
        let mut servers = Servers::start(folder, &with_hub);
        write_repo(folder, &names);
        let server = Server::start(folder);
        install(&mut servers, &format!("{}/origin.git", server.address()));
        let start = |at: usize| Running::start(folder, &format!("log{at}"), &arguments(at));
        let mut running: Vec<Running> = (0..replicas).map(start).collect();
        servers.send(&format!("until {SYNCS}/many /status/clusters/ready {clusters}"));
        println!("{replicas} replicas, {clusters} clusters: the first round: {}", spent(&running));
        running.iter_mut().for_each(Running::settle);
        println!("  watches begun: {}", spent(&running));
        for round in 0..3 {
            servers.send("reset");
            running.iter_mut().for_each(Running::mark);
            let begun = Instant::now();
            let request =
                json!({"metadata": {"annotations": {"federate.dev/requestedAt": round.to_string()}}});
            servers.send(&format!("merge hub {SYNCS}/many {request}"));
            servers.send("compared hub");
            println!("  nothing changed: the last cluster was compared after {:?}", begun.elapsed());
            running.iter_mut().for_each(Running::settle);
            println!("  {}, requests {}", spent(&running), servers.send("counts"));
        }
    }
}

fn spent(running: &[Running]) -> String {
    running.iter().map(Running::spent).collect::<Vec<_>>().join("; ")
}

fn arguments(at: usize) -> String {
    format!(
        "sync --kubeconfig kubeconfig --context hub --leader-election-namespace federate-system --shared --state caches{at}"
    )
}

fn install(servers: &mut Servers, url: &str) {
    let definition =
        fs::read(format!("{}/deploy/crds/syncs.federate.dev.yaml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for document in federate_yaml::read(&definition).documents {
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
