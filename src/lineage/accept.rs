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
        self.check_stands(standing, parent.id())?;
        let commit = match target(&self.repository, &self.reference("accepted"))?.filter(is_it) {
            Some(made) => made,
            None => {
                let who = references::user(&self.repository)?;
                let tree = candidate.tree().map_err(failed("cannot read the candidate's files"))?;
                let made = self.repository.commit(None, &who, &who, message, &tree, &[&parent]);
                made.map_err(failed("cannot commit the accepted round"))?
            }
        };
        let why = format!("kopt: {}", message.lines().next().unwrap_or("accepted"));
        self.advance(parent.id(), commit, standing, &why)
    }

    /// Finishes an accept of this candidate on top of the incumbent that a killed process has begun, whatever its commit says,
    /// and returns that commit; none where none was begun. The reference is written only after a candidate was vetted.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn take_up(&self, candidate: &str, incumbent: &str) -> Result<Option<String>> {
        let (tree, parent) = (self.commit(candidate)?.tree_id(), self.commit(incumbent)?.id());
        let made = target(&self.repository, &self.reference("accepted"))?;
        let made = made.and_then(|id| self.repository.find_commit(id).ok());
        let Some(made) = made.filter(|made| made.tree_id() == tree && made.parent_ids().eq([parent])) else {
            return Ok(None);
        };
        if self.mode == ExecutionMode::InPlace {
            head::check_still_on(&self.repository, self.branch.as_deref())?;
        }
        let standing = self.tip_id()?;
        if standing == Some(made.id()) {
            return self.follow(made.id()).map(Some);
        }
        self.check_stands(standing, parent)?;
        self.advance(parent, made.id(), standing, "kopt: accepted").map(Some)
    }

    /// Refuses to go on where something else than `parent` stands.
    fn check_stands(&self, standing: Option<Oid>, parent: Oid) -> Result<()> {
        // Where nothing is committed, there is no reference before the first accept: the base stands.
        let stands = match &self.branch {
            None if standing.is_none() => Some(self.base),
            _ => standing,
        };
        if stands == Some(parent) { Ok(()) } else { Err(self.moved_error(parent)?) }
    }

    /// The branch goes from where it stands to the commit, and everything follows.
    fn advance(&self, parent: Oid, commit: Oid, standing: Option<Oid>, why: &str) -> Result<String> {
        if self.branch.is_some() {
            point(&self.repository, &self.reference("accepted"), commit, "kopt: accepted")?;
        }
        let moved = swap(&self.repository, &self.standing_reference(), commit, standing, why);
        if !moved.map_err(failed(format!("cannot move `{}`", self.standing_reference())))? {
            return Err(self.moved_error(parent)?);
        }
        self.follow(commit)
    }

    /// Takes back an accept that was begun and never written down: the branch stands at the incumbent again, and the commit
    /// is kept. Nothing happens where there is none.
    ///
    /// # Errors
    /// When a reference cannot be read or written.
    pub fn withdraw(&self, incumbent: &str) -> Result<()> {
        let incumbent = self.commit(incumbent)?.id();
        let accepted = self.reference("accepted");
        let Some(made) = target(&self.repository, &accepted)?.filter(|id| *id != incumbent) else { return Ok(()) };
        self.keep_commit(made)?;
        // Where the branch is elsewhere somebody else has moved it: that is seen to when the files are put back.
        let standing = self.standing_reference();
        swap(&self.repository, &standing, incumbent, Some(made), "kopt: withdrawn")
            .map_err(failed(format!("cannot move `{standing}`")))?;
        point(&self.repository, &accepted, incumbent, "kopt: withdrawn")
    }

    /// Files, index and HEAD agree with what was accepted.
    fn follow(&self, commit: Oid) -> Result<String> {
        let commit = commit.to_string();
        self.reset(&commit)?;
        Ok(commit)
    }
}
