//! A plan as a table: one row per object, with its clusters and their replicas.
//!
//! On a terminal, the table fits its width: a few long names get lines of their own, or else the column of policies
//! goes. Names are never cut. Elsewhere, only the lists of clusters are folded; with all clusters, each object is one line.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use anstyle::AnsiColor;

use super::cluster_names::{MAX_LINES, NameList, find_missing};
use super::table::{TextStyle, format_count};
use federate_dialect::{Placed, PlacedClusters, Placement, Plan};
use federate_kubernetes::ObjectRef;

/// What the table shows besides the plan.
#[derive(Clone, Copy)]
pub struct PlanContext<'c> {
    /// The names of the inventory.
    pub clusters: &'c [&'c str],
    /// Whether an object belongs to a control plane, such as a placement of KubeFleet. Such rows are not counted as
    /// placed objects.
    pub is_policy: &'c dyn Fn(&ObjectRef) -> bool,
    /// Whether an unmatched object would follow another one, which is on no cluster.
    pub follows_nowhere: &'c dyn Fn(&ObjectRef) -> bool,
    /// Whether to show all columns and all clusters, however wide.
    pub wide: bool,
}

/// The smallest width of the column of clusters on a terminal.
const MIN_CLUSTERS_WIDTH: usize = 20;

/// How many objects of a long list a terminal shows, unless all are to be shown.
const MAX_UNMATCHED: usize = 20;

/// How many equal rows of one policy a terminal shows, before the others are counted.
const MAX_EQUAL_ROWS: usize = 5;

/// The plan as a table with a summary line and the releases that decided.
pub fn format_table(plan: &Plan, context: PlanContext<'_>, style: TextStyle) -> String {
    let width = style.width.filter(|_| !context.wide);
    let full = style.full || context.wide;
    // Where a control plane schedules placements, the row of one says what the rows of its objects say, if it has any.
    let with_objects = plan.placements.iter().filter(|row| row.policy.as_ref() != Some(&row.object));
    let with_objects: HashSet<&ObjectRef> = with_objects.filter_map(|row| row.policy.as_ref()).collect();
    let says_nothing = |row: &Placement| {
        !context.wide
            && row.unschedulable.is_none()
            && (context.is_policy)(&row.object)
            && with_objects.contains(&row.object)
    };
    let placements: Vec<&Placement> = plan.placements.iter().filter(|row| !says_nothing(row)).collect();
    let rows = build_rows(&placements, width.is_some() && !style.full);
    let columns = Columns::fit_width(&rows, width);
    let mut out = String::new();
    if !rows.is_empty() {
        let _ = writeln!(out, "{}", style.paint_bold(columns.format_head().trim_end()));
    }
    let wide = columns.places.unwrap_or(usize::MAX);
    let mut names = OncePerList::default();
    let lists = ClusterLists {
        inventory: if context.wide { &[] } else { context.clusters },
        full,
        max_lines: if full || width.is_none() { usize::MAX } else { MAX_LINES },
        // In a pipe, nothing is cut, and the names of an object are in its line.
        width: columns.places.unwrap_or(usize::MAX),
    };
    for row in &rows {
        let clusters = &row.placement.clusters;
        let names = names.get_or_compute(clusters, || lists.format_names(clusters));
        columns.write_row(&mut out, row, &lists.format_places(row.placement, names, wide, style));
    }
    let all_unmatched = full || width.is_none();
    write_unmatched(&mut out, plan, context, columns.object, TextStyle { full: all_unmatched, ..style });
    if !style.quiet {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(
            out,
            "{gap}{}",
            style.paint_bold(&(format_summary(plan, context) + &format_releases(plan)))
        );
    }
    out
}

/// One `KIND[.GROUP]/[NAMESPACE/]NAME` per line, as `federate explain` reads it.
pub fn format_names(plan: &Plan) -> String {
    let mut objects: Vec<&ObjectRef> = plan.placements.iter().map(|row| &row.object).collect();
    objects.extend(&plan.unmatched);
    objects.sort_unstable();
    objects.dedup();
    objects.iter().map(|object| format_name(object) + "\n").collect()
}

