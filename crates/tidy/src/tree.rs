//! The files of the repository: what git tracks, plus what it would track if added now.
//!
//! Without a usable git (an unpacked archive, a checkout owned by someone else) the directory is
//! walked instead, which finds the same files in a clean checkout.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Directories that are never part of the product. Only the walk needs them; git reads `.gitignore`.
const NOT_OURS: [&str; 5] = [".git", ".abide", "target", "node_modules", "__pycache__"];

/// The repository's files, by their path from its root.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    paths: BTreeSet<String>,
}

impl Tree {
    /// Lists the repository that this crate lies in.
    ///
    /// # Panics
    ///
    /// When the repository cannot be read, or holds no files at all: every rule over an empty tree
    /// would pass.
    #[must_use]
    pub fn open() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .expect("the crate lies two levels below the repository's root");
        let mut paths =
            git_files(&root).unwrap_or_else(|| walked_files(&root).expect("the repository can be read"));
        paths.retain(|path| root.join(path).is_file());
        assert!(paths.contains("Cargo.toml"), "no files found in {}", root.display());
        Self { root, paths }
    }

    /// The repository's root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every file, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// Whether `path` is a file, or a directory with files in it.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self.paths.range(inside.clone()..).next().is_some_and(|next| next.starts_with(&inside))
    }

    /// The text of one file; `None` if there is no such file or it is not text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// Path and text of the files whose path ends in `suffix`, those that are not text left out.
    pub fn texts<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, String)> {
        self.paths()
            .filter(move |path| path.ends_with(suffix))
            .filter_map(|path| Some((path, self.text(path)?)))
    }
}

fn git_files(root: &Path) -> Option<BTreeSet<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = String::from_utf8(listed.stdout).ok()?;
    Some(names.split_terminator('\0').map(str::to_owned).collect())
}

fn walked_files(root: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let ours = entry.file_name().to_str().is_some_and(|name| !NOT_OURS.contains(&name));
            if entry.file_type()?.is_dir() {
                open.extend(ours.then(|| entry.path()));
            } else if let Some(path) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) {
                found.insert(path.to_owned());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_holds_files_and_directories_but_no_leftovers() {
        let tree = Tree::open();
        assert!(tree.holds("crates/tidy/src/tree.rs"));
        assert!(tree.holds("crates/tidy"));
        assert!(!tree.holds("crates/tid"));
        assert!(!tree.holds("target"));
    }

    #[test]
    fn a_walk_finds_what_git_lists() {
        let tree = Tree::open();
        let walked = walked_files(tree.root()).expect("the repository can be read");
        let crate_files = |paths: &BTreeSet<String>| -> Vec<String> {
            paths.iter().filter(|path| path.starts_with("crates/tidy/")).cloned().collect()
        };
        assert_eq!(crate_files(&walked), crate_files(&tree.paths));
    }
}
