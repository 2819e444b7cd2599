//! `federate import --context`: objects of a cluster, read, judged, taken in, and written into the repo.

use serde_json::{Value, json};

use super::args::LiveArgs;
use super::{Import, Show, changes};
use crate::cli::diff::digest_key;
use crate::cli::settings::{Format, outcome};
use crate::cli::{Exit, Fault, print, print_value, say, styled};
use federate_apiserver::Kind;
use federate_dialect::import::Importer;
use federate_engine::actions::import::{Rules, check};
use federate_engine::any_error;
use federate_engine::import::live::{self, FileChange, ImportOptions, Taken, TakenObject};
use federate_kubernetes::{Cluster, Finding, Object, Severity};
use federate_live::Access;
use federate_live::import::{Fetched, ImportScope, ImportSource, fetch};
use federate_publish::file;
use federate_repo::Repo;
use federate_report::findings;
use federate_session::{DIALECTS, Options, Provenance, Session};
use federate_source::WorkTree;
use federate_source::git::Place;

impl Import {
    pub(super) fn live(&self, context: &str, importer: &Importer) -> Result<Exit, Fault> {
        let args = &self.live;
        let asked = asked(&args.objects)?;
        args.fits(&asked)?;
        let session = args.session()?;
        let mut told = Vec::new();
        let mut import = self.options();
        if importer.unnamed.is_none() && import.clusters.is_empty() {
            match cluster_of(context, session.repo(), session.clusters()) {
                Some(cluster) => import.clusters.push(cluster),
                None => told.push(nowhere(context)),
            }
        }
        let fetched = fetch(&args.access(), &args.place(context), &asked)
            .map_err(|error| Fault::Failed(format!("{context}: {error}")))?;
        let objects = args.judged(context, fetched, &mut told);
        let options = ImportOptions { import, minimal: args.minimal, update: args.update };
        let exists = |path: &str| args.repo.join(path).symlink_metadata().is_ok();
        let mut taken = live::take(&objects, importer, &options, session.repo(), &exists);
        told.append(&mut taken.findings);
        findings::sort(&mut told);
        if !self.quiet || any_error(&told) {
            say(&findings::text(session.repo(), &told, DIALECTS, styled(&std::io::stderr())));
        }
        if any_error(&told) {
            say("nothing was written, because of these errors\n");
            return Ok(Exit::Error);
        }
        if taken.objects.is_empty() {
            say("there is nothing to take in\n");
        }
        if !args.dry_run && self.output != Some(Show::Yaml) {
            args.write(&taken)?;
        }
        match self.output {
            Some(Show::Json) => print_value(&summary(&taken)?, Format::Json)?,
            None if !args.dry_run => print(&table(&taken))?,
            _ => print(&text(&taken)?)?,
        }
        if !taken.objects.is_empty() {
            self.note(importer);
        }
        Ok(outcome(&told))
    }
}

impl LiveArgs {
    fn fits(&self, asked: &[ImportScope]) -> Result<(), Fault> {
        let named = asked.iter().any(|asked| matches!(asked, ImportScope::One { .. }));
        if named && self.selector.is_some() {
            return Err(Fault::Failed("objects are chosen by name or by -l, not by both".to_owned()));
        }
        if named && self.all_namespaces {
            return Err(Fault::Failed("a name is one of a namespace: leave out --all-namespaces".to_owned()));
        }
        Ok(())
    }

    /// The repo with its inventory. What is wrong in it is for other commands to tell.
    fn session(&self) -> Result<Session, Fault> {
        let tree = WorkTree::open(&self.repo).map_err(|_| {
            Fault::Failed(format!("--repo: {} is no folder that can be read", self.repo.display()))
        })?;
        Ok(Session::open(&tree, Options::default()))
    }

    fn access(&self) -> Access {
        Access {
            kubeconfig: self.kubeconfig.clone(),
            user: self.as_user.clone(),
            groups: self.as_groups.clone(),
            ..Access::default()
        }
    }

    fn place(&self, context: &str) -> ImportSource {
        ImportSource {
            context: context.to_owned(),
            namespace: self.namespace.clone(),
            everywhere: self.all_namespaces,
            selector: self.selector.clone(),
        }
    }

    /// What is to be taken in of what was found.
    fn judged(&self, context: &str, fetched: Fetched, told: &mut Vec<Finding>) -> Vec<(Object, Kind)> {
        told.extend(fetched.absent.iter().map(|id| {
            let message = format!("{id} is not there");
            let finding = Finding::in_file(Severity::Error, "not-found", &context.into(), None, message);
            finding.help("the namespace is that of -n, or else of the context")
        }));
        let repo = Place::of(&self.repo).ok().and_then(|place| Provenance::default().repo(&place));
        let inventory = self.inventory.inventory(repo.as_ref());
        let rules = Rules { force: self.force, inventory: &inventory, dialects: DIALECTS };
        let mut objects = Vec::new();
        for found in fetched.found {
            match check(&found.object, found.named, rules) {
                Ok(warning) => {
                    told.extend(warning);
                    objects.push((found.object, found.kind));
                }
                Err(left) => told.push(left),
            }
        }
        objects
    }

    fn write(&self, taken: &Taken) -> Result<(), Fault> {
        for (path, new) in &taken.files {
            let place = self.repo.join(path);
            let written =
                if new.is_new { file::create(&place, &new.text) } else { file::replace(&place, &new.text) };
            written.map_err(|error| Fault::Failed(format!("cannot write {}: {error}", place.display())))?;
        }
        Ok(())
    }
}

