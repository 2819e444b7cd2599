//! `federate import --context`: reads objects from a cluster, selects those that can be imported, and writes
//! them into the repo.

use serde_json::{Value, json};

use crate::cli::diff::digest_key;
use crate::cli::import::args::LiveArgs;
use crate::cli::import::{ImportCommand, Show, add_changes};
use crate::cli::output::check_output;
use crate::cli::settings::{OutputFormat, exit_for_findings};
use crate::cli::{CommandError, Exit, print_notice, print_text, print_unchanged, print_value, use_color};
use federate_apiserver_model::ResourceKind;
use federate_dialect::import::Importer;
use federate_dialects::DIALECTS;
use federate_engine::any_error;
use federate_engine::import::live::{self, FileChange, ImportOptions, LiveImportResult};
use federate_kubernetes::{Cluster, Finding, Object, Severity};
use federate_live::Access;
use federate_live::import::{FetchedObjects, ImportScope, ImportSource, fetch_objects};
use federate_publish::file;
use federate_reconcile::import::{ImportSettings, check_import};
use federate_repo::Repo;
use federate_report::findings;
use federate_session::{Provenance, Session, SessionOptions};
use federate_source::WorkTree;
use federate_source::git::GitLocation;

impl ImportCommand {
    pub(in crate::cli) fn import_live(
        &self,
        context: &str,
        importer: &Importer,
    ) -> Result<Exit, CommandError> {
        let args = &self.live;
        let scopes = parse_scopes(&args.objects)?;
        args.validate_scopes(&scopes)?;
        let session = args.open_session()?;
        let mut found = Vec::new();
        let mut import = self.to_import_options();
        let names_clusters = importer.unnamed.is_none() && importer.everywhere.is_none();
        if names_clusters && import.clusters.is_empty() {
            match cluster_of(context, session.repo(), session.clusters()) {
                Some(cluster) => import.clusters.push(cluster),
                None => found.push(adopted_everywhere_finding(context)),
            }
        }
        let fetched = fetch_objects(&args.build_access(), &args.import_source(context), &scopes)
            .map_err(|error| CommandError::Failed(format!("{context}: {error}")))?;
        let objects = args.select_importable(context, fetched, &mut found);
        let options = ImportOptions { import, minimal: args.minimal, update: args.update };
        let mut taken = live::import_live(&objects, importer, &options, session.repo(), &|path: &str| {
            args.repo.join(path).symlink_metadata().is_ok()
        });
        found.append(&mut taken.findings);
        findings::sort_findings(&mut found);
        if !self.quiet || any_error(&found) {
            print_notice(&findings::format_text(
                session.repo(),
                &found,
                DIALECTS,
                use_color(&std::io::stderr()),
            ));
        }
        if any_error(&found) {
            print_notice("nothing was written because of these errors\n");
            return Ok(Exit::Error);
        }
        if taken.objects.is_empty() {
            print_notice("no objects to import\n");
        }
        if !args.dry_run && self.output != Some(Show::Yaml) {
            args.write_objects(&taken)?;
        }
        match self.output {
            Some(Show::Json) => print_value(&summarize_objects(&taken)?, OutputFormat::Json)?,
            None if !args.dry_run => print_text(&format_table(&taken))?,
            _ => print_unchanged(&format_documents(&taken)?)?,
        }
        if !taken.objects.is_empty() {
            self.print_note(importer);
        }
        Ok(exit_for_findings(&found))
    }
}

impl LiveArgs {
    fn validate_scopes(&self, scopes: &[ImportScope]) -> Result<(), CommandError> {
        let named = scopes.iter().any(|scopes| matches!(scopes, ImportScope::One { .. }));
        if named && self.selector.is_some() {
            return Err(CommandError::Failed("select objects by name or with -l, not both".to_owned()));
        }
        if named && self.all_namespaces {
            return Err(CommandError::Failed(
                "objects selected by name are in one namespace: leave out --all-namespaces".to_owned(),
            ));
        }
        Ok(())
    }

