//! Secrets whose values a commit would publish.

use serde_json::Value;

use federate_kubernetes::sops::must_not_be_sent;
use federate_kubernetes::{Finding, Object};

use crate::Session;

impl Session {
    /// Warnings about Secrets with values in plain text, which everyone who can read the repo or the rendered branch
    /// can read. Files that SOPS encrypted are not among them.
    pub fn secrets_in_clear(&self) -> Vec<Finding> {
        let repo = self.repo();
        let templates = repo.templates.iter().map(|template| (&template.object, &template.object.body));
        let wrapped = repo.claimed.iter().filter(|claimed| claimed.object.id.kind == "FederatedSecret");
        let wrapped = wrapped.filter_map(|c| Some((&c.object, c.object.value_at(&["spec", "template"])?)));
        let plain = templates.filter(|(object, _)| is_secret(object)).chain(wrapped);
        plain
            .filter(|(object, body)| object.value_at(&["sops"]).is_none() && has_values(body))
            .map(|(o, _)| report_clear_secret(o))
            .collect()
    }
}

fn is_secret(object: &Object) -> bool {
    object.id.api_version == "v1" && object.id.kind == "Secret"
}

fn has_values(body: &Value) -> bool {
    let parts = ["data", "stringData"].into_iter();
    let values = parts.filter_map(|key| Some((key, body.get(key)?.as_object()?)));
    values.flat_map(|(key, map)| map.values().map(move |value| (key, value))).any(|(key, value)| {
        value.as_str().is_some_and(|text| !text.is_empty()) && !must_not_be_sent(value, key == "data")
    })
}

fn report_clear_secret(object: &Object) -> Finding {
    let message = format!("the values of {} are in plain text: base64 does not protect them", object.id);
    Finding::warning("secret-in-clear", object, message).with_help(
        "use a SealedSecret or an ExternalSecret, or encrypt the file with SOPS if the reader of the rendered files decrypts \
         it (`federate apply --decrypt sops` does); what was committed once has to be changed",
    )
}
