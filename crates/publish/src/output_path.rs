//! Refuses output paths that a symbolic link of a checkout redirects.
//!
//! A checkout holds what the author of a commit put there, links included. If a link were followed on the way out, a pull
//! request could replace files elsewhere on the machine. Links outside of the checkout were made by its owner, and are
//! followed.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A symbolic link in a checkout, on the way to an output.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write to {}: {} is a symbolic link in the checkout, which may have come with a commit and lead anywhere; \
     remove the link, or choose a path without one", .path.display(), .link.display()
)]
pub struct LinkInCheckout {
    /// The output.
    pub path: PathBuf,
    /// The link.
    pub link: PathBuf,
}

/// Refuses a path with a component that is a symbolic link in one of the folders `checkouts`. The path need not exist.
pub fn check_output_path(path: &Path, checkouts: &[PathBuf]) -> Result<(), LinkInCheckout> {
    let checkouts: Vec<PathBuf> =
        checkouts.iter().filter_map(|folder| fs::canonicalize(folder).ok()).collect();
    let Ok(absolute) = std::path::absolute(path) else { return Ok(()) };
    // The path so far, without links.
    let mut resolved = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            component => {
                let is_inside = checkouts.iter().any(|checkout| resolved.starts_with(checkout));
                resolved.push(component);
                if !fs::symlink_metadata(&resolved).is_ok_and(|meta| meta.is_symlink()) {
                    continue;
                }
                if is_inside {
                    return Err(LinkInCheckout { path: path.to_owned(), link: resolved });
                }
                resolved = fs::canonicalize(&resolved).unwrap_or(resolved);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_links_in_the_checkout_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        fs::create_dir_all(at("checkout/a")).unwrap();
        fs::create_dir_all(at("elsewhere/x")).unwrap();
        symlink(at("checkout"), at("way-in")).unwrap();
        symlink(at("elsewhere"), at("outside")).unwrap();
        symlink("../elsewhere", at("checkout/out")).unwrap();
        symlink("a", at("checkout/inner")).unwrap();
        symlink("nowhere", at("checkout/dangling")).unwrap();
        let check = |path: &str| check_output_path(&at(path), &[at("checkout")]).map_err(|error| error.link);
        for path in [
            "checkout/a",
            "checkout/new/deep",
            "way-in/a/new",
            "outside/x",
            "elsewhere",
            "checkout/a/../../outside",
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
        let real = fs::canonicalize(at("checkout")).unwrap();
        for (path, link) in [
            ("checkout/out", "out"),
            ("checkout/out/x/deep", "out"),
            ("way-in/out", "out"),
            ("checkout/a/../out", "out"),
            ("checkout/inner/x", "inner"),
            ("checkout/dangling", "dangling"),
        ] {
            assert_eq!(check(path), Err(real.join(link)), "{path}");
        }
        assert!(check_output_path(&at("checkout/out"), &[at("elsewhere")]).is_ok());
    }
}
