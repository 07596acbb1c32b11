//! What is decided: pairs of versions of which the truth is known.

use camino::Utf8Path;
use kopt_schema::bout::Handicap;
use kopt_schema::evidence::Injection;
use kopt_schema::queue::{MachineTruth, PatchTruth, Truth};

use super::queue::Failure;
use super::worth;

/// The two versions of a decision.
#[derive(Debug, Clone)]
pub enum Versions {
    /// The crate with its whole queue against itself.
    Tip,
    /// A patch against the state it changes.
    Patch {
        /// The patch's file name.
        patch: String,
        /// What identifies both states: a queue is rewritten now and then.
        change: String,
        /// What it is worth on each machine that it was measured on, by the machine's name.
        truths: Vec<(String, PatchTruth)>,
    },
}

/// What is injected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Injected {
    /// Nothing.
    Nothing,
    /// A gain of this share on every shape: the incumbent is slowed.
    Gain(f64),
    /// A gain of 10 % on every shape but one, which loses 5 %.
    LossInOne,
}

/// A kind of decision.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What is asked.
    pub kind: &'static str,
    /// The kernel crate.
    pub package: String,
    /// Its shapes; all if empty.
    pub shapes: Vec<String>,
    /// The versions.
    pub versions: Versions,
    /// What is injected.
    pub injected: Injected,
    /// Decisions wanted.
    pub goal: usize,
}

/// Shapes below a millisecond of the crates that A/A and injected gains are decided on.
const SHORT: [(&str, [&str; 4]); 3] = [
    ("rmsnorm-cpu", ["1x8192", "64x1024", "512x768", "100x1000"]),
    ("softmax-cpu", ["1x32000", "64x1024", "512x512", "100x1000"]),
    ("matmul-cpu", ["1x1024x1024", "64x256x256", "128x128x128", "100x300x200"]),
];

/// The crates that equal code and a gain are decided on where there is a GPU, on all of their shapes, and how often each.
const GPU: [(&str, usize, usize); 3] =
    [("softmax-cuda", 110, 40), ("rmsnorm-cuda", 60, 20), ("cross-entropy-cuda", 60, 20)];

/// The crate with eight shapes.
const EIGHT: &str = "grouped-matmul-cpu";

impl Scenario {
    /// Whether it can be decided on this `machine`, or is asked for by name. A patch can be where its worth was measured.
    pub fn is_wanted(&self, only: Option<&str>, machine: &str) -> bool {
        let gpu = std::path::Path::new("/dev/nvidiactl").exists();
        let by_name = only.is_some_and(|part| part.contains(&self.package));
        let known = match &self.versions {
            Versions::Tip => true,
            Versions::Patch { truths, .. } => truths.iter().any(|(device, _)| device == machine),
        };
        known
            && only.is_none_or(|part| self.name().contains(part))
            && (self.package.ends_with("-cpu") || gpu || by_name)
    }

    /// Its name in rows.
    pub fn name(&self) -> String {
        match &self.versions {
            Versions::Tip => format!("{} {}", self.kind, self.package),
            Versions::Patch { patch, .. } => format!("{} {} {}", self.kind, self.package, patch),
        }
    }

    /// What to inject; which shape loses is drawn.
    pub fn injected(&self) -> Result<Vec<Injection>, Failure> {
        let slowed = |contestant, case, share| Injection { contestant, handicap: Handicap { case, share } };
        Ok(match self.injected {
            Injected::Nothing => Vec::new(),
            Injected::Gain(share) => vec![slowed(0, None, share)],
            Injected::LossInOne => {
                let loser = getrandom::u64()? as usize % self.shapes.len();
                let one = |(index, shape): (usize, &String)| {
                    let case = Some(shape.clone());
                    if index == loser { slowed(1, case, 0.05) } else { slowed(0, case, 0.10) }
                };
                self.shapes.iter().enumerate().map(one).collect()
            }
        })
    }
}

/// Every scenario.
pub fn all(root: &Utf8Path) -> Result<Vec<Scenario>, Failure> {
    let mut scenarios = Vec::new();
    for (package, shapes) in SHORT {
        let one = |kind, injected, goal| Scenario {
            kind,
            package: package.to_owned(),
            shapes: shapes.map(str::to_owned).to_vec(),
            versions: Versions::Tip,
            injected,
            goal,
        };
        scenarios.push(one("aa", Injected::Nothing, 110));
        scenarios.push(one("gain-2", Injected::Gain(0.02), 40));
        scenarios.push(one("gain-5", Injected::Gain(0.05), 40));
    }
    for (package, equal, gains) in GPU {
        for (kind, injected, goal) in [("aa", Injected::Nothing, equal), ("gain-2", Injected::Gain(0.02), gains)] {
            let (package, shapes, versions) = (package.to_owned(), Vec::new(), Versions::Tip);
            scenarios.push(Scenario { kind, package, shapes, versions, injected, goal });
        }
    }
    let (_, manifest) = super::queue::example(root, EIGHT)?;
    scenarios.push(Scenario {
        kind: "loss-in-one",
        package: EIGHT.to_owned(),
        shapes: manifest.shapes.iter().map(|shape| shape.name.clone()).collect(),
        versions: Versions::Tip,
        injected: Injected::LossInOne,
        goal: 80,
    });
    for package in ["rmsnorm-cpu", "softmax-cpu", "matmul-cpu", EIGHT] {
        let machines = worth::truths(root, package)?;
        let queue = &machines.first().ok_or_else(|| format!("{package} has no truth"))?.patches;
        for (index, patch) in queue.iter().enumerate() {
            // Where a note says that the queue was another one, so was the patch.
            let of = |machine: &MachineTruth| {
                if machine.note.is_some() {
                    return None;
                }
                let own = machine.patches.iter().find(|own| own.patch == patch.patch)?;
                Some((machine.device.clone(), own.clone()))
            };
            let (truths, change) = (machines.iter().filter_map(of).collect(), change(root, package, &queue[..=index])?);
            scenarios.push(Scenario {
                kind: "queue",
                package: package.to_owned(),
                shapes: Vec::new(),
                versions: Versions::Patch { patch: patch.patch.clone(), change, truths },
                injected: Injected::Nothing,
                goal: 20,
            });
        }
    }
    Ok(scenarios)
}

/// A digest of the last of these patches and of all that it stands on.
fn change(root: &Utf8Path, package: &str, patches: &[PatchTruth]) -> Result<String, Failure> {
    let folder = root.join("example-kernels").join(package);
    let mut sources: Vec<_> = folder.join("kernels").read_dir_utf8()?.collect::<Result<_, _>>()?;
    sources.sort_by(|one, other| one.file_name().cmp(other.file_name()));
    let mut all = String::new();
    for source in sources {
        all.push_str(&std::fs::read_to_string(source.path())?);
    }
    for (index, patch) in patches.iter().enumerate() {
        if patch.truth == Truth::Helps || index + 1 == patches.len() {
            let text = std::fs::read_to_string(folder.join("patches").join(&patch.patch))?;
            // What its header says of it is not measured.
            all.push_str(text.find("diff --git").map_or(text.as_str(), |at| &text[at..]));
        }
    }
    Ok(git2::Oid::hash_object(git2::ObjectType::Blob, all.as_bytes())?.to_string()[..12].to_owned())
}
