//! What tests of `federate sync` ask of a sandbox.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use federate_test_apiserver::ApiUser;
use serde_json::{Value, json};

use crate::real::Real;
use crate::sandbox::Sandbox;

impl Sandbox {
    /// The same as [`Sandbox::anywhere_alone`], with real clusters only where they issue tokens of `ServiceAccount`s.
    pub(crate) fn anywhere_with_accounts(clusters: &[&str]) -> Self {
        let real = Real::find(clusters);
        if real.is_some_and(|real| real.issues_tokens(clusters[0])) {
            Self::anywhere_alone(clusters)
        } else {
            Self::simulated(clusters)
        }
    }

    /// `federate sync` over `sync.yaml` of the sandbox.
    pub(crate) fn sync(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.args("sync -f sync.yaml --state state --kubeconfig".split(' '));
        command.arg(self.kubeconfig_path());
        command.args(self.is_real().then_some("--contexts-from-repo"));
        command.args(arguments.split_whitespace()).current_dir(self.path("")).stdin(Stdio::null());
        command
    }

    /// Writes `sync.yaml`: the repo as a folder, and what else is wanted.
    pub(crate) fn write_sync(&self, interval: &str, wants: &str) {
        let set = self.real.as_ref().map(|real| format!("apply: {{applySet: {}}}", real.applyset()));
        let wants = wants.replace("apply: {}", set.as_deref().unwrap_or("apply: {}"));
        let text = format!(
            "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {{name: web}}\nspec:\n  source: {{url: repo}}\n  \
             interval: {interval}\n{wants}"
        );
        fs::write(self.path("sync.yaml"), text).unwrap();
    }

    /// The kubeconfig of the clusters.
    pub(crate) fn kubeconfig_path(&self) -> PathBuf {
        self.real.as_ref().map_or_else(|| self.path("kubeconfig"), |real| real.kubeconfig.clone())
    }

    /// The `ApplySet` of a Sync in a file, if it must not be the default.
    pub(crate) fn applyset(&self) -> Option<String> {
        self.real.as_ref().map(Real::applyset)
    }

    /// Writes a kubeconfig in which each context uses a token of this `ServiceAccount` of a cluster.
    pub(crate) fn write_kubeconfig_of(&self, file: &str, cluster: &str, namespace: &str, account: &str) {
        let token = self.make_token(cluster, namespace, account);
        let text = fs::read_to_string(self.kubeconfig_path()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        for user in config["users"].as_array_mut().unwrap() {
            user["user"] = json!({"token": token});
        }
        fs::write(self.path(file), config.to_string()).unwrap();
    }

    /// A token of this `ServiceAccount` of a cluster.
    pub(crate) fn make_token(&self, cluster: &str, namespace: &str, account: &str) -> String {
        if let Some(real) = &self.real {
            return real.token(cluster, namespace, account);
        }
        let user = ApiUser::new(
            &format!("system:serviceaccount:{namespace}:{account}"),
            &["system:serviceaccounts", "system:authenticated"],
        );
        self.fleet.lock_cluster(cluster).add_token(account, user);
        account.to_owned()
    }

    /// Lets a cluster that is not real forget the token of an account. Real ones do that when the account is deleted.
    pub(crate) fn revoke_token(&self, cluster: &str, account: &str) {
        if !self.is_real() {
            self.fleet.lock_cluster(cluster).remove_token(account);
        }
    }

    /// Lets an object go when the test ends.
    pub(crate) fn remember(&self, cluster: &str, path: &str) {
        self.real.iter().for_each(|real| real.remember(cluster, path));
    }
}
