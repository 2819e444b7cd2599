//! Kubeconfigs of people who must not choose programs and files of this machine, such as those in Secrets.
//!
//! A kubeconfig can name credential plugins, which are programs, and files with tokens, keys and certificates. Whoever
//! writes the Secret that a Sync names could otherwise run programs where federate runs, or have a file that federate can
//! read sent to a server of theirs.
//!
//! Facts: the kubeconfig reference (`users[].user`, `clusters[].cluster`); Flux's kustomize-controller refuses credential
//! plugins in Secrets likewise (`--insecure-kubeconfig-exec`).

use kube::config::{self, AuthInfo, Cluster};

use super::Error;
use federate_kubernetes::names::safe_namespace;

/// A kubeconfig that contains all its credentials.
#[derive(Clone)]
pub struct Kubeconfig(pub(super) config::Kubeconfig);

impl Kubeconfig {
    /// Parses a kubeconfig, and refuses one that names programs or files.
    pub fn self_contained(text: &[u8]) -> Result<Self, Error> {
        let invalid = "is not valid; the reason is not shown, because it could quote credentials";
        let parsed = std::str::from_utf8(text).ok().and_then(|text| config::Kubeconfig::from_yaml(text).ok());
        let parsed = parsed.ok_or_else(|| Error::Access(format!("the kubeconfig {invalid}")))?;
        let users = parsed
            .auth_infos
            .iter()
            .filter_map(|user| Some(("user", &user.name, outside_user(user.auth_info.as_ref()?)?)));
        let clusters = parsed.clusters.iter().filter_map(|cluster| {
            Some(("cluster", &cluster.name, outside_cluster(cluster.cluster.as_ref()?)?))
        });
        if let Some((what, name, field)) = users.chain(clusters).next() {
            return Err(Error::Access(format!(
                "the {what} `{name}` of the kubeconfig has `{field}`, which is refused because it could run a program \
                 or read a file where federate runs; put tokens, keys and certificates themselves into the kubeconfig"
            )));
        }
        let namespaces = parsed.contexts.iter().filter_map(|named| {
            named.context.as_ref()?.namespace.as_ref().map(|namespace| (&named.name, namespace))
        });
        for (context, namespace) in namespaces {
            if let Err(why) = safe_namespace(namespace) {
                return Err(Error::Access(format!(
                    "the namespace of the kubeconfig's context `{context}`: {why}"
                )));
            }
        }
        Ok(Self(parsed))
    }
}

/// The field of a user that names a program or a file.
fn outside_user(user: &AuthInfo) -> Option<&'static str> {
    let fields = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
    ];
    fields.into_iter().find(|(_, is_set)| *is_set).map(|(field, _)| field)
}

/// The field of a cluster that names a file.
fn outside_cluster(cluster: &Cluster) -> Option<&'static str> {
    cluster.certificate_authority.is_some().then_some("certificate-authority")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_files_are_refused() {
        let parse = |user: &str, cluster: &str| {
            let text =
                format!("users: [{{name: a, user: {user}}}]\nclusters: [{{name: c, cluster: {cluster}}}]\n");
            Kubeconfig::self_contained(text.as_bytes()).map(drop).map_err(|error| error.to_string())
        };
        let https = "{server: 'https://m1'}";
        parse("{token: t0ken}", https).unwrap();
        parse("{client-certificate-data: YQ==, client-key-data: YQ==}", https).unwrap();
        for (user, field) in [
            ("{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}", "exec"),
            ("{auth-provider: {name: gcp, config: {cmd-path: sh}}}", "auth-provider"),
            ("{token: a, tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}", "tokenFile"),
            ("{client-certificate: /tmp/c}", "client-certificate"),
            ("{client-key: /tmp/k}", "client-key"),
        ] {
            let said = parse(user, https).unwrap_err();
            assert!(said.contains(&format!("the user `a` of the kubeconfig has `{field}`")), "{said}");
        }
        let said = parse("{}", "{server: 'https://m1', certificate-authority: /etc/passwd}").unwrap_err();
        assert!(said.contains("the cluster `c` of the kubeconfig has `certificate-authority`"), "{said}");
        let context = "contexts: [{name: m1, context: {cluster: c, namespace: 'a/../b'}}]";
        let said = Kubeconfig::self_contained(context.as_bytes()).map(drop).unwrap_err().to_string();
        assert!(said.contains("the namespace of the kubeconfig's context `m1`"), "{said}");
        let said = Kubeconfig::self_contained(b"users: [{name: a, user: {token: [hunter2]}}]\n").map(drop);
        let said = said.unwrap_err().to_string();
        assert!(said.contains("the kubeconfig is not valid") && !said.contains("hunter2"), "{said}");
    }
}
