//! The path of each object in a rendered tree: `<cluster>/<namespace or
//! _cluster>/<kind>[.<group>]_<name>.yaml`.
//!
//! Kinds are in lower case. Names are written unchanged, such as `system:node` with its colon. Characters
//! that a file system cannot hold, or that would make paths ambiguous, are percent-encoded. A file or folder
//! name over 255 bytes is cut and ends in `%~` and a digest of the full name. Different objects therefore
//! have different paths, unless they differ only in the case of their kinds or in their API version.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use federate_kubernetes::ObjectRef;
use federate_kubernetes::hex::to_hex;

/// The file of the plan, at the root of the tree.
pub const PLACEMENTS: &str = "placements.yaml";

/// The file in which hydrators say which commit they have rendered.
pub const HYDRATOR_METADATA: &str = "hydrator.metadata";

/// The folder of cluster-scoped objects.
const CLUSTER_SCOPED: &str = "_cluster";

/// The longest file name on common file systems, in bytes.
const MAX_NAME_LENGTH: usize = 255;

/// The path of an object below its cluster's folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectPath {
    /// The folder.
    pub namespace: Arc<str>,
    /// The file name.
    pub file: Arc<str>,
}

impl ObjectPath {
    /// The path of an object.
    pub fn from_object(object: &ObjectRef) -> Self {
        let namespace = match &object.namespace {
            Some(namespace) => escape_folder_name(namespace),
            None => CLUSTER_SCOPED.to_owned(),
        };
        let mut stem = percent_encode(&object.kind.to_ascii_lowercase(), &['_', '.']);
        if !object.group().is_empty() {
            stem.push('.');
            stem.push_str(&percent_encode(object.group(), &['_']));
        }
        stem.push('_');
        stem.push_str(&percent_encode(&object.name, &[]));
        Self { namespace: namespace.into(), file: limit_length(&stem, ".yaml").into() }
    }
}

/// The folder of a cluster.
pub fn cluster_folder(name: &str) -> String {
    if [PLACEMENTS, HYDRATOR_METADATA].iter().any(|file| name.eq_ignore_ascii_case(file)) {
        percent_encode(name, &['.'])
    } else {
        escape_folder_name(name)
    }
}

/// A folder name that is never hidden, never `..`, and never one with a special meaning here.
fn escape_folder_name(name: &str) -> String {
    match name.chars().next() {
        // No other name contains a `%` without two hexadecimal digits after it.
        None => "%".to_owned(),
        Some(first @ ('.' | '_')) => {
            limit_length(&(percent_encode_char(first) + &percent_encode(&name[1..], &[])), "")
        }
        Some(_) => limit_length(&percent_encode(name, &[]), ""),
    }
}

/// Percent-encodes the characters that no file name can contain, and those in `also`.
fn percent_encode(text: &str, also: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '/' | '\\' | '%') || also.contains(&c) {
            out.push_str(&percent_encode_char(c));
        } else {
            out.push(c);
        }
    }
    out
}

fn percent_encode_char(c: char) -> String {
    c.encode_utf8(&mut [0; 4]).bytes().fold(String::new(), |out, byte| out + &format!("%{byte:02X}"))
}

/// Joins `stem` and `suffix`, and cuts the stem if the result would be too long.
fn limit_length(stem: &str, suffix: &str) -> String {
    if stem.len() + suffix.len() <= MAX_NAME_LENGTH {
        return format!("{stem}{suffix}");
    }
    let digest = to_hex(&Sha256::digest(stem)[..16]);
    let kept = MAX_NAME_LENGTH - suffix.len() - digest.len() - 2;
    format!("{}%~{digest}{suffix}", &stem[..stem.floor_char_boundary(kept)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.map(Into::into),
            name: name.into(),
        }
    }

    fn path(object: &ObjectRef) -> String {
        let place = ObjectPath::from_object(object);
        format!("{}/{}", place.namespace, place.file)
    }

    #[test]
    fn ordinary_names_stand_as_they_are() {
        let web = object("apps/v1", "Deployment", Some("shop"), "web");
        assert_eq!(path(&web), "shop/deployment.apps_web.yaml");
        assert_eq!(path(&object("v1", "ConfigMap", Some("shop"), "app")), "shop/configmap_app.yaml");
        let role = object("rbac.authorization.k8s.io/v1", "ClusterRole", None, "system:node");
        assert_eq!(path(&role), "_cluster/clusterrole.rbac.authorization.k8s.io_system:node.yaml");
        assert_eq!(cluster_folder("member1"), "member1");
    }

    #[test]
    fn names_that_a_file_system_cannot_hold_are_encoded() {
        let name = |name: &str| path(&object("v1", "Secret", Some("a"), name));
        assert_eq!(name("../../etc/passwd"), "a/secret_..%2F..%2Fetc%2Fpasswd.yaml");
        assert_eq!(name("a\\b\0c%d\u{85}"), "a/secret_a%5Cb%00c%25d%C2%85.yaml");
        assert_eq!(name(""), "a/secret_.yaml");
    }

    #[test]
    fn no_folder_leads_out_hides_or_takes_another_meaning() {
        assert_eq!(cluster_folder(".."), "%2E.");
        assert_eq!(cluster_folder(".git"), "%2Egit");
        assert_eq!(cluster_folder(""), "%");
        assert_eq!(cluster_folder("Placements.yaml"), "Placements%2Eyaml");
        assert_eq!(cluster_folder("hydrator.metadata"), "hydrator%2Emetadata");
        assert_eq!(path(&object("v1", "Secret", Some("_cluster"), "a")), "%5Fcluster/secret_a.yaml");
    }

    #[test]
    fn a_dotted_kind_is_no_group_and_an_underscore_no_separator() {
        assert_ne!(path(&object("v1", "A.b", None, "c")), path(&object("b/v1", "A", None, "c")));
        assert_ne!(path(&object("v1", "A_b", None, "c")), path(&object("v1", "A", None, "b_c")));
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let long = |last: &str| {
            ObjectPath::from_object(&object("v1", "Secret", None, &format!("{}{last}", "é".repeat(140))))
        };
        assert!(long("a").file.len() <= 255);
        assert!(long("a").file.ends_with(".yaml"));
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("a"));
        let exact = object("v1", "Secret", None, &"x".repeat(255 - "secret_.yaml".len()));
        assert_eq!(ObjectPath::from_object(&exact).file.len(), 255);
        assert!(!ObjectPath::from_object(&exact).file.contains('%'));
    }

    proptest! {
        #[test]
        fn different_objects_get_different_paths_that_a_file_system_can_hold(
            a in ("[a-b./_%]{0,3}", "[a-b._]{1,3}", proptest::option::of("[._a]{0,9}"), "[a._/%\0é]{0,3}"),
            b in ("[a-b./_%]{0,3}", "[a-b._]{1,3}", proptest::option::of("[._a]{0,9}"), "[a._/%\0é]{0,3}"),
        ) {
            let of = |(group, kind, namespace, name): &(String, String, Option<String>, String)| {
                object(&format!("{}/v1", group.replace('/', "-")), kind, namespace.as_deref(), name)
            };
            let (a, b) = (of(&a), of(&b));
            prop_assert_eq!(a == b, ObjectPath::from_object(&a) == ObjectPath::from_object(&b));
            for part in [ObjectPath::from_object(&a).namespace, ObjectPath::from_object(&a).file] {
                prop_assert!(!part.is_empty() && !part.starts_with('.') && part.len() <= 255);
                prop_assert!(!part.contains(['/', '\0']));
            }
        }
    }
}
