//! `verify`: a commit of a campaign is not believed but measured again: its evidence is judged anew, the round and its parent
//! are rebuilt, and the referee compares them once more. With `--all`, every commit of the campaign.

use camino::Utf8PathBuf;
use kopt_schema::evidence::Evidence;
use kopt_schema::exit::Exit;

use super::compare;
use crate::campaign::folder::digest;
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
        return last.verify(context, shell, &workspace, request);
    }
    let rounds = last.and_before(&revisions)?;
    let mut ends = Vec::new();
    for round in &rounds {
        ends.push(match round.verify(context, shell, &workspace, request) {
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

    fn verify(&self, context: &Context, shell: &mut Shell, workspace: &Workspace, request: &Request) -> Result<Exit> {
        let found = self.evidence(workspace)?;
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
        match wrong.is_empty() {
            true => Ok(found),
            false => Err(Error::new(Exit::Integrity, format!("the evidence of {shown} contradicts itself"))
                .cause(wrong.join("; "))),
        }
    }
}
