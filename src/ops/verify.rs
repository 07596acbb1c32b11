//! `verify`: a commit of a campaign is not believed but measured again: its evidence is judged anew, the round and its parent
//! are rebuilt, and the referee compares them once more. With `--all`, every commit of the campaign.

use camino::Utf8PathBuf;
use kopt_schema::evidence::Evidence;
use kopt_schema::exit::Exit;

use super::compare;
use crate::campaign::folder::{digest, read_target};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::gate;
use crate::lineage;
use crate::records::{self, Trailers};
use crate::referee::{evidence, record};
use crate::revision::{Revision, Revisions};
use crate::shell::{BAD, GOOD, Shell};
use crate::workspace::Workspace;

/// What to verify.
#[derive(Debug, Clone)]
pub struct Request {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// The commit.
    pub commit: String,
    /// The rounds of its campaign before it, too.
    pub all: bool,
    /// Only the evidence is judged again.
    pub evidence_only: bool,
    /// Seconds that measuring may take, for each.
    pub max_time_s: f64,
}

/// Verifies a commit, or all of its campaign.
///
/// # Errors
/// When it is no commit of a campaign, or its evidence is missing or was changed.
pub fn verify(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let workspace = Workspace::find(context, request.manifest_path.as_deref())?;
    let own = workspace.target.join("kopt");
    let revisions = Revisions::around(&workspace.root, &own.join("revisions"))?;
    let last = Round::of(&revisions, revisions.resolve(&request.commit)?)?;
    if !request.all {
        return last.verify(context, shell, &workspace, &revisions, request);
    }
    let rounds = last.and_before(&revisions)?;
    let mut ends = Vec::new();
    for round in &rounds {
        ends.push(match round.verify(context, shell, &workspace, &revisions, request) {
            // What is wrong with one says nothing of the others.
            Err(error) if error.exit() == Exit::Integrity => {
                shell.error(&error)?;
                Exit::Integrity
            }
            end => end?,
        });
    }
    let found = if request.evidence_only { "as their evidence says" } else { "found again" };
    let good = ends.iter().filter(|end| **end == Exit::Ok).count();
    let style = if good == rounds.len() { GOOD } else { BAD };
    shell.status("Verified", style, &format!("{good} of {} rounds {found}", rounds.len()));
    for (round, end) in rounds.iter().zip(&ends).filter(|(_, end)| **end != Exit::Ok) {
        shell.status(
            "Not",
            BAD,
            &format!("round {} ({}): {}", round.trailers.round, round.commit.shown(), end.meaning()),
        );
    }
    Ok(WORST_FIRST.into_iter().find(|exit| ends.contains(exit)).unwrap_or(Exit::Ok))
}

/// Files that are named where a commit has others than were measured.
const NAMED: usize = 5;

/// What several commits end with together.
const WORST_FIRST: [Exit; 5] =
    [Exit::Integrity, Exit::Incorrect, Exit::BuildFailed, Exit::Regressed, Exit::Inconclusive];

/// An accepted round, by its commit.
struct Round {
    commit: Revision,
    trailers: Trailers,
}

impl Round {
    fn of(revisions: &Revisions, commit: Revision) -> Result<Self> {
        match records::trailers(&revisions.message(&commit)?) {
            Some(trailers) => Ok(Self { commit, trailers }),
            None => {
                let shown = commit.shown();
                Err(Error::setup(format!("{shown} is no accepted round of a campaign: it has no Kopt trailers"))
                    .hint("`cargo kopt compare BASE HEAD` compares any two commits"))
            }
        }
    }

    /// It and those of its campaign that it stands on, the oldest first.
    fn and_before(self, revisions: &Revisions) -> Result<Vec<Self>> {
        let campaign = self.trailers.campaign.clone();
        let mut rounds = vec![self];
        while let Some(parent) = rounds.last().map(|last| revisions.parents(&last.commit)).transpose()?
            && let Some(commit) = parent.first().and_then(|id| revisions.known(id))
            && let Ok(round) = Self::of(revisions, commit)
            && round.trailers.campaign == campaign
        {
            rounds.push(round);
        }
        rounds.reverse();
        Ok(rounds)
    }

    fn verify(
        &self,
        context: &Context,
        shell: &mut Shell,
        workspace: &Workspace,
        revisions: &Revisions,
        request: &Request,
    ) -> Result<Exit> {
        let found = self.evidence(workspace)?;
        self.is_what_was_measured(revisions, &found)?;
        let told = format!("of {}: round {} of {}", self.commit.shown(), self.trailers.round, self.trailers.campaign);
        shell.status("Evidence", GOOD, &format!("{told}; its verdict follows from its data"));
        if request.evidence_only {
            return Ok(Exit::Ok);
        }
        let cases = found.arrangement.iter().flat_map(|arrangement| &arrangement.cases);
        let again = compare::Request {
            manifest_path: request.manifest_path.clone(),
            package: Some(found.kernel.clone()),
            base: format!("{}^", self.commit.commit),
            head: Some(self.commit.commit.clone()),
            shapes: cases.map(|case| case.name.clone()).collect(),
            // A round that was accepted with one that is not among them slower would be rolled back otherwise.
            core: found.terms.core.clone(),
            quick: false,
            policy: found.terms.policy.clone(),
            min_gain: Some(found.terms.min_gain),
            max_time_s: request.max_time_s,
            seed: None,
            evidence: None,
        };
        compare::compare(context, shell, &again)
    }

