//! What a run of the command printed.

use std::process::Output;

use serde_json::Value;

/// The output and exit code of a run.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// What a run with `-o json` printed.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    /// The action about an object of a kind and name in a cluster, of a run with `-o json`.
    #[track_caller]
    pub(crate) fn action(&self, cluster: &str, kind: &str, name: &str) -> Value {
        let document = self.json();
        assert_eq!(document["kind"], "Actions");
        let actions = document["actions"].as_array().unwrap();
        let is = |action: &&Value| {
            action["cluster"] == cluster
                && action["object"]["kind"] == kind
                && action["object"]["name"] == name
        };
        actions.iter().find(is).unwrap_or_else(|| panic!("no {kind} {name} in {cluster}: {self:#?}")).clone()
    }
}
