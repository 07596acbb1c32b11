//! Commits of somebody, in a repository of a test's own.

use git2::{IndexAddOption, Oid, Repository, Signature};

/// Whose they are.
pub fn somebody() -> Signature<'static> {
    Signature::now("Somebody", "somebody@example.org").unwrap()
}

/// The working tree as git would commit it.
pub fn tree(repository: &Repository) -> Oid {
    let mut index = repository.index().unwrap();
    index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
    index.update_all(["*"], None).unwrap();
    index.write().unwrap();
    index.write_tree().unwrap()
}

/// Commits it on top of HEAD.
pub fn commit(repository: &Repository, message: &str) -> String {
    let tree = repository.find_tree(tree(repository)).unwrap();
    let who = somebody();
    let parent = repository.head().ok().map(|head| head.peel_to_commit().unwrap());
    let parents: Vec<_> = parent.iter().collect();
    repository.commit(Some("HEAD"), &who, &who, message, &tree, &parents).unwrap().to_string()
}
