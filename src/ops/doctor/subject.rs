//! A kernel that something is measured with: its bench of the working tree is the judge, its code of the working tree
//! every contestant.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::evidence::{Evidence, Injection, Terms};
use kopt_schema::manifest::Backend;

use super::super::compare::report;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::Kernel;
use crate::process::Interrupts;
use crate::referee::entrant::{self, Entrant, Version};
use crate::referee::judge::Judge;
use crate::referee::seeds::Master;
use crate::referee::{Event, Limits, Match};
use crate::shell::Shell;

/// What evidence calls a version that is no commit.
const WORKING_TREE: &str = "working tree";

/// A kernel that can be measured.
pub struct Subject<'a> {
    /// The crate.
    pub kernel: &'a Kernel,
    context: &'a Context,
    executable: Utf8PathBuf,
    entrant: Entrant,
}

impl<'a> Subject<'a> {
    /// Compiles the kernels whose benches these are.
    pub fn compile(
        context: &'a Context,
        own: &Utf8Path,
        kernels: &'a [Kernel],
        executables: Vec<Utf8PathBuf>,
    ) -> Result<Vec<Self>> {
        let version = |kernel: &'a Kernel| Version {
            kernel,
            revision: WORKING_TREE.to_owned(),
            name: WORKING_TREE.to_owned(),
            shown: format!("{} of the {WORKING_TREE}", kernel.member.name),
        };
        let versions: Vec<Version<'_>> = kernels.iter().map(version).collect();
        let entrants = entrant::compile(&own.join("candidates"), &versions)?;
        let subject = |((kernel, executable), entrant)| Self { kernel, context, executable, entrant };
        Ok(kernels.iter().zip(executables).zip(entrants).map(subject).collect())
    }

    /// A match of the kernel against itself. An injected slowdown is the incumbent's, so that it reads as a gain.
    pub fn bout(&self, shapes: Vec<String>, terms: Terms, injected: Vec<Injection>) -> Result<Match<'_>> {
        Ok(Match {
            kernel: self.kernel,
            incumbent: &self.entrant,
            candidate: &self.entrant,
            shapes,
            left_out: Vec::new(),
            terms,
            seed: Master::secret()?,
            check: false,
            injected,
            without: Vec::new(),
            ceilings: None,
            even_if_identical: true,
            limits: Limits::default(),
        })
    }

    /// Whether it runs on the processor.
    pub fn is_on_processor(&self) -> bool {
        self.kernel.manifest.backend == Backend::Cpu
    }

    /// Starts its judge.
    pub fn judge<'b>(&self, interrupts: &'b Interrupts) -> Result<Judge<'b>> {
        Judge::start(self.context, interrupts, &self.executable, &self.kernel.member.folder)
    }

    /// Holds a match before its judge, with a bar that tells `what`.
    pub fn hold(&self, shell: &mut Shell, interrupts: &Interrupts, bout: &Match<'_>, what: &str) -> Result<Evidence> {
        shell.progress().start(what, None);
        let found = bout.hold(self.context, interrupts, &self.executable, &mut |event| {
            if let Event::Launched(progress) = event {
                shell.progress().length(progress.next_look.unwrap_or(progress.launches));
                let gain = progress.aggregate.map(|aggregate| report::gain(&aggregate));
                shell.progress().at(progress.launches, &gain.unwrap_or_default());
            }
            Ok(())
        });
        shell.progress().finish();
        let evidence = found?;
        match &evidence.forfeit {
            None => Ok(evidence),
            Some(forfeit) => Err(self.lost(&forfeit.message)),
        }
    }

    /// The kernel lost against itself: what is wrong is the kernel.
    pub fn lost(&self, why: &str) -> Error {
        let name = &self.kernel.member.name;
        Error::setup(format!("{name} cannot be measured"))
            .cause(why)
            .hint(format!("`cargo kopt check -p {name}` says more; -p measures with another kernel"))
    }

    /// How long its judge may take.
    pub fn limits(&self) -> (Duration, Duration) {
        let limits = Limits::default();
        (limits.open, limits.launch)
    }
}
