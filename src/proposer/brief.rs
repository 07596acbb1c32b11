//! What a proposer is given: where it works, what the campaign knows, what went wrong last. `prompt.md` says it for
//! reading, `context.json` for programs; both are in the round's folder and are written anew for each attempt.
//!
//! Nothing secret goes in: the seeds that a refusal may quote are taken out of its words.

use std::sync::LazyLock;

use camino::Utf8Path;
use kopt_schema::campaign::event::Refused;
use kopt_schema::campaign::{Category, Target};
use kopt_schema::evidence::Estimate;
use kopt_schema::exit::Exit;
use regex::Regex;
use serde::Serialize;

use super::prompt;
use crate::error::{Error, Result};
use crate::replacement::Replacement;

/// What a program or a person is asked to read first.
pub const PROMPT: &str = "prompt.md";
/// The same and more, as JSON.
pub const CONTEXT: &str = "context.json";

/// One request for one change.
#[derive(Debug, Clone, Copy)]
pub struct Brief<'a> {
    /// What the campaign is after.
    pub target: &'a Target,
    /// The round.
    pub round: u32,
    /// 1 for the first; more after refusals.
    pub attempt: u32,
    /// The version that stands: a commit, or a tree where nothing is committed.
    pub incumbent: &'a str,
    /// The workspace's root inside the campaign's worktree.
    pub workspace: &'a Utf8Path,
    /// The kernel's crate in it.
    pub crate_folder: &'a Utf8Path,
    /// `.kopt/campaigns/<campaign>/rounds/round-<N>`, which exists.
    pub round_folder: &'a Utf8Path,
    /// `source` of every proposal of this proposer's in the campaign so far.
    pub used: &'a [String],
    /// The last attempt of this round.
    pub failure: Option<&'a Refused>,
    /// What the campaign knows.
    pub dossier: &'a Dossier,
}

/// What the campaign knows, as far as a proposer may.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Dossier {
    /// Every shape, then and now.
    pub shapes: Vec<ShapeStanding>,
    /// The gain of the version that stands over the baseline.
    pub gain: Option<Estimate>,
    /// The round that it comes from; none where nothing was accepted.
    pub last_accepted: Option<LastAccepted>,
    /// Every round so far, the baseline left out.
    pub rounds: Vec<PastRound>,
    /// Rollbacks in a row.
    pub rollbacks: u32,
    /// What this proposal must take into account, by the number of rollbacks in a row, in words.
    pub rung: String,
    /// So many rollbacks in a row that the direction must change.
    pub stagnation: bool,
    /// The directions, those to try first in front.
    pub directions: Vec<DirectionStanding>,
    /// What is known to help, and what is known not to.
    pub tips: Vec<Tip>,
    /// The last change that was rolled back.
    pub last_rollback: Option<LastRollback>,
    /// What a profile of the version that stands says.
    pub profile: Option<String>,
    /// The instructions of the version that stands.
    pub disassembly: Option<String>,
    /// What the device can do at most, in words.
    pub ceilings: Option<String>,
    /// The compiler and its version.
    pub compiler: String,
    /// What it is called with.
    pub flags: Vec<String>,
    /// What may change, relative to the crate.
    pub allowed: Vec<String>,
    /// Seconds that the campaign has left.
    pub time_left_s: f64,
    /// US dollars that it has left, where they are limited.
    pub cost_left_usd: Option<f64>,
}

/// One shape, then and now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShapeStanding {
    /// Its name.
    pub shape: String,
    /// Seconds a call of the baseline.
    pub baseline_s: f64,
    /// Seconds a call of the version that stands.
    pub current_s: f64,
    /// From one to the other.
    pub gain: f64,
    /// Share of the device's measured ceiling that the version that stands reaches, where that is known.
    pub ceiling_share: Option<f64>,
}

/// The round that the version that stands comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastAccepted {
    /// The round.
    pub round: u32,
    /// What it changed.
    pub title: String,
    /// Its gain over the version before.
    pub gain: Estimate,
}

