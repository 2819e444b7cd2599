//! Random repos, migrated there and back: a second migration changes nothing, and what each way leaves as it was is the same after
//! both.

use federate_migrate::{Mode, Target};
use federate_session::SessionOptions;
use proptest::prelude::*;

use crate::conformance::RecordedCase;
use crate::files::Files;

#[path = "../property/fleet.rs"]
#[expect(dead_code, reason = "the properties of repos use more of it")]
mod fleet;

use fleet::{Fleet, fleet};

/// The directions from a control plane.
fn list_directions(dialect: &str) -> Vec<(Target, Mode)> {
    let frozen = (Target::Karmada, Mode::Freeze);
    match dialect {
        "karmada" => [Target::KubeFleet, Target::KubeAdmiral]
            .into_iter()
            .flat_map(|target| [(target, Mode::Idiomatic), (target, Mode::Freeze)])
            .collect(),
        "ocm" => vec![frozen],
        _ => vec![(Target::Karmada, Mode::Idiomatic), frozen],
    }
}

fn read_files(fleet: &Fleet) -> Files {
    let files = fleet.files().into_iter();
    Files(
        files
            .map(|file| (file.path.to_string(), String::from_utf8_lossy(&file.bytes).into_owned()))
            .collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_random_repo_is_equal_or_explained_there_and_back(fleet in fleet()) {
        let id = format!("{}/random", fleet.dialect);
        for (target, mode) in list_directions(fleet.dialect) {
            let options = SessionOptions::new(federate_dialects::DIALECTS);
            let tally = RecordedCase::open(&id, read_files(&fleet), options).migrate(target, mode);
            prop_assert_eq!(tally.find_faults(), Vec::<&str>::new(), "to {} {}", target.name(), mode.name());
        }
    }
}
