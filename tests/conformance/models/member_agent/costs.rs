//! The cost of a core and of a gigabyte per hour.
//!
//! Facts: the sum of the prices of all nodes is divided by their cores, and by their memory. If one machine
//! size has no price, both costs are unknown. The costs are computed again when the size or the capacity of a
//! node changes, when a node is removed, and when prices were updated.

use std::collections::BTreeMap;

use federate_kubefleet::capacity::NodeResources;
use federate_kubernetes::Condition;
use jiff::{SignedDuration, Timestamp};

/// After that time prices are stale.
const MAX_PRICE_AGE: SignedDuration = SignedDuration::from_hours(24);

/// Prices by size of machine.
#[derive(Clone, Debug)]
pub(crate) struct Prices {
    /// The prices per hour.
    pub(crate) hourly: BTreeMap<String, f64>,
    /// When they were updated.
    pub(crate) updated: Timestamp,
}

/// The costs from the last computation.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) computed: Timestamp,
    result: Result<Rates, String>,
}

#[derive(Clone, Debug)]
struct Rates {
    core: f64,
    gigabyte: f64,
    /// A warning that the prices are stale.
    warning: Option<String>,
}

impl Costs {
    /// Computes the costs from the number of machines of each size and their capacity.
    pub(crate) fn from_prices(
        prices: &Prices,
        machines: &BTreeMap<String, usize>,
        capacity: &NodeResources,
        now: Timestamp,
    ) -> Self {
        Self { computed: now, result: compute_rates(prices, machines, capacity, now) }
    }

    /// The costs of a core and of a gigabyte, as text.
    pub(crate) fn format_rates(&self) -> Option<[String; 2]> {
        let rates = self.result.as_ref().ok()?;
        Some([rates.core, rates.gigabyte].map(|rate| format!("{rate:.3}")))
    }

    /// The condition that reports the computation.
    pub(crate) fn to_condition(&self) -> Condition {
        let (status, reason, message) = match &self.result {
            Ok(Rates { warning: None, .. }) => {
                let message = "All cost properties have been collected successfully";
                ("True", "CostsCalculated", message.to_owned())
            }
            Ok(Rates { warning: Some(warning), .. }) => (
                "True",
                "CostsCalculationDegraded",
                format!(
                    "Cost properties are collected in a degraded mode with the following warning(s): [{warning}]"
                ),
            ),
            Err(why) => (
                "False",
                "CostsCalculationFailed",
                format!("An error has occurred when collecting cost properties: {why}"),
            ),
        };
        Condition::new("AKSClusterCostPropertiesCollectionSucceeded", status, reason, message)
    }
}

fn compute_rates(
    prices: &Prices,
    machines: &BTreeMap<String, usize>,
    capacity: &NodeResources,
    now: Timestamp,
) -> Result<Rates, String> {
    if machines.is_empty() {
        return Ok(Rates { core: 0.0, gigabyte: 0.0, warning: None });
    }
    let warning = (now.duration_since(prices.updated) > MAX_PRICE_AGE).then(|| {
        let at = prices.updated.strftime("%Y-%m-%d %H:%M:%S +0000 UTC");
        format!(
            "the pricing data is stale (last updated at {at}); the system might have issues connecting to the Azure \
             Retail Prices API, or the current region is unsupported"
        )
    });
    let mut total = 0.0;
    let mut missing = Vec::new();
    for (size, count) in machines {
        match prices.hourly.get(size) {
            #[expect(clippy::cast_precision_loss, reason = "no fleet has so many nodes")]
            Some(price) => total += price * *count as f64,
            None => missing.push(size.as_str()),
        }
    }
    let sizes = missing.join(" ");
    if missing.len() == machines.len() {
        return Err(format!(
            "nodes are present, but no pricing data is available for any node SKUs ([{sizes}])"
        ));
    }
    if !missing.is_empty() {
        return Err(format!(
            "no pricing data is available for one or more of the node SKUs ([{sizes}]) in the cluster"
        ));
    }
    let [cores, bytes] = capacity.0.map(|amount| amount.amount.as_approximate_f64());
    for (what, amount, least) in [("cpu", cores, 0.001), ("memory", bytes, 1.0)] {
        if amount <= least {
            return Err(format!(
                "failed to calculate costs: {what} quantity is of an invalid value: {amount}"
            ));
        }
    }
    Ok(Rates { core: total / cores, gigabyte: total / (bytes / f64::from(1u32 << 30)), warning })
}
