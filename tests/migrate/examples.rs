//! The examples, migrated.

use std::fs;
use std::path::Path;

use federate_migrate::{MigrationError, Mode, Target, Verdict, find_mode, migrate_repo};
use snapbox::{assert_data_eq, file, str};

use crate::comparison::{Difference, Sent, compare};
use crate::files::Files;
use crate::proof::prove;

/// Migrates files and compares both sides. Differences without a reason fail, and so does a second migration that changes
/// anything. Returns what is written, and what differs.
fn migrate(files: &Files, target: Target, mode: Mode) -> (String, Vec<Difference>) {
    let old = files.open();
    let migration = migrate_repo(&old, target, mode).unwrap_or_else(|error| panic!("{error}"));
    let migrated = files.migrated(&migration);
    let new = match target {
        Target::Plain => match migrated.open_built() {
            Some(new) => new,
            None => return (Files::print_edits(&migration), Vec::new()),
        },
        _ => migrated.open(),
    };
    let errors: Vec<String> = new
        .findings()
        .into_iter()
        .filter(federate_kubernetes::Finding::is_error)
        .map(|finding| finding.message)
        .collect();
    assert!(errors.is_empty(), "{errors:#?}\n{}", Files::print_edits(&migration));
    let differences = compare(&Sent::of(&old), &Sent::of(&new), &migration);
    let unexplained: Vec<_> = differences.iter().filter(|difference| !difference.explained).collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}\n{}", Files::print_edits(&migration));
    let again = migrate_repo(&new, target, mode).unwrap();
    assert_eq!(again.edits, [], "migrated again");
    (Files::print_edits(&migration), differences)
}

#[test]
fn every_example_can_be_frozen_for_karmada() {
    for example in ["kubefed", "kubeadmiral", "kubefleet", "ocm"] {
        println!("{example}");
        let (text, differences) = migrate(&Files::of_example(example), Target::Karmada, Mode::Freeze);
        assert!(differences.is_empty(), "{example}: {differences:#?} {text}");
    }
}

/// The folders of the examples that are repos.
fn list_examples() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let folders = folders.filter(|entry| entry.path().is_dir() && entry.file_name() != "rendered");
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    for name in &mut names {
        if name == "adoption" {
            name.push_str("/repo");
        }
    }
    names
}

#[test]
fn every_example_can_be_migrated_to_every_target_and_each_difference_has_a_reason() {
    let mut proved = 0;
    for example in list_examples() {
        let files = Files::of_example(&example);
        for target in [Target::Karmada, Target::KubeAdmiral, Target::KubeFleet] {
            println!("{example} → {}", target.name());
            proved += usize::from(prove(&files, target, Mode::Idiomatic).is_some());
            prove(&files, target, Mode::Freeze).unwrap();
        }
        println!("{example} → plain");
        prove(&files, Target::Plain, Mode::Idiomatic);
    }
    assert!(proved > 15, "{proved}");
}

#[test]
fn federated_objects_become_templates_with_policies() {
    let (text, _) = migrate(&Files::of_example("kubefed"), Target::Karmada, Mode::Idiomatic);
    assert_data_eq!(text, file!["written/kubefed-to-karmada.txt"].raw());
}

#[test]
fn policies_of_kubeadmiral_become_policies_of_karmada() {
    let (text, _) = migrate(&Files::of_example("kubeadmiral"), Target::Karmada, Mode::Idiomatic);
    assert_data_eq!(text, file!["written/kubeadmiral-to-karmada.txt"].raw());
}

#[test]
fn every_example_can_do_without_a_control_plane() {
    for example in ["kubefed", "kubeadmiral", "kubefleet", "ocm"] {
        println!("{example}");
        let (text, differences) = migrate(&Files::of_example(example), Target::Plain, Mode::Idiomatic);
        assert!(differences.is_empty(), "{example}: {differences:#?} {text}");
    }
}

#[test]
fn placements_of_kubefleet_become_policies_of_karmada() {
    let (text, _) = migrate(&Files::of_example("kubefleet"), Target::Karmada, Mode::Idiomatic);
    assert_data_eq!(text, file!["written/kubefleet-to-karmada.txt"].raw());
}

#[test]
fn policies_of_karmada_become_placements_of_kubefleet() {
    let (text, _) = migrate(&Files::of_example("karmada-nginx"), Target::KubeFleet, Mode::Idiomatic);
    assert_data_eq!(text, file!["written/karmada-to-kubefleet.txt"].raw());
}

#[test]
fn policies_of_karmada_become_policies_of_kubeadmiral() {
    let (text, _) = migrate(&Files::of_example("karmada-nginx"), Target::KubeAdmiral, Mode::Idiomatic);
    assert_data_eq!(text, file!["written/karmada-to-kubeadmiral.txt"].raw());
}

#[test]
fn a_frozen_repo_has_clusters_by_name_and_replicas_as_overrides() {
    let (text, _) = migrate(&Files::of_example("kubeadmiral"), Target::Karmada, Mode::Freeze);
    assert_data_eq!(text, file!["written/kubeadmiral-frozen.txt"].raw());
}

#[test]
fn overlays_build_what_a_control_plane_has_sent() {
    let (text, _) = migrate(&Files::of_example("kubefed"), Target::Plain, Mode::Idiomatic);
    assert_data_eq!(text, file!["written/kubefed-to-plain.txt"].raw());
}

