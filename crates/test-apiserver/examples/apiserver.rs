//! Serves Kubernetes API servers without anything behind them, to try programs against.
//!
//! `cargo run --example apiserver -- --clusters 2 --kubeconfig FILE` serves `member-1` and `member-2` on
//! loopback until it is ended, and writes a kubeconfig with a context for each; `--prefix NAME` gives them
//! another name than `member`.

#![allow(clippy::print_stdout, reason = "a demonstration")]

use std::path::PathBuf;

use clap::Parser;
use federate_test_apiserver::{Fleet, FleetError, TestCluster};

/// Serve Kubernetes API servers without anything behind them.
#[derive(Parser)]
struct Args {
    /// How many clusters to serve.
    #[arg(long, default_value_t = 1)]
    clusters: usize,
    /// What the clusters' names begin with.
    #[arg(long, default_value = "member")]
    prefix: String,
    /// Run controllers for namespaces and Deployments, and let pods become ready.
    #[arg(long)]
    nodes: bool,
    /// Where to write the kubeconfig.
    #[arg(long, value_name = "FILE", default_value = "kubeconfig")]
    kubeconfig: PathBuf,
}

fn main() -> Result<(), FleetError> {
    let args = Args::parse();
    let names: Vec<String> = (1..=args.clusters).map(|number| format!("{}-{number}", args.prefix)).collect();
    let cluster = |name: &String| {
        let cluster = TestCluster::new(name);
        if args.nodes { cluster.with_nodes() } else { cluster }
    };
    let fleet = Fleet::serve_clusters(names.iter().map(cluster).collect())?;
    fleet.write_kubeconfig(&args.kubeconfig)?;
    for name in names {
        println!("{name}: {}", fleet.cluster_url(&name));
    }
    println!("kubeconfig: {}", args.kubeconfig.display());
    loop {
        std::thread::park();
    }
}