/// What is asked for: `KINDS/NAME…`, or `KINDS` and then names.
fn asked(objects: &[String]) -> Result<Vec<ImportScope>, Fault> {
    let mut asked = Vec::new();
    let mut add = |kinds: &str, name: Option<&str>| {
        for kind in kinds.split(',') {
            let kind = kind.to_owned();
            asked.push(match name {
                Some(name) => ImportScope::One { kind, name: name.to_owned() },
                None => ImportScope::All { kind },
            });
        }
    };
    match objects {
        [kinds] if !kinds.contains('/') => add(kinds, None),
        [kinds, names @ ..] if objects.iter().all(|object| !object.contains('/')) => {
            for name in names {
                add(kinds, Some(name));
            }
        }
        all => {
            for object in all {
                let Some((kinds, name)) = object.split_once('/') else {
                    return Err(Fault::Failed(format!("`{object}` is no KIND/NAME, as the others are")));
                };
                add(kinds, Some(name));
            }
        }
    }
    let empty = |asked: &ImportScope| match asked {
        ImportScope::One { kind, name } => kind.is_empty() || name.is_empty() || name.contains('/'),
        ImportScope::All { kind } => kind.is_empty(),
    };
    if asked.iter().any(empty) {
        return Err(Fault::Failed(
            "write objects as KIND/NAME, such as deploy/web or deploy,svc/web".to_owned(),
        ));
    }
    Ok(asked)
}

/// The cluster of the inventory that a context leads to.
fn cluster_of(context: &str, repo: &Repo, clusters: &[Cluster]) -> Option<String> {
    let leads = |name: &str| repo.config.contexts.get(name).map_or(name, String::as_str) == context;
    clusters.iter().map(|cluster| cluster.name.to_string()).find(|name| leads(name))
}

fn nowhere(context: &str) -> Finding {
    let message = format!(
        "no cluster of the repo's inventory is reached by the context `{context}`, so the objects are adopted in \
         every cluster that has them"
    );
    Finding {
        severity: Severity::Warning,
        origin: None,
        pointer: String::new(),
        text_line: None,
        column: None,
        code: "adopted-everywhere",
        object: None,
        message,
        help: Some(
            "name the clusters with --cluster, or the context below `contexts` in federate.yaml".to_owned(),
        ),
    }
}

/// A line for each object.
fn table(taken: &Taken) -> String {
    let made = taken.objects.iter().flat_map(|object| &object.made);
    let rows: Vec<_> = made.map(|made| (made.change.word(), made.id.to_string(), &made.file)).collect();
    let width = rows.iter().map(|(_, id, _)| id.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(word, id, file)| format!("{word:9}  {id:width$}  {file}\n"));
    lines.fold(String::new(), |all, line| all + &line)
}

/// The objects as they are or would be written, without values of Secrets.
fn text(taken: &Taken) -> Result<String, Fault> {
    let key = digest_key()?;
    let mut out = String::new();
    for made in taken.objects.iter().flat_map(|object| &object.made) {
        let mut body = made.body.clone();
        if federate_engine::change::hide(&mut [&mut body], &key) {
            say(&format!("note: the values of {} are not shown; a file has them\n", made.id));
        }
        let what = if made.change == FileChange::Created { "" } else { ", which has it already" };
        out += &format!("---\n# {}{what}\n", made.file);
        federate_yaml::write(&body, &mut out);
    }
    Ok(out.strip_prefix("---\n").map(str::to_owned).unwrap_or(out))
}

/// What was done, for machines.
fn summary(taken: &Taken) -> Result<Value, Fault> {
    let key = digest_key()?;
    let row = |taken: &TakenObject| {
        let made = taken
            .made
            .iter()
            .map(|made| json!({"object": made.id, "file": made.file, "action": made.change.word()}));
        let mut row = json!({"object": taken.live, "written": made.collect::<Vec<_>>()});
        changes(&taken.edits, &mut row);
        federate_engine::change::hide(&mut [&mut row], &key);
        row
    };
    let objects: Vec<Value> = taken.objects.iter().map(row).collect();
    Ok(
        json!({"apiVersion": federate_dialect::plan::API_VERSION, "kind": "ImportSummary", "objects": objects}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match asked(&words) {
            Ok(asked) => asked
                .iter()
                .map(|asked| match asked {
                    ImportScope::One { kind, name } => format!("{kind}/{name}"),
                    ImportScope::All { kind } => kind.clone(),
                })
                .collect::<Vec<_>>()
                .join(" "),
            Err(Fault::Failed(message)) => message,
            Err(Fault::BrokenPipe) => String::new(),
        }
    }

    #[test]
    fn objects_are_named_as_for_kubectl() {
        assert_eq!(shown("deploy/web svc/api"), "deploy/web svc/api");
        assert_eq!(shown("deploy,svc/web"), "deploy/web svc/web");
        assert_eq!(shown("deploy,svc"), "deploy svc");
        assert_eq!(shown("deploy,svc web api"), "deploy/web svc/web deploy/api svc/api");
        assert!(shown("deploy/web api").contains("`api` is no KIND/NAME"));
        for wrong in ["deploy/", "/web", "deploy,,svc", "deploy/a/b", ""] {
            assert!(shown(wrong).contains("write objects as KIND/NAME"), "{wrong}: {}", shown(wrong));
        }
    }
}
