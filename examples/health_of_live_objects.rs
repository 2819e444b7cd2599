//! Prints the health of live objects by the rules of a control plane: `kubectl get deployments -A -o yaml |
//! cargo run --example health_of_live_objects -- karmada`.

use std::{env, io, io::Read};

use federate_dialects::DIALECTS;
use federate_kubernetes::Object;
use federate_repo::Config;

#[expect(clippy::print_stdout, reason = "an example shows what it finds")]
fn main() -> io::Result<()> {
    let name = env::args().nth(1).unwrap_or_else(|| "karmada".to_owned());
    let dialect = DIALECTS
        .get(&name)
        .ok_or_else(|| io::Error::other(format!("`{name}` is not one of {}", DIALECTS.names().join(", "))))?;
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    for document in federate_yaml::read_stream(&text).documents {
        let items = document.value.get("items").and_then(|items| items.as_array().cloned());
        for body in items.unwrap_or_else(|| vec![document.value]) {
            let object = Object::from_manifest(body, "standard input");
            let health = dialect.members().assess_health(&object, &Config::default());
            println!("{}: {:?} {}", object.id, health.state, health.reason);
        }
    }
    Ok(())
}