    /// Opens the repo with its inventory. Its findings are left to other commands.
    fn open_session(&self) -> Result<Session, CommandError> {
        let tree = WorkTree::open(&self.repo).map_err(|_| {
            CommandError::Failed(format!("--repo: {} is not a readable folder", self.repo.display()))
        })?;
        let read = self.selection.read_options(&self.repo, &tree, None)?;
        Ok(Session::open(&tree, SessionOptions::new(DIALECTS).with_read(read)))
    }

    fn build_access(&self) -> Access {
        Access {
            kubeconfig: self.kubeconfig.clone(),
            user: self.as_user.clone(),
            groups: self.as_groups.clone(),
            ..Access::default()
        }
    }

    fn import_source(&self, context: &str) -> ImportSource {
        ImportSource {
            context: context.to_owned(),
            namespace: self.namespace.clone(),
            everywhere: self.all_namespaces,
            selector: self.selector.clone(),
        }
    }

    /// The fetched objects that can be imported; adds a finding for each one that cannot.
    fn select_importable(
        &self,
        context: &str,
        fetched: FetchedObjects,
        found: &mut Vec<Finding>,
    ) -> Vec<(Object, ResourceKind)> {
        found.extend(fetched.absent.iter().map(|id| {
            let message = format!("{id} does not exist in the cluster");
            let finding = Finding::in_file(Severity::Error, "not-found", &context.into(), None, message);
            finding.with_help("federate looks in the namespace given with -n, or else in the context's")
        }));
        let repo = GitLocation::discover_around(&self.repo)
            .ok()
            .and_then(|place| Provenance::default().find_repo(&place));
        let paths = self.selection.paths_in(&self.repo);
        let repo = repo.map(|repo| repo.narrowed_to(&paths));
        let apply_set = self.apply_set.choose_applyset(repo.as_ref(), &paths);
        let rules = ImportSettings { force: self.force, apply_set: &apply_set, dialects: DIALECTS };
        let mut objects = Vec::new();
        for live in fetched.found {
            match check_import(&live.object, live.named, rules) {
                Ok(warning) => {
                    found.extend(warning);
                    objects.push((live.object, live.kind));
                }
                Err(left) => found.push(left),
            }
        }
        objects
    }

    fn write_objects(&self, taken: &LiveImportResult) -> Result<(), CommandError> {
        for (path, new) in &taken.files {
            let place = self.repo.join(path);
            if new.is_new {
                check_output(&place, &self.repo)?;
            }
            let written = if new.is_new {
                file::create_file(&place, &new.text)
            } else {
                file::replace_content(&place, &new.text)
            };
            written.map_err(|error| {
                CommandError::Failed(format!("cannot write {}: {error}", place.display()))
            })?;
        }
        Ok(())
    }
}

/// Parses `KINDS/NAME…`, or `KINDS` followed by names.
fn parse_scopes(objects: &[String]) -> Result<Vec<ImportScope>, CommandError> {
    let mut given: Vec<(&str, Option<&str>)> = Vec::new();
    match objects {
        [kinds] if !kinds.contains('/') => given.push((kinds, None)),
        [kinds, names @ ..] if objects.iter().all(|object| !object.contains('/')) => {
            given.extend(names.iter().map(|name| (kinds.as_str(), Some(name.as_str()))));
        }
        all => {
            for object in all {
                let Some((kinds, name)) = object.split_once('/') else {
                    return Err(CommandError::Failed(format!(
                        "`{object}` is not KIND/NAME, although other arguments are"
                    )));
                };
                given.push((kinds, Some(name)));
            }
        }
    }
    let mut scopes = Vec::new();
    for (kinds, name) in given {
        for kind in kinds.split(',').map(str::to_owned) {
            scopes.push(match name {
                Some(name) => ImportScope::One { kind, name: name.to_owned() },
                None => ImportScope::All { kind },
            });
        }
    }
    if scopes.iter().any(|scope| match scope {
        ImportScope::One { kind, name } => kind.is_empty() || name.is_empty() || name.contains('/'),
        ImportScope::All { kind } => kind.is_empty(),
    }) {
        return Err(CommandError::Failed(
            "write objects as KIND/NAME, such as deploy/web or deploy,svc/web".to_owned(),
        ));
    }
    Ok(scopes)
}