/// A round that is over.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PastRound {
    /// The round.
    pub round: u32,
    /// What it changed.
    pub title: String,
    /// Why that should have been faster.
    pub hypothesis: String,
    /// The direction it belonged to.
    pub category: Option<Category>,
    /// `ACCEPTED`, `ROLLED BACK` and so on.
    pub status: String,
    /// Its gain over the version that stood, where it was measured.
    pub gain: Option<Estimate>,
    /// Why it was rolled back.
    pub reason: Option<String>,
}

/// What became of a direction so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionStanding {
    /// The direction.
    pub category: Category,
    /// Rounds that took it.
    pub tried: u32,
    /// Those that were accepted.
    pub accepted: u32,
    /// `untried`, `promising`, `exhausted` and the like.
    pub momentum: String,
}

/// Something that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tip {
    /// Its heading.
    pub title: String,
    /// What to do.
    pub takeaway: String,
    /// `technique`, `anti-pattern` and the like.
    pub kind: String,
}

/// The last change that was rolled back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastRollback {
    /// The round.
    pub round: u32,
    /// The change as a diff.
    pub diff: Option<String>,
    /// What each shape took with it.
    pub shapes: Vec<ShapeChange>,
}

/// One shape before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShapeChange {
    /// Its name.
    pub shape: String,
    /// Seconds a call before.
    pub before_s: f64,
    /// And after.
    pub after_s: f64,
    /// From one to the other, where that was estimated.
    pub gain: Option<Estimate>,
}

/// `context.json`.
#[derive(Serialize)]
struct Whole<'a> {
    format: u32,
    round: u32,
    attempt: u32,
    incumbent: &'a str,
    workspace: &'a Utf8Path,
    crate_folder: &'a Utf8Path,
    round_folder: &'a Utf8Path,
    answer_within_s: f64,
    used: &'a [String],
    failure: Option<Refused>,
    target: &'a Target,
    #[serde(flatten)]
    dossier: &'a Dossier,
}

impl Brief<'_> {
    /// Writes [`PROMPT`] and [`CONTEXT`] into the round's folder, in place of those of an earlier attempt. `limit_s` is
    /// what the proposer has.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, limit_s: f64) -> Result<()> {
        let failure =
            self.failure.map(|refused| Refused { message: without_seeds(&refused.message), ..refused.clone() });
        let whole = Whole {
            format: kopt_schema::FORMAT_VERSION,
            round: self.round,
            attempt: self.attempt,
            incumbent: self.incumbent,
            workspace: self.workspace,
            crate_folder: self.crate_folder,
            round_folder: self.round_folder,
            answer_within_s: limit_s,
            used: self.used,
            failure: failure.clone(),
            target: self.target,
            dossier: self.dossier,
        };
        let mut json = serde_json::to_string_pretty(&whole)
            .map_err(|error| Error::new(Exit::Internal, format!("cannot write {CONTEXT}")).because(&error))?;
        json.push('\n');
        replace(self.round_folder, CONTEXT, &json)?;
        replace(self.round_folder, PROMPT, &prompt::text(self, failure.as_ref(), limit_s))
    }
}

/// By renaming: what an earlier attempt left there, a link perhaps, is not written through.
fn replace(folder: &Utf8Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    Replacement::private(&path)
        .write(text.as_bytes())
        .map_err(|error| Error::new(Exit::Output, format!("cannot write `{path}`")).because(&error))
}

/// A failed check names the seed that it failed with, so that a person can repeat it; a proposer must not know any.
pub fn without_seeds(text: &str) -> String {
    #[expect(clippy::unwrap_used, reason = "a constant, and a test compiles it")]
    static SEED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)(seeds?)[ :=]+(0x)?[0-9a-f]{8,}\b").unwrap());
    SEED.replace_all(text, "$1 (withheld)").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_that_a_check_failed_with_is_withheld_and_the_rest_is_not() {
        let told = "seed 00ab34cd00ab34cd: y[3] is 0.5, not 0.25\nSEED=0xdeadbeef1 again; seeded rows: 12345678";
        assert_eq!(
            without_seeds(told),
            "seed (withheld): y[3] is 0.5, not 0.25\nSEED (withheld) again; seeded rows: 12345678"
        );
    }
}
