//! The index: which reads it saves, and when it must not be used.

use super::*;

impl Sandbox {
    /// The index of `out`.
    fn index(&self) -> PathBuf {
        self.0.path().join(CACHE).join(crate::cache::file_name(
            fs::canonicalize(self.out()).unwrap().as_os_str().as_encoded_bytes(),
            "index",
        ))
    }

    /// How many files a run over an unchanged tree would read.
    fn reads(&self, tree: &OutputTree) -> usize {
        let folder = open(&self.out()).unwrap();
        let stored = StoredIndex::read_index(self.index());
        let index = FileIndex::new(&stored, tree);
        let owned = OwnedFiles::new(folder.previous.as_ref(), &index);
        let root = folder.root.as_ref().map(AsFd::as_fd);
        let compared = comparison::compare_tree(&self.out(), root, tree, &owned).unwrap();
        compared.all_namespaces().flat_map(|(_, part)| &part.files).filter(|file| file.read).count()
    }

    /// Renders again, late enough that the files are no longer too young.
    fn settle(&self, tree: &OutputTree) {
        thread::sleep(Duration::from_millis(50));
        self.publish(tree).unwrap();
    }
}

#[test]
fn an_unmodified_file_is_not_read_again() {
    let (sandbox, tree) = Sandbox::published();
    sandbox.settle(&tree);
    assert_eq!(sandbox.reads(&tree), 0);
    let newer = tree_with("x: 2\n");
    sandbox.publish(&newer).unwrap();
    sandbox.settle(&newer);
    assert_eq!(sandbox.reads(&newer), 0);
    assert_eq!(sandbox.reads(&two_clusters()), 1, "a file with another text is read");
}

#[test]
fn the_first_run_records_every_file() {
    let (sandbox, tree) = Sandbox::published();
    assert_eq!(sandbox.reads(&tree), 0);
}

fn tree_with(db: &str) -> OutputTree {
    tree(&[("m1 m2", "shop/web", "replicas: 1\n"), ("m1", "shop/db", db), ("m2", "infra/log", "y: 1\n")])
}

#[test]
fn an_edit_that_hides_itself_is_found() {
    let (sandbox, tree) = Sandbox::published();
    sandbox.settle(&tree);
    let path = sandbox.out().join("m1/shop/configmap_db.yaml");
    let before = fs::metadata(&path).unwrap();
    fs::write(&path, "x: 9\n").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(before.modified().unwrap()).unwrap();
    assert_eq!(before.len(), fs::metadata(&path).unwrap().len());
    assert_eq!(sandbox.publish(&tree).unwrap().to_string(), "1 updated, 3 unchanged in 2 clusters");
    sandbox.assert_holds(&tree);
}

#[test]
fn a_file_that_is_added_or_taken_away_is_found() {
    let (sandbox, tree) = Sandbox::published();
    sandbox.settle(&tree);
    fs::remove_file(sandbox.out().join("m1/shop/configmap_db.yaml")).unwrap();
    assert_eq!(sandbox.publish(&tree).unwrap().clusters[0].created, ["m1/shop/configmap_db.yaml"]);
    sandbox.settle(&tree);
    for path in ["m1/shop/mine.yaml", "m1/mine/a.yaml", "m1/mine.yaml", "mine/a.yaml", "mine.yaml"] {
        let path = sandbox.out().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        assert!(matches!(sandbox.publish(&tree), Err(Error::NotOwned { .. })), "{path:?}");
        fs::remove_file(&path).unwrap();
        let _ = fs::remove_dir(path.parent().unwrap());
    }
    assert!(sandbox.publish(&tree).unwrap().is_unchanged());
}

#[test]
fn an_edit_right_after_a_run_is_found() {
    let (sandbox, tree) = Sandbox::published();
    let path = sandbox.out().join("m1/shop/configmap_db.yaml");
    for round in 0..200 {
        fs::write(&path, format!("x: {}\n", 2 + round % 8)).unwrap();
        assert_eq!(sandbox.publish(&tree).unwrap().clusters[0].updated.len(), 1, "round {round}");
    }
}

#[test]
fn an_index_that_is_damaged_or_of_another_folder_is_not_believed() {
    let (sandbox, tree) = Sandbox::published();
    sandbox.settle(&tree);
    let path = sandbox.index();
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(sandbox.reads(&tree), 4, "a flipped bit at {at}");
        fs::write(&path, &whole[..at]).unwrap();
        assert_eq!(sandbox.reads(&tree), 4, "cut at {at}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(sandbox.reads(&tree), 0);

    let copy = sandbox.0.path().join("copy");
    fs::rename(sandbox.out(), &copy).unwrap();
    fs::create_dir_all(sandbox.out()).unwrap();
    publish(&sandbox.out(), &tree).unwrap();
    fs::write(&path, &whole).unwrap();
    assert_eq!(sandbox.reads(&tree), 4, "files of the same names, but others");
}

#[test]
fn an_index_that_cannot_be_written_or_is_a_link_does_no_harm() {
    let (sandbox, tree) = Sandbox::published();
    let cache = sandbox.0.path().join(CACHE);
    fs::remove_dir_all(&cache).unwrap();
    fs::write(&cache, "not a folder").unwrap();
    sandbox.settle(&tree);
    fs::remove_file(&cache).unwrap();
    fs::create_dir(&cache).unwrap();
    let victim = sandbox.0.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, sandbox.index()).unwrap();
    sandbox.settle(&tree);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}
