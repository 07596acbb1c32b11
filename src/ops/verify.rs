//! `verify`: a commit of a campaign is not believed but measured again: its evidence is judged anew, the round and its parent
//! are rebuilt, and the referee compares them once more.

use camino::Utf8PathBuf;
use kopt_schema::evidence::Ruling;
use kopt_schema::exit::Exit;

use super::compare;
use crate::campaign::folder::digest;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::gate;
use crate::lineage;
use crate::records;
use crate::referee::{evidence, record};
use crate::revision::Revisions;
use crate::shell::{GOOD, Shell};
use crate::workspace::Workspace;

/// What to verify.
#[derive(Debug, Clone)]
pub struct Request {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// The commit.
    pub commit: String,
    /// Only the evidence is judged again.
    pub evidence_only: bool,
    /// Seconds that measuring may take.
    pub max_time_s: f64,
}

/// Verifies a commit.
///
/// # Errors
/// When it is no commit of a campaign, or its evidence is missing or was changed.
pub fn verify(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let workspace = Workspace::find(context, request.manifest_path.as_deref())?;
    let own = workspace.target.join("kopt");
    let revisions = Revisions::around(&workspace.root, &own.join("revisions"))?;
    let revision = revisions.resolve(&request.commit)?;
    let shown = revision.shown();
    let message = revisions.message(&revision)?;
    let trailers = records::trailers(&message).ok_or_else(|| {
        Error::setup(format!("{shown} is no accepted round of a campaign: it has no Kopt trailers"))
            .hint("`cargo kopt compare BASE HEAD` compares any two commits")
    })?;
    let path = format!("round-{}/evidence.json", trailers.round);
    let bytes = lineage::evidence_of(&workspace.root, &trailers.campaign, &path)?.ok_or_else(|| {
        Error::setup(format!("the evidence of {shown} is not in this repository"))
            .hint("it lies under refs/kopt: `git fetch origin 'refs/kopt/*:refs/kopt/*'`")
    })?;
    if digest(&bytes) != trailers.evidence {
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
    if !matches!(found.verdict.ruling, Ruling::Accepted | Ruling::AcceptedTradeOff) {
        wrong.push("its round was not accepted".to_owned());
    }
    if !wrong.is_empty() {
        return Err(
            Error::new(Exit::Integrity, format!("the evidence of {shown} contradicts itself")).cause(wrong.join("; "))
        );
    }
    shell.status(
        "Evidence",
        GOOD,
        &format!("of {shown}: round {} of {}; its verdict follows from its data", trailers.round, trailers.campaign),
    );
    if request.evidence_only {
        return Ok(Exit::Ok);
    }
    let again = compare::Request {
        manifest_path: request.manifest_path.clone(),
        package: Some(found.kernel.clone()),
        base: format!("{}^", revision.commit),
        head: Some(revision.commit.clone()),
        shapes: found
            .arrangement
            .iter()
            .flat_map(|arrangement| arrangement.cases.iter().map(|case| case.name.clone()))
            .collect(),
        quick: false,
        policy: found.terms.policy.clone(),
        min_gain: Some(found.terms.min_gain),
        max_time_s: request.max_time_s,
        seed: None,
        evidence: None,
    };
    compare::compare(context, shell, &again)
}