/// An object as `federate explain` reads it.
pub fn format_name(object: &ObjectRef) -> String {
    let group = if object.group().is_empty() { String::new() } else { format!(".{}", object.group()) };
    let namespace = object.namespace.as_ref().map(|name| format!("{name}/")).unwrap_or_default();
    format!("{}{group}/{namespace}{}", object.kind.to_lowercase(), object.name)
}

/// The objects that no policy places.
fn write_unmatched(
    out: &mut String,
    plan: &Plan,
    context: PlanContext<'_>,
    min_width: usize,
    style: TextStyle,
) {
    let is_short = plan.unmatched.len() <= MAX_UNMATCHED + 1;
    let most = if style.full || is_short { usize::MAX } else { MAX_UNMATCHED };
    let width = plan.unmatched.iter().take(most).map(|id| id.to_string().chars().count()).max().unwrap_or(0);
    let width = width.max(min_width);
    for id in plan.unmatched.iter().take(most) {
        let follows = (context.follows_nowhere)(id);
        let words = if follows { "follows an object that is on no cluster" } else { "no policy matches" };
        let words = style.paint_text(AnsiColor::Yellow, words);
        let _ = writeln!(out, "{:width$}  {words}", id.to_string());
    }
    if let Some(more) = plan.unmatched.len().checked_sub(most).filter(|more| *more > 0) {
        let _ = writeln!(out, "… and {more} more that no policy matches (-v shows all)");
    }
}

/// The releases whose rules decided.
fn format_releases(plan: &Plan) -> String {
    let all: Vec<String> = plan.versions.iter().map(|(name, release)| format!("{name} {release}")).collect();
    if all.is_empty() { String::new() } else { format!(", by the rules of {}", all.join(", ")) }
}

/// A summary: how many objects are placed, and how many are not.
fn format_summary(plan: &Plan, context: PlanContext<'_>) -> String {
    let objects: Vec<&Placement> =
        plan.placements.iter().filter(|row| !(context.is_policy)(&row.object)).collect();
    let placed = objects.iter().filter(|p| !p.clusters.is_empty()).count();
    let following = plan.unmatched.iter().filter(|id| (context.follows_nowhere)(id)).count();
    let unschedulable = plan.placements.iter().filter(|p| p.unschedulable.is_some()).count() + following;
    let mut sums = OncePerList::default();
    let replicas: i64 = objects
        .iter()
        .filter_map(|p| *sums.get_or_compute(&p.clusters, || p.clusters.total_replicas()))
        .sum();
    format!(
        "{}, {}: {placed} placed with {}, {unschedulable} unschedulable, {} unmatched",
        format_count(objects.len() + plan.unmatched.len(), "object"),
        format_count(context.clusters.len(), "cluster"),
        format_count(usize::try_from(replicas).unwrap_or(0), "replica"),
        plan.unmatched.len() - following
    )
}

/// What follows from a list of clusters, computed once for all rows that share the list.
struct OncePerList<T>(HashMap<usize, T>);

impl<T> Default for OncePerList<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> OncePerList<T> {
    /// The plan keeps its lists, so that their addresses stay different.
    fn get_or_compute(&mut self, clusters: &PlacedClusters, compute: impl FnOnce() -> T) -> &T {
        // Empty lists have no address of their own, but all mean the same.
        let address = if clusters.is_empty() { 0 } else { clusters.as_ptr().addr() };
        self.0.entry(address).or_insert_with(compute)
    }
}

/// A row of the table: one object, or several that are placed alike.
struct Row<'p> {
    placement: &'p Placement,
    object: String,
    policy: String,
    replicas: String,
}

