//! `--cluster NAME…`: several names after one option, without taking the REPO that follows them.

use std::ffi::OsString;
use std::path::Path;

/// Repeats `--cluster` before each further name, so that a parser that gives it one value reads them all. A
/// word that is a folder, or has a `/`, is not the name of a cluster.
pub(super) fn repeat_option(mut args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut names = None;
    for arg in args.by_ref() {
        if arg == "--" {
            out.push(arg);
            break;
        }
        names = match names {
            _ if arg == "--cluster" => Some(0),
            Some(0) => Some(1),
            Some(more) if is_name(&arg) => {
                out.push("--cluster".into());
                Some(more)
            }
            _ => None,
        };
        out.push(arg);
    }
    out.extend(args);
    out
}

fn is_name(arg: &OsString) -> bool {
    let text = arg.to_string_lossy();
    !text.starts_with('-') && !text.contains('/') && !Path::new(arg).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gets_the_option_and_the_repo_does_not() {
        for (line, expected) in [
            ("plan --cluster m1 m2 src", "plan --cluster m1 --cluster m2 src"),
            ("plan --cluster m1 .", "plan --cluster m1 ."),
            ("plan --cluster m1 m2 -q src", "plan --cluster m1 --cluster m2 -q src"),
            ("explain --cluster m1 deployment/web", "explain --cluster m1 deployment/web"),
            ("plan --cluster m1 -- m2", "plan --cluster m1 -- m2"),
            ("plan -- --cluster m1 m2", "plan -- --cluster m1 m2"),
        ] {
            let args = repeat_option(line.split(' ').map(OsString::from));
            assert_eq!(args, expected.split(' ').map(OsString::from).collect::<Vec<_>>());
        }
    }
}
