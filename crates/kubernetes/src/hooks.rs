//! Hooks of Helm and Argo CD: objects that a tool runs at another time than when it applies the others.
//!
//! Facts: the documentation of both. Argo CD ignores Helm's annotations on objects that have its own, and maps Helm's types
//! to its own: those before an installation or upgrade to `PreSync`, those after it to `PostSync`. Weights and waves order
//! hooks of one time. Without a deletion policy, both delete what an earlier run left before they create a hook.

use serde_json::Value;

/// Helm's annotation.
const HELM_HOOK: &str = "helm.sh/hook";

/// Argo CD's annotation.
const ARGO_HOOK: &str = "argocd.argoproj.io/hook";

/// Helm's types that run neither on installation nor on upgrade.
const UNPLACED_HELM_TYPES: [&str; 7] =
    ["test", "test-success", "test-failure", "pre-delete", "post-delete", "pre-rollback", "post-rollback"];

/// Argo CD's types that do not run in a successful sync.
const UNPLACED_ARGO_CD_TYPES: [&str; 4] = ["Skip", "SyncFail", "PreDelete", "PostDelete"];

/// Types that run before the other objects are applied.
const EARLY_TYPES: [&str; 3] = ["pre-install", "pre-upgrade", "PreSync"];

/// Types that run after the other objects are applied.
const LATE_TYPES: [&str; 3] = ["post-install", "post-upgrade", "PostSync"];

/// The policy, in both tools' spelling, by which an earlier run is deleted before the next one.
const REPLACE_POLICIES: [&str; 2] = ["before-hook-creation", "BeforeHookCreation"];

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookTime {
    /// Before the other objects are applied, and those of lower weight first.
    Before(i32),
    /// With the other objects.
    Within,
    /// After the other objects are applied, and those of lower weight first.
    After(i32),
    /// Neither on installation nor on upgrade.
    Never,
}

/// What the annotations of a hook say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The types, as they are written.
    pub types: String,
    /// When it runs.
    pub time: HookTime,
    /// Whether what an earlier run left is deleted before it is created again.
    pub is_replaced: bool,
}

impl Hook {
    /// Reads the annotations of an object; `None` if it is not a hook.
    ///
    /// ```
    /// use federate_kubernetes::hooks::{Hook, HookTime};
    /// use serde_json::json;
    /// let annotations = json!({"helm.sh/hook": "pre-upgrade", "helm.sh/hook-weight": "-5"});
    /// let hook = Hook::from_body(&json!({"metadata": {"annotations": annotations}})).unwrap();
    /// assert_eq!(hook.time, HookTime::Before(-5));
    /// assert!(hook.is_replaced);
    /// ```
    pub fn from_body(body: &Value) -> Option<Self> {
        let annotations = body.get("metadata")?.get("annotations")?;
        let find = |key: &str| annotations.get(key).and_then(Value::as_str);
        let is_argo = !split_words(find(ARGO_HOOK)).is_empty();
        let (key, weight, policy, unplaced) = if is_argo {
            let policy = "argocd.argoproj.io/hook-delete-policy";
            (ARGO_HOOK, "argocd.argoproj.io/sync-wave", policy, UNPLACED_ARGO_CD_TYPES.as_slice())
        } else {
            (HELM_HOOK, "helm.sh/hook-weight", "helm.sh/hook-delete-policy", UNPLACED_HELM_TYPES.as_slice())
        };
        let types = split_words(find(key));
        if types.is_empty() {
            return None;
        }
        let weight = find(weight).and_then(|text| text.trim().parse().ok()).unwrap_or_default();
        let time = if types.iter().all(|one| contains_word(unplaced, one)) {
            HookTime::Never
        } else if types.iter().any(|one| contains_word(&EARLY_TYPES, one)) {
            HookTime::Before(weight)
        } else if types.iter().any(|one| contains_word(&LATE_TYPES, one)) {
            HookTime::After(weight)
        } else {
            HookTime::Within
        };
        let policies = split_words(find(policy));
        let is_replaced =
            policies.is_empty() || policies.iter().any(|one| contains_word(&REPLACE_POLICIES, one));
        Some(Self { types: types.join(","), time, is_replaced })
    }
}

/// The words of a list that is separated by commas.
fn split_words(text: Option<&str>) -> Vec<&str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}

fn contains_word(words: &[&str], word: &str) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_types_of_both_tools_have_their_times() {
        for (annotations, time) in [
            (json!({"helm.sh/hook": "pre-install,post-install"}), Some(HookTime::Before(0))),
            (json!({"helm.sh/hook": "post-upgrade", "helm.sh/hook-weight": "7"}), Some(HookTime::After(7))),
            (json!({"helm.sh/hook": "crd-install"}), Some(HookTime::Within)),
            (json!({"helm.sh/hook": "test"}), Some(HookTime::Never)),
            (json!({"helm.sh/hook": "post-install,test"}), Some(HookTime::After(0))),
            (
                json!({"argocd.argoproj.io/hook": "PreSync", "argocd.argoproj.io/sync-wave": "-1", "helm.sh/hook": "test"}),
                Some(HookTime::Before(-1)),
            ),
            (json!({"argocd.argoproj.io/hook": "Sync"}), Some(HookTime::Within)),
            (json!({"argocd.argoproj.io/hook": "PostDelete"}), Some(HookTime::Never)),
            (json!({"helm.sh/hook": " "}), None),
            (json!({}), None),
        ] {
            let hook = Hook::from_body(&json!({"metadata": {"annotations": annotations}}));
            assert_eq!(hook.map(|hook| hook.time), time, "{annotations}");
        }
    }

    #[test]
    fn an_earlier_run_is_replaced_unless_a_policy_says_otherwise() {
        for (key, policy, expected) in [
            ("helm.sh/hook-delete-policy", "hook-succeeded", false),
            ("helm.sh/hook-delete-policy", "hook-succeeded, before-hook-creation", true),
            ("other", "", true),
        ] {
            let body = json!({"metadata": {"annotations": {"helm.sh/hook": "pre-install", key: policy}}});
            assert_eq!(Hook::from_body(&body).map(|hook| hook.is_replaced), Some(expected), "{policy}");
        }
    }
}
