//! An accepted round becomes a commit, and the branch moves to it.
//!
//! The order makes a kill harmless: the commit is written, then `refs/kopt/<campaign>/accepted`, then the branch moves by
//! compare-and-swap, then the files follow. Whatever was done is found and not done twice.

use git2::Oid;
use kopt_schema::campaign::target::ExecutionMode;
use kopt_schema::exit::Exit;

use super::references::{self, failed, point, swap, target};
use super::{Lineage, head};
use crate::error::{Error, Result};

impl Lineage {
    /// Commits the candidate's tree on top of the incumbent, moves the branch there if it still stands at the incumbent,
    /// and makes the files those of the new commit. Asked again, it returns the same commit.
    ///
    /// # Errors
    /// With [`Exit::Locked`] when somebody else has moved the branch.
    pub fn accept(&self, candidate: &str, incumbent: &str, message: &str) -> Result<String> {
        let candidate = self.commit(candidate)?;
        let parent = self.commit(incumbent)?;
        if !candidate.parent_ids().eq([parent.id()]) {
            return Err(Error::new(
                Exit::Internal,
                format!("{} is no candidate against {}", candidate.id(), parent.id()),
            )
            .hint("an accepted candidate was captured against the version that stands"));
        }
        if self.mode == ExecutionMode::InPlace {
            head::check_still_on(&self.repository, self.branch.as_deref())?;
        }
        let is_it = |id: &Oid| self.is_commit_of(*id, candidate.tree_id(), parent.id(), message);
        let standing = self.tip_id()?;
        if let Some(done) = standing.filter(is_it) {
            return self.follow(done);
        }
        // Where nothing is committed, there is no reference before the first accept: the base stands.
        let expected = match &self.branch {
            None if standing.is_none() => Some(self.base),
            _ => standing,
        };
        if expected != Some(parent.id()) {
            return Err(self.moved_error(parent.id())?);
        }
        let accepted = self.reference("accepted");
        let commit = match target(&self.repository, &accepted)?.filter(is_it) {
            Some(made) => made,
            None => {
                let who = references::user(&self.repository)?;
                let tree = candidate.tree().map_err(failed("cannot read the candidate's files"))?;
                let made = self.repository.commit(None, &who, &who, message, &tree, &[&parent]);
                made.map_err(failed("cannot commit the accepted round"))?
            }
        };
        if self.branch.is_some() {
            point(&self.repository, &accepted, commit, "kopt: accepted")?;
        }
        let why = format!("kopt: {}", message.lines().next().unwrap_or("accepted"));
        let moved = swap(&self.repository, &self.standing_reference(), commit, standing, &why);
        if !moved.map_err(failed(format!("cannot move `{}`", self.standing_reference())))? {
            return Err(self.moved_error(parent.id())?);
        }
        self.follow(commit)
    }

    /// Files, index and HEAD agree with what was accepted.
    fn follow(&self, commit: Oid) -> Result<String> {
        let commit = commit.to_string();
        self.reset(&commit)?;
        Ok(commit)
    }
}
