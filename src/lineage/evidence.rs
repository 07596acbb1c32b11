//! Files that belong to a campaign and not to the code: evidence, summaries, tips. They have a history of their own
//! under one reference; a clone that fetches it can verify what was accepted.

use camino::{Utf8Component, Utf8Path};
use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Repository, Sort};
use kopt_schema::exit::Exit;

use super::references::{self, ROOT, blob, failed, name, swap, target};
use super::{Lineage, survey};
use crate::error::{Error, Result};

/// Times that a write is tried while another process writes, too.
const TRIES: usize = 8;

impl Lineage {
    /// Adds or replaces files, and returns the commit that has them. Nothing is committed where nothing changes.
    ///
    /// # Errors
    /// When a path is not a plain relative one, or the repository cannot be written.
    pub fn store(&self, files: &[(String, Vec<u8>)], message: &str) -> Result<String> {
        let broken = "cannot store the campaign's files";
        let mut update = TreeUpdateBuilder::new();
        for (path, bytes) in files {
            let parts = || Utf8Path::new(path).components();
            let plain = parts().all(|part| matches!(part, Utf8Component::Normal(part) if part != ".git"));
            if !plain || parts().next().is_none() {
                return Err(Error::new(
                    Exit::Internal,
                    format!("`{path}` cannot be stored: not a plain relative path"),
                ));
            }
            update.upsert(path.as_str(), self.repository.blob(bytes).map_err(failed(broken))?, FileMode::Blob);
        }
        let reference = self.reference("evidence");
        for _ in 0..TRIES {
            let standing = target(&self.repository, &reference)?;
            let parent = standing.map(|id| self.commit(&id.to_string())).transpose()?;
            let before = match &parent {
                Some(parent) => parent.tree(),
                None => self.empty_tree(),
            }
            .map_err(failed(broken))?;
            let tree = match files.is_empty() {
                true => before.id(),
                false => update.create_updated(&self.repository, &before).map_err(failed(broken))?,
            };
            if let Some(parent) = parent.as_ref().filter(|_| tree == before.id()) {
                return Ok(parent.id().to_string());
            }
            let tree = self.repository.find_tree(tree).map_err(failed(broken))?;
            let who = references::tool()?;
            let parents: Vec<_> = parent.iter().collect();
            let commit = self.repository.commit(None, &who, &who, message, &tree, &parents).map_err(failed(broken))?;
            if swap(&self.repository, &reference, commit, standing, "kopt: stored").map_err(failed(broken))? {
                return Ok(commit.to_string());
            }
        }
        Err(Error::new(Exit::Locked, format!("`{reference}` is written by another process, again and again"))
            .hint("is the same campaign running twice?"))
    }

    /// The bytes of a stored file.
    ///
    /// # Errors
    /// When objects are missing.
    pub fn stored(&self, path: &str) -> Result<Option<Vec<u8>>> {
        read(&self.repository, &self.campaign, path)
    }

    fn empty_tree(&self) -> Result<git2::Tree<'_>, git2::Error> {
        self.repository.find_tree(self.repository.treebuilder(None)?.write()?)
    }
}

/// The bytes of a file that a campaign stored, in the repository around `workspace`.
///
/// # Errors
/// When there is no repository, or objects are missing.
pub fn evidence_of(workspace: &Utf8Path, campaign: &str, path: &str) -> Result<Option<Vec<u8>>> {
    references::check_names(campaign, None)?;
    read(&survey::around(workspace)?.repository, campaign, path)
}

/// The campaign that accepted or tried a commit, by the references in the repository around `workspace`.
///
/// # Errors
/// When there is no repository or no such commit.
pub fn campaign_of(workspace: &Utf8Path, commit: &str) -> Result<Option<String>> {
    let repository = survey::around(workspace)?.repository;
    let unknown = |error| failed(format!("there is no commit `{commit}`"))(error).hint("`git fetch` may get it");
    let wanted = repository.revparse_single(commit).and_then(|found| found.peel_to_commit()).map_err(unknown)?.id();
    let listed = repository.references_glob(&format!("{ROOT}*")).map_err(failed("cannot list the references"))?;
    let mut accepted = Vec::new();
    for reference in listed.flatten() {
        let Some((campaign, what)) = reference.name().ok().and_then(|name| name.strip_prefix(ROOT)?.split_once('/'))
        else {
            continue;
        };
        match what {
            "accepted" => accepted.push((campaign.to_owned(), reference.target())),
            _ if what.starts_with("round-") && reference.target() == Some(wanted) => {
                return Ok(Some(campaign.to_owned()));
            }
            _ => {}
        }
    }
    for (campaign, tip) in accepted {
        // What came before the base belongs to others.
        let (Some(tip), Some(base)) = (tip, target(&repository, &name(&campaign, "base"))?) else { continue };
        let walked = || {
            let mut walk = repository.revwalk()?;
            walk.set_sorting(Sort::TOPOLOGICAL)?;
            walk.push(tip)?;
            walk.hide(base)?;
            walk.simplify_first_parent()?;
            for id in walk {
                if id? == wanted {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if walked().map_err(failed(format!("cannot read the history of `{campaign}`")))? {
            return Ok(Some(campaign));
        }
    }
    Ok(None)
}

fn read(repository: &Repository, campaign: &str, path: &str) -> Result<Option<Vec<u8>>> {
    let reference = name(campaign, "evidence");
    let Some(id) = target(repository, &reference)? else { return Ok(None) };
    let tree = repository.find_commit(id).and_then(|commit| commit.tree());
    let tree = tree.map_err(failed(format!("cannot read `{reference}`")))?;
    blob(repository, &tree, Utf8Path::new(path))
}