#[test]
fn an_override_that_deletes_leaves_its_clusters_out() {
    let mut files = Files::of_example("kubefleet");
    let overrides = files.0.get_mut("overrides.yaml").unwrap();
    let patches = overrides.find("      jsonPatchOverrides:").unwrap();
    let rest =
        overrides[patches..].find("\n---").map_or(String::new(), |at| overrides[patches + at..].to_owned());
    *overrides = format!("{}      overrideType: Delete\n{rest}", &overrides[..patches]);
    for mode in [Mode::Idiomatic, Mode::Freeze] {
        let migration = migrate_repo(&files.open(), Target::Karmada, mode).unwrap();
        let new = files.migrated(&migration).open();
        let row = new.plan().placements.iter().find(|row| row.object.to_string() == "Deployment spread/web");
        let clusters: Vec<&str> = row.unwrap().clusters.iter().map(|placed| placed.name.as_ref()).collect();
        assert!(!clusters.is_empty() && !clusters.contains(&"cluster2"), "{clusters:?}");
        assert!(mode == Mode::Freeze || !clusters.contains(&"cluster3"), "{clusters:?}");
        migrate(&files, Target::Karmada, mode);
    }
}

#[test]
fn more_rules_than_an_override_may_have_are_an_error() {
    let mut files = Files::default();
    let names: Vec<String> = (0..21).map(|number| format!("m{number:02}")).collect();
    for (number, name) in names.iter().enumerate() {
        let cluster =
            format!("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\n");
        files.0.insert(format!("{name}.yaml"), cluster);
        let rule = format!(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  \
             resourceSelectors: [{{apiVersion: v1, kind: ConfigMap, name: web}}]\n  overrideRules:\n  - targetCluster: {{clusterNames: \
             [{name}]}}\n    overriders: {{plaintext: [{{path: /data/a, operator: replace, value: \"{number}\"}}]}}\n"
        );
        files.0.insert(format!("rule-{name}.yaml"), rule);
    }
    let web = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: shop}\ndata: {a: x}\n---\n\
               apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: web, namespace: shop}\n\
               spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}], placement: {}}\n";
    files.0.insert("web.yaml".to_owned(), web.to_owned());
    let refused = migrate_repo(&files.open(), Target::KubeFleet, Mode::Idiomatic).unwrap_err().to_string();
    assert!(refused.contains("needs 21 override rules, and KubeFleet allows 20"), "{refused}");
}

#[test]
fn clusters_whose_names_kubefleet_refuses_are_left_out_and_named() {
    let mut files = Files::of_example("kubefed");
    for text in files.0.values_mut() {
        *text = text.replace("name: a\n", "name: A\n").replace(" a:\n", " A:\n");
    }
    let proved = prove(&files, Target::KubeFleet, Mode::Freeze).unwrap();
    assert_eq!(proved.verdict, Verdict::Different);
    let clusters: Vec<&str> = proved.session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
    assert!(clusters.contains(&"b") && !clusters.contains(&"A"), "{clusters:?}");
    let expected =
        "Deployment test-ns/test-deployment cluster-names KubeFleet has no cluster `A` (clusters/a.yaml:1)\n";
    assert!(proved.text.contains(expected), "{}", proved.text);
    let expected = " cluster-names the cluster `A` is left out: a name of KubeFleet has lowercase letters, digits, `-` and `.`; rename it \
                    first, here and in all policies that name it (clusters/a.yaml:1/metadata/name)\n";
    assert!(proved.text.contains(expected), "{}", proved.text);
    assert!(!proved.text.contains("clusterNames:\n    - A"), "{}", proved.text);
}

#[test]
fn without_a_mode_rules_are_written_as_rules_or_all_is_frozen() {
    let modes = |example: &str| {
        let session = Files::of_example(example).open();
        [Target::Karmada, Target::KubeFleet, Target::KubeAdmiral, Target::Plain]
            .map(|target| find_mode(&session, target).name())
    };
    assert_eq!(modes("kubefed"), ["idiomatic", "freeze", "freeze", "idiomatic"]);
    assert_eq!(modes("karmada-nginx"), ["idiomatic"; 4]);
    assert_eq!(modes("ocm"), ["freeze", "freeze", "freeze", "idiomatic"]);
}

#[test]
fn directions_that_are_not_known_say_which_are() {
    let session = Files::of_example("kubefed").open();
    let error = migrate_repo(&session, Target::KubeAdmiral, Mode::Idiomatic).unwrap_err();
    assert_data_eq!(
        error.to_string(),
        str![
            "rules of kubefed cannot be written for kubeadmiral in mode `idiomatic`; what can be: kubefed → karmada, \
             kubeadmiral → karmada, kubefleet → karmada, karmada → kubefleet, karmada → kubeadmiral, any → plain; `--mode freeze` \
             writes each object as it is placed now"
        ]
    );
}

#[test]
fn a_repo_with_errors_is_refused_with_them() {
    let mut files = Files::of_example("kubefed");
    files.0.insert("broken.yaml".to_owned(), "kind: [\n".to_owned());
    let error = migrate_repo(&files.open(), Target::Karmada, Mode::Idiomatic).unwrap_err();
    assert!(matches!(&error, MigrationError::BrokenRepo(findings) if findings.len() == 1), "{error:?}");
}
