//! `compare`: two versions of a kernel, from git to a verdict with its evidence.
//!
//! | module | what |
//! |---|---|
//! | `sides` | the two versions: found, exported, their manifests read |
//! | `interface` | whether they can be called alike |
//! | `shapes` | which shapes are compared |
//! | `figures` | what is known of the machine, before and after |
//! | `live` | what is told while it goes on |
//! | `report` | what is told in the end; `verdict` tells the same |

pub(super) mod figures;
pub(super) mod interface;
pub(super) mod live;
pub(super) mod report;
pub(super) mod shapes;
pub(super) mod sides;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::evidence::{Evidence, Terms};
use kopt_schema::exit::Exit;
use kopt_schema::message::{Decision, Message};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::gate;
use crate::machine::Moment;
use crate::machine::figures::Store;
use crate::process::Interrupts;
use crate::referee::seeds::Master;
use crate::referee::trusted::Trusted;
use crate::referee::{Event, Limits, Match, entrant, evidence};
use crate::revision::Revisions;
use crate::shell::{GOOD, Shell, TOLD};
use crate::workspace::Workspace;
use live::Live;
use sides::{Sides, Which};

/// What to compare, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// The kernel crate; the one the user stands in if none is named.
    pub package: Option<String>,
    /// A revision: the version that stands.
    pub base: String,
    /// A revision; the working tree if none is named.
    pub head: Option<String>,
    /// Names of shapes; all that both versions have if none is named.
    pub shapes: Vec<String>,
    /// Names of shapes that may not lose; all if none is named.
    pub core: Vec<String>,
    /// Three shapes and fewer launches.
    pub quick: bool,
    /// The policy's name.
    pub policy: String,
    /// Least gain, instead of the policy's.
    pub min_gain: Option<f64>,
    /// Seconds that the match may take.
    pub max_time_s: f64,
    /// The seed to repeat, instead of a secret one.
    pub seed: Option<Master>,
    /// Where evidence goes, instead of a new file under the target folder.
    pub evidence: Option<Utf8PathBuf>,
}

impl Request {
    fn which(&self) -> Which {
        Which {
            manifest_path: self.manifest_path.clone(),
            package: self.package.clone(),
            base: self.base.clone(),
            head: self.head.clone(),
        }
    }

    fn terms(&self) -> Result<Terms> {
        let terms = gate::terms(&self.policy, self.min_gain, self.quick);
        let terms = terms.map_err(|wrong| Error::new(Exit::Usage, wrong))?;
        Ok(Terms { max_time_s: self.max_time_s, core: self.core.clone(), ..terms })
    }
}

/// Compares two versions of a kernel.
///
/// # Errors
/// When a version cannot be found, compiled or run. What comes of the comparison is an [`Exit`].
pub fn compare(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let terms = request.terms()?;
    let seed = request.seed.clone().map_or_else(Master::secret, Ok)?;
    let workspace = Workspace::find(context, request.manifest_path.as_deref())?;
    let own = workspace.target.join("kopt");
    let revisions = Revisions::around(&workspace.root, &own.join("revisions"))?;
    let sides = Sides::find(context, shell, &workspace, &revisions, &request.which())?;
    let path = evidence_path(context, request, &own, &sides.name)?;
    interface::agree(&sides)?;
    let (shapes, left_out) = shapes::common(&sides, &request.shapes, request.quick)?;
    shell.status("Comparing", GOOD, &sides.shown());
    let entrants = entrant::compile(&own.join("candidates"), &sides.versions())?;
    entrant::unconfined(&entrants).iter().for_each(|line| shell.warn(line));
    let [incumbent, candidate] = entrants.as_slice() else {
        return Err(Error::new(Exit::Internal, "two versions did not compile to two candidates"));
    };
    let mut store = Store::open(&own);
    let bout = Match {
        kernel: &sides.base.kernel,
        incumbent,
        candidate,
        shapes,
        left_out,
        terms,
        seed,
        check: true,
        injected: Vec::new(),
        without: Vec::new(),
        ceilings: Some(store.figures.ceilings.clone()),
        even_if_identical: false,
        limits: Limits::default(),
    };
    let found = match bout.at_once() {
        Some(found) => found,
        None => {
            figures::warn(shell, &store, &bout);
            let found = hold(context, shell, request, &workspace, &sides, &own, &bout)?;
            figures::keep(shell, &mut store, &found);
            found
        }
    };
    evidence::write(&path, &found)?;
    tell(context, shell, &found, &path)
}

/// Builds the judge and holds the match before it. Whose seed is to be repeated is held once, whatever comes of it.
fn hold(
    context: &Context,
    shell: &mut Shell,
    request: &Request,
    workspace: &Workspace,
    sides: &Sides,
    own: &Utf8Path,
    bout: &Match<'_>,
) -> Result<Evidence> {
    let trusted = Trusted::build(context, shell, &sides.export, &sides.name, own, &workspace.root)?;
    let interrupts = Interrupts::watch()?;
    let mut live = Live::new(shell, &sides.name);
    let told = &mut |event: Event<'_>| live.hear(&event);
    let found = match request.seed {
        Some(_) => bout.hold(context, &interrupts, &trusted.executable, told),
        None => bout.hold_twice_if_disturbed(context, &interrupts, &trusted.executable, told),
    };
    live.finish();
    found
}

/// Where the evidence will go. Looked at first: a comparison whose evidence cannot be kept is time lost.
fn evidence_path(context: &Context, request: &Request, own: &Utf8Path, kernel: &str) -> Result<Utf8PathBuf> {
    let path = match &request.evidence {
        Some(path) => context.absolute(path),
        None => evidence::fresh_name(&own.join("evidence"), kernel, Moment::now()),
    };
    evidence::has_room(&path)?;
    Ok(path)
}

fn tell(context: &Context, shell: &mut Shell, evidence: &Evidence, path: &Utf8Path) -> Result<Exit> {
    report::show(shell, evidence, &evidence.verdict);
    let shown = context.shown(path);
    shell.status("Evidence", TOLD, &format!("{shown} (`cargo kopt verdict` judges it again)"));
    shell.message(&Message::Verdict(decision(evidence, shown.as_str(), None)))?;
    Ok(evidence.verdict.ruling.exit())
}

/// What a program is told of evidence.
pub(super) fn decision(evidence: &Evidence, path: &str, differences: Option<Vec<String>>) -> Decision {
    Decision {
        kernel: evidence.kernel.clone(),
        incumbent: evidence.incumbent.revision.clone(),
        candidate: evidence.candidate.revision.clone(),
        verdict: evidence.verdict.clone(),
        evidence: path.to_owned(),
        differences,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_judged_by_the_core_shapes_that_are_named() {
        let request = Request {
            manifest_path: None,
            package: None,
            base: "HEAD^".to_owned(),
            head: None,
            shapes: Vec::new(),
            core: vec!["large".to_owned()],
            quick: false,
            policy: "default".to_owned(),
            min_gain: None,
            max_time_s: 60.0,
            seed: None,
            evidence: None,
        };
        assert_eq!(request.terms().unwrap().core, ["large"]);
    }
}