/// The rows. Where they are `folded`, long runs of objects of one kind that one policy places in the same way become
/// one row.
fn build_rows<'p>(placements: &[&'p Placement], folded: bool) -> Vec<Row<'p>> {
    let mut rows = Vec::new();
    let mut sums = OncePerList::default();
    for run in placements.chunk_by(|a, b| are_placed_alike(a, b)) {
        let shown = if folded && run.len() > MAX_EQUAL_ROWS + 1 { MAX_EQUAL_ROWS } else { run.len() };
        for (at, placement) in run.iter().take(shown + 1).enumerate() {
            let object = if at < shown {
                placement.object.to_string()
            } else {
                format!("… {} more {}s placed alike", run.len() - shown, placement.object.kind)
            };
            let replicas = *sums.get_or_compute(&placement.clusters, || placement.clusters.total_replicas());
            rows.push(build_row(placement, object, replicas));
        }
    }
    rows
}

/// Whether the rows of two objects differ only in their names.
fn are_placed_alike(a: &Placement, b: &Placement) -> bool {
    (&a.object.kind, &a.object.namespace, &a.policy, &a.clusters, &a.unschedulable, &a.suspended)
        == (&b.object.kind, &b.object.namespace, &b.policy, &b.clusters, &b.unschedulable, &b.suspended)
        && a.required_by == b.required_by
        && a.has_destination == b.has_destination
}

fn build_row(placement: &Placement, object: String, replicas: Option<i64>) -> Row<'_> {
    let policy = match (&placement.policy, placement.required_by.first()) {
        (Some(policy), _) => policy.to_string(),
        (None, Some(by)) => match placement.required_by.len() {
            1 => format!("follows {by}"),
            n => format!("follows {by} and {} more", n - 1),
        },
        (None, None) if placement.has_destination => "(its source)".to_owned(),
        (None, None) => "(every cluster)".to_owned(),
    };
    let replicas = replicas.map_or("-".to_owned(), |r| r.to_string());
    Row { placement, object, policy, replicas }
}

/// The widths of the columns.
struct Columns {
    object: usize,
    /// 0 if the column is left out.
    policy: usize,
    /// 0 if no object has replicas.
    replicas: usize,
    /// The width of the column of clusters; `None` if it is not limited.
    places: Option<usize>,
}

impl Columns {
    fn fit_width(rows: &[Row<'_>], width: Option<usize>) -> Self {
        let object = rows.iter().map(|row| row.object.chars().count()).max().unwrap_or(0);
        let policy = rows.iter().map(|row| row.policy.chars().count()).max().unwrap_or(0);
        let replicas = rows.iter().map(|row| row.replicas.len()).max().unwrap_or(0);
        let counts = rows.iter().any(|row| row.replicas != "-");
        let mut columns = Self {
            object: object.max("OBJECT".len()),
            policy: policy.max("POLICY".len()),
            replicas: if counts { replicas.max("REPLICAS".len()) } else { 0 },
            places: None,
        };
        let Some(width) = width else { return columns };
        // A few long names get lines of their own, so that they do not take the place of the other columns.
        if columns.min_width() > width {
            let limit = columns.object_limit(width);
            let fitting = rows.iter().filter(|row| row.object.chars().count() <= limit).count();
            if fitting * 10 < rows.len() * 8 {
                columns.policy = 0;
            }
        }
        if columns.min_width() > width {
            let limit = columns.object_limit(width).max(width / 4);
            let names = rows.iter().map(|row| row.object.chars().count()).filter(|length| *length <= limit);
            columns.object = names.max().unwrap_or(0).max("OBJECT".len());
        }
        columns.places = Some(width.saturating_sub(columns.left_width()).max(MIN_CLUSTERS_WIDTH));
        columns
    }

    /// The columns before the clusters, with the space after each.
    fn left_width(&self) -> usize {
        [self.object, self.policy, self.replicas]
            .iter()
            .filter(|width| **width > 0)
            .map(|width| width + 2)
            .sum()
    }

    /// The smallest width of a table with these columns.
    fn min_width(&self) -> usize {
        self.left_width() + MIN_CLUSTERS_WIDTH
    }

    /// The width that a table of `width` leaves for the column of objects.
    fn object_limit(&self, width: usize) -> usize {
        width.saturating_sub(self.min_width() - self.object)
    }

    fn format_line(&self, object: &str, policy: &str, replicas: &str) -> String {
        let mut line = format!("{object:width$}  ", width = self.object);
        if self.policy > 0 {
            let _ = write!(line, "{policy:width$}  ", width = self.policy);
        }
        if self.replicas > 0 {
            let _ = write!(line, "{replicas:>width$}  ", width = self.replicas);
        }
        line
    }

    fn format_head(&self) -> String {
        self.format_line("OBJECT", "POLICY", "REPLICAS") + "CLUSTERS"
    }

    fn write_row(&self, out: &mut String, row: &Row<'_>, places: &[String]) {
        let mut name = row.object.as_str();
        if name.chars().count() > self.object {
            let _ = writeln!(out, "{name}");
            name = "";
        }
        let line = self.format_line(name, &row.policy, &row.replicas);
        let mut places = places.iter();
        let _ = writeln!(out, "{}", (line + places.next().map_or("", String::as_str)).trim_end());
        for place in places {
            let _ = writeln!(out, "{:indent$}{place}", "", indent = self.left_width());
        }
    }
}

/// How the column of clusters lists them.
struct ClusterLists<'c> {
    /// All clusters; empty if their names are listed even for an object that is on all of them.
    inventory: &'c [&'c str],
    /// Whether to list the names even where others are missing.
    full: bool,
    width: usize,
    max_lines: usize,
}