/// The inventory cluster that a context leads to.
fn cluster_of(context: &str, repo: &Repo, clusters: &[Cluster]) -> Option<String> {
    let contexts = &repo.config.contexts;
    clusters
        .iter()
        .map(|cluster| cluster.name.to_string())
        .find(|name| contexts.get(name).unwrap_or(name) == context)
}

fn adopted_everywhere_finding(context: &str) -> Finding {
    let message = format!(
        "no cluster in the repo's inventory uses the context `{context}`, so the objects will be adopted in \
         every cluster that runs them"
    );
    Finding {
        cause: None,
        severity: Severity::Warning,
        origin: None,
        pointer: String::new(),
        text_line: None,
        column: None,
        code: "adopted-everywhere",
        object: None,
        message,
        help: Some(
            "name the clusters with --cluster, or map the context under `contexts` in federate.yaml"
                .to_owned(),
        ),
    }
}

/// One line per written object.
fn format_table(taken: &LiveImportResult) -> String {
    let made = taken.objects.iter().flat_map(|object| &object.made);
    let rows: Vec<_> =
        made.map(|made| (made.change.display_name(), made.id.to_string(), &made.file)).collect();
    let width = rows.iter().map(|(_, id, _)| id.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(word, id, file)| format!("{word:9}  {id:width$}  {file}\n"));
    lines.fold(String::new(), |all, line| all + &line)
}

/// The objects in the form in which they are written, without values of Secrets.
fn format_documents(taken: &LiveImportResult) -> Result<String, CommandError> {
    let key = digest_key()?;
    let mut out = String::new();
    for made in taken.objects.iter().flat_map(|object| &object.made) {
        let mut body = made.body.clone();
        if federate_engine::change::hide_secret_values(&mut [&mut body], &key) {
            print_notice(&format!(
                "note: the values of {} are not shown; a written file contains them\n",
                made.id
            ));
        }
        let what = if made.change == FileChange::Created { "" } else { ", which already contains it" };
        out += &format!("---\n# {}{what}\n", made.file);
        federate_yaml::write_document(&body, &mut out);
    }
    Ok(out.strip_prefix("---\n").map(str::to_owned).unwrap_or(out))
}

/// The machine-readable summary.
fn summarize_objects(taken: &LiveImportResult) -> Result<Value, CommandError> {
    let key = digest_key()?;
    let objects: Vec<Value> = taken
        .objects
        .iter()
        .map(|taken| {
            let made = taken.made.iter().map(
                |made| json!({"object": made.id, "file": made.file, "action": made.change.display_name()}),
            );
            let mut row = json!({"object": taken.live, "written": made.collect::<Vec<_>>()});
            add_changes(&taken.edits, &mut row);
            federate_engine::change::hide_secret_values(&mut [&mut row], &key);
            row
        })
        .collect();
    Ok(
        json!({"apiVersion": federate_dialect::plan::API_VERSION, "kind": "ImportSummary", "objects": objects}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match parse_scopes(&words) {
            Ok(scopes) => scopes
                .iter()
                .map(|scopes| match scopes {
                    ImportScope::One { kind, name } => format!("{kind}/{name}"),
                    ImportScope::All { kind } => kind.clone(),
                })
                .collect::<Vec<_>>()
                .join(" "),
            Err(CommandError::Failed(message)) => message,
            Err(CommandError::BrokenPipe) => String::new(),
        }
    }

    #[test]
    fn objects_are_named_as_for_kubectl() {
        assert_eq!(shown("deploy/web svc/api"), "deploy/web svc/api");
        assert_eq!(shown("deploy,svc/web"), "deploy/web svc/web");
        assert_eq!(shown("deploy,svc"), "deploy svc");
        assert_eq!(shown("deploy,svc web api"), "deploy/web svc/web deploy/api svc/api");
        assert!(shown("deploy/web api").contains("`api` is not KIND/NAME"));
        for wrong in ["deploy/", "/web", "deploy,,svc", "deploy/a/b", ""] {
            assert!(shown(wrong).contains("write objects as KIND/NAME"), "{wrong}: {}", shown(wrong));
        }
    }
}
