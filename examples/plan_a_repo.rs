//! Prints where each object of a repo is placed: `cargo run --example plan_a_repo -- examples/repo`.

use std::{env, path::Path};

use federate_dialects::DIALECTS;
use federate_session::{Session, SessionOptions};
use federate_source::WorkTree;

#[expect(clippy::print_stdout, reason = "an example shows what it finds")]
fn main() -> Result<(), String> {
    let folder = env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let tree = WorkTree::open(Path::new(&folder)).map_err(|finding| finding.message)?;
    let session = Session::open(&tree, SessionOptions::new(DIALECTS));
    for placement in &session.plan().placements {
        let clusters: Vec<&str> = placement.clusters.iter().map(|placed| placed.name.as_ref()).collect();
        println!("{}: {}", placement.object, clusters.join(", "));
    }
    Ok(())
}