impl ClusterLists<'_> {
    /// Cluster names with replicas, then the number of the others. If all clusters have the same replicas, their number is
    /// enough; if nearly all, the names of the others.
    fn format_names(&self, clusters: &[Placed]) -> Vec<String> {
        let first = clusters.first().and_then(|c| c.replicas);
        let same = clusters.len() > 1 && clusters.iter().all(|c| c.replicas == first);
        if !same {
            let words: Vec<String> = clusters.iter().map(format_placed).collect();
            return self.fold("", &words);
        }
        let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_ref()).collect();
        let each = |all: &str| match first {
            Some(replicas) => format!("{}{all} × {replicas}", clusters.len()),
            None => format!("{}{all}", clusters.len()),
        };
        let inventory = self.inventory.len();
        let is_all = || names.iter().collect::<HashSet<_>>() == self.inventory.iter().collect();
        if clusters.len() == inventory && is_all() {
            return vec![format!("all {}", each(""))];
        }
        match find_missing(&names, self.inventory).filter(|_| !self.full) {
            Some(missing) => self.fold(&format!("{}: not ", each(&format!(" of {inventory}"))), &missing),
            None => self.fold(&format!("{}: ", each("")), &names),
        }
    }

    fn fold(&self, head: &str, names: &[impl AsRef<str>]) -> Vec<String> {
        NameList { names, separator: " ", width: self.width, max_lines: self.max_lines }.fold(head)
    }

    /// The lines in the column of clusters, whose names are in `names`.
    fn format_places(
        &self,
        placement: &Placement,
        names: &[String],
        wide: usize,
        style: TextStyle,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(unschedulable) = &placement.unschedulable {
            let words = format!("{}: {}", unschedulable.reason, unschedulable.message);
            lines.extend(
                wrap_text(&words, wide).into_iter().map(|line| style.paint_text(AnsiColor::Red, &line)),
            );
            if !placement.clusters.is_empty() {
                lines.push("kept from the previous plan:".to_owned());
            }
        }
        if placement.clusters.is_empty() {
            if lines.is_empty() {
                lines.push("nowhere".to_owned());
            }
            return lines;
        }
        lines.extend(names.iter().cloned());
        if !placement.suspended.is_empty() {
            let suspended = self.fold("suspended: ", &placement.suspended);
            lines.extend(suspended.into_iter().map(|line| style.paint_text(AnsiColor::Yellow, &line)));
        }
        lines
    }
}

/// `eu-1`, or `eu-1:3` with its replicas.
fn format_placed(cluster: &Placed) -> String {
    match cluster.replicas {
        Some(replicas) => format!("{}:{replicas}", cluster.name),
        None => cluster.name.to_string(),
    }
}

fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let word_width = word.chars().count();
        if used > 0 && used + 1 + word_width > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += word_width;
        }
    }
    lines
}