    /// The evidence that the commit names, and that bears out what it says.
    fn evidence(&self, workspace: &Workspace) -> Result<Evidence> {
        let shown = self.commit.shown();
        let path = format!("round-{}/evidence.json", self.trailers.round);
        let bytes = lineage::evidence_of(&workspace.root, &self.trailers.campaign, &path)?.ok_or_else(|| {
            Error::setup(format!("the evidence of {shown} is not in this repository"))
                .hint("it lies under refs/kopt: `git fetch origin 'refs/kopt/*:refs/kopt/*'`")
        })?;
        if digest(&bytes) != self.trailers.evidence {
            return Err(Error::new(
                Exit::Integrity,
                format!("the evidence of {shown} is not the one that its commit names"),
            ));
        }
        let found = evidence::read(&format!("the evidence of {shown}"), &bytes)?;
        let mut wrong = record::contradictions(&found);
        if gate::verdict(&found).ruling != found.verdict.ruling {
            wrong.push("its verdict does not follow from its data".to_owned());
        }
        if !found.verdict.ruling.is_accepted() {
            wrong.push("its round was not accepted".to_owned());
        }
        if !wrong.is_empty() {
            return Err(Error::new(Exit::Integrity, format!("the evidence of {shown} contradicts itself"))
                .cause(wrong.join("; ")));
        }
        // What the trailers are held against is recomputed: figures can be written into a file as into a message.
        let computed = Evidence { verdict: gate::verdict(&found), ..found.clone() };
        wrong = self.trailers.contradictions(&computed);
        let target = lineage::evidence_of(&workspace.root, &self.trailers.campaign, "manifest.toml")?;
        let target = target.and_then(|bytes| String::from_utf8(bytes).ok());
        if !found.injected.is_empty() || !found.without.is_empty() || !found.terms.trace {
            wrong.push("it is of a self-test or a shorter match, which accepts nothing".to_owned());
        }
        if let Some(target) = target.map(|text| read_target("the campaign's target", &text)).transpose()? {
            if target.kernel != found.kernel {
                wrong
                    .push(format!("its campaign is on `{}`, and the evidence is of `{}`", target.kernel, found.kernel));
            }
            if (&target.policy, target.min_gain) != (&found.terms.policy, found.terms.min_gain) {
                wrong.push("its campaign accepts by other terms".to_owned());
            }
        }
        match wrong.is_empty() {
            true => Ok(found),
            false => {
                Err(Error::new(Exit::Integrity, format!("{shown} says what its evidence does not"))
                    .cause(wrong.join("; ")))
            }
        }
    }

    /// The commit has the files that were measured, and stands on the version that they were measured against: trailers can be
    /// copied to any commit.
    fn is_what_was_measured(&self, revisions: &Revisions, found: &Evidence) -> Result<()> {
        let shown = self.commit.shown();
        let parents = revisions.parents(&self.commit)?;
        let [parent] = parents.as_slice() else {
            return Err(Error::new(Exit::Integrity, format!("{shown} is no commit of a campaign"))
                .cause(format!("it has {} parents; an accepted round has one", parents.len())));
        };
        let sides = [
            (parent, &found.incumbent, "the version that it stands on"),
            (&self.commit.commit, &found.candidate, "it"),
        ];
        for (commit, side, what) in sides {
            // A number names its files: then they need not be here.
            if *commit == side.revision {
                continue;
            }
            let known = (revisions.known(commit), revisions.known(&side.revision));
            let (Some(commit), Some(measured)) = known else {
                return Err(Error::new(Exit::Integrity, format!("the evidence of {shown} is not bound to the commit"))
                    .cause(format!("{what} cannot be compared with {}, which was measured", side.revision))
                    .hint("both must be here: `git fetch origin 'refs/kopt/*:refs/kopt/*'`, and all of the history"));
            };
            if !revisions.is_same_tree(&measured, &commit)? {
                let differs = revisions.changes(&measured, &commit)?;
                let named: Vec<String> = differs.iter().take(NAMED).map(|file| format!("`{}`", file.path())).collect();
                return Err(Error::new(Exit::Integrity, format!("the evidence of {shown} is of other files"))
                    .cause(format!(
                        "{what} differs from what was measured ({}): {}",
                        measured.shown(),
                        named.join(", ")
                    ))
                    .hint(format!("`cargo kopt compare {0}^ {0}` measures the commit as it is", self.commit.commit)));
            }
        }
        Ok(())
    }
}
