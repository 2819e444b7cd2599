//! The apply strategy of a placement.

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::schema::Shape;

federate_kubernetes::crd! {
    /// `spec.strategy.applyStrategy`, with its defaults.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub struct ApplyStrategy {
        kind: String = optional("type", Shape::OneOf(&["ClientSideApply", "ServerSideApply", "ReportDiff"])),
        comparison_option: String = optional("comparisonOption", Shape::OneOf(&["PartialComparison", "FullComparison"])),
        when_to_apply: String = optional("whenToApply", Shape::OneOf(&["Always", "IfNotDrifted"])),
        when_to_take_over: String = optional("whenToTakeOver", Shape::OneOf(&["Always", "IfNoDiff", "Never"])),
        pub(super) allow_co_ownership: bool = optional("allowCoOwnership"),
        server_side_apply_config: ServerSide = optional("serverSideApplyConfig"),
    }
}

federate_kubernetes::crd! {
    #[derive(Clone, Debug, Default, Deserialize)]
    struct ServerSide {
        forced: bool = optional("force"),
    }
}

/// When an object that does not belong to the placement is adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeOver {
    Always,
    IfNoDiff,
    Never,
}

impl ApplyStrategy {
    /// Reads the strategy of a placement. Admission refuses one that cannot be read.
    pub fn from_placement(placement: &Object) -> Self {
        let given =
            placement.value_at(&["spec", "strategy", "applyStrategy"]).filter(|given| !given.is_null());
        given.and_then(|given: &Value| serde_json::from_value(given.clone()).ok()).unwrap_or_default()
    }

    pub(super) fn is_server_side(&self) -> bool {
        self.kind == "ServerSideApply"
    }

    pub(super) fn only_reports(&self) -> bool {
        self.kind == "ReportDiff"
    }

    pub(super) fn is_forced(&self) -> bool {
        self.server_side_apply_config.forced
    }

    pub(super) fn compares_all(&self) -> bool {
        self.comparison_option == "FullComparison"
    }

    pub(super) fn keeps_drifts(&self) -> bool {
        self.when_to_apply == "IfNotDrifted"
    }

    pub(super) fn takeover_mode(&self) -> TakeOver {
        match self.when_to_take_over.as_str() {
            "Never" => TakeOver::Never,
            "IfNoDiff" => TakeOver::IfNoDiff,
            _ => TakeOver::Always,
        }
    }
}
