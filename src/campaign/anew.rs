//! Before an accept: both sides once more, from the files that git has, in a folder that is new, past every cache. An agent can
//! write to the folders that rounds are compiled in; what is committed must not rest on these.

use kopt_build::scratch::{self, Scratch};
use kopt_schema::evidence::{Evidence, Side};
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Backend;

use super::stand::Stand;
use super::{Campaign, bug};
use crate::error::{Error, Result};
use crate::lineage::Lineage;
use crate::machine;
use crate::manifest::Kernel;
use crate::referee::entrant::Entrant;
use crate::referee::trusted;
use crate::revision::{Revision, Revisions};
use crate::sanitizer::{self, Finding};
use crate::shell::Shell;

/// Begins the names of such places.
const PLACE: &str = ".anew-";

/// Who has measured a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measurer {
    /// This process, a moment ago.
    ThisOne,
    /// One that has ended since; the compiler may be another one now.
    Another,
}

impl Measurer {
    /// The side that tells by which compiler and flags it measured. What is told of a measured one was read where an agent can
    /// write: what this process has measured was made as it would make it now, and being told otherwise is no excuse.
    const fn means<'a>(self, measured: &'a Side, now: &'a Side) -> &'a Side {
        match self {
            Self::ThisOne => now,
            Self::Another => measured,
        }
    }
}

/// A place to compile versions in that is gone when it is dropped.
pub(super) struct Anew {
    folder: Scratch,
    stand: Stand,
}

impl Anew {
    /// Two versions, compiled, and the crate with the second one laid out in it.
    pub(super) fn both(&self, lineage: &Lineage, [incumbent, candidate]: [&str; 2]) -> Result<(&Kernel, [Entrant; 2])> {
        let incumbent = self.stand.compile(lineage, incumbent, "the version that stands")?;
        let candidate_built = self.stand.compile(lineage, candidate, "the candidate")?;
        Ok((self.stand.kernel(lineage, candidate)?, [incumbent, candidate_built]))
    }
}

impl Campaign<'_> {
    pub(super) fn anew(&mut self) -> Result<Anew> {
        scratch::sweep(&self.own, PLACE);
        let folder = Scratch::new(&self.own, PLACE).map_err(|error| {
            Error::new(Exit::Output, format!("cannot make a folder in `{}`", self.own)).because(&error)
        })?;
        let path = folder.path();
        let base = Revision { name: "the campaign's base".to_owned(), commit: self.target.base.clone() };
        let files = Revisions::around(&self.root, &path.join("revisions"))?.export(&base)?;
        let (stand, candidates) = (path.join("stand"), path.join("candidates"));
        let (context, kernel) = (self.context, &self.target.kernel);
        let stand = Stand::make(context, self.audience.shell(), &files, kernel, &stand, &candidates)?;
        Ok(Anew { folder, stand })
    }

    /// Both sides must compile to what was measured: an incumbent that was made slower is as good as a candidate that was
    /// made faster.
    ///
    /// # Errors
    /// When one cannot be compiled, or it is made by other means now than when another process measured it, which make other code:
    /// that is nobody's misdeed.
    pub(super) fn is_not_what_was_measured(
        &self,
        anew: &Anew,
        candidate: &str,
        found: &Evidence,
        measurer: Measurer,
    ) -> Result<Option<String>> {
        let sides = [
            (self.journal.state().incumbent(), "the version that stands", &found.incumbent),
            (candidate, "the candidate", &found.candidate),
        ];
        for (commit, name, measured) in sides {
            let side = anew.stand.compile(&self.lineage, commit, name)?.side;
            if side.code != measured.code || side.audit != measured.audit {
                let here = machine::facts().processor;
                let now = Making { side: &side, tool: env!("CARGO_PKG_VERSION"), processor: &here };
                let by = measurer.means(measured, &side);
                let then = Making { side: by, tool: &found.tool, processor: &found.machine.processor };
                of_one_making(name, &now, &then)?;
                return Ok(Some(format!(
                    "compiled anew from git, {name} is other code than what was measured: compiled kernels, or the files \
                     they were compiled from, were changed"
                )));
            }
        }
        Ok(None)
    }

    /// Whether the crate's own `cargo test` fails of the version that stands, too: then it is the machine that fails.
    pub(super) fn fails_without_it(&mut self, anew: &Anew) -> Result<bool> {
        let files = anew.stand.files(&self.lineage, self.journal.state().incumbent())?;
        let shell = self.audience.shell();
        let tested = trusted::plain_test(self.context, shell, files, &self.target.kernel, &self.own, &self.root);
        Ok(tested.is_err())
    }

    /// What the sanitizers find in the candidate, and what the crate's own `cargo test` says of it. Nothing is timed:
    /// they run side by side, where they do not share a device that may keep trials waiting until they time out.
    pub(super) fn vetted(&mut self, anew: &Anew, candidate: &str) -> Result<(Option<String>, Result<()>)> {
        self.tools()?;
        let Some(tools) = self.tools.as_ref() else { return Ok((None, Ok(()))) };
        let kernel = anew.stand.kernel(&self.lineage, candidate)?;
        let (version, judge) = ((kernel.member.folder.as_path(), &kernel.manifest), tools.bouts.judge()?);
        let files = tools.stand.files(&self.lineage, candidate)?;
        let scratch = anew.folder.path().join("sanitizers");
        let (context, interrupts, shell) = (self.context, self.interrupts, self.audience.shell());
        let find = || sanitizer::run(context, interrupts, version, judge, &scratch);
        let test =
            |shell: &mut Shell| trusted::plain_test(context, shell, files, &self.target.kernel, &self.own, &self.root);
        let (found, tested) = if kernel.manifest.backend == Backend::Cpu {
            std::thread::scope(|scope| {
                let found = scope.spawn(find);
                let tested = test(shell);
                (found.join().unwrap_or_else(|_| Err(bug("the sanitizers' thread was lost"))), tested)
            })
        } else {
            // Another's measurement must not run beside it.
            let lock = trusted::lock(shell, &self.own)?;
            let found = find()?;
            drop(lock);
            (Ok(found), test(shell))
        };
        let found = match found? {
            Finding::Clean => None,
            Finding::Found(what) => Some(what),
            Finding::Unavailable(why) => {
                shell.warn(&format!("not run under the sanitizers: {why}"));
                None
            }
        };
        Ok((found, tested))
    }
}

/// What a version was made by: any of it can make other code of the same files.
#[derive(Debug, Clone, Copy)]
struct Making<'a> {
    /// Its compiler, by the name that it gives itself, and its flags.
    side: &'a Side,
    /// The version of the tool, which chooses flags and says what is code.
    tool: &'a str,
    /// Flags ask for what is best on this one.
    processor: &'a str,
}

impl Making<'_> {
    /// Its flags, but those that name a folder: that is the place it was compiled in.
    fn flags(&self) -> String {
        let flags: Vec<&str> = self.side.flags.iter().map(String::as_str).filter(|flag| !flag.contains('/')).collect();
        flags.join(" ")
    }
}

/// Both were made by the same means.
fn of_one_making(name: &str, now: &Making<'_>, then: &Making<'_>) -> Result<()> {
    let (now_flags, then_flags) = (now.flags(), then.flags());
    let means = [
        ("by another compiler", then.side.compiler.as_str(), now.side.compiler.as_str()),
        ("by another version of cargo kopt", then.tool, now.tool),
        ("for another processor", then.processor, now.processor),
        ("with other flags", then_flags.as_str(), now_flags.as_str()),
    ];
    let Some((how, before, here)) = means.into_iter().find(|(_, before, here)| before != here) else { return Ok(()) };
    Err(Error::setup(format!("{name} is compiled {how} now than when it was measured"))
        .cause(format!("then {before}, now {here}"))
        .hint(
            "the campaign is paused: put back what it was, and `cargo kopt resume`; or `cargo kopt stop` ends it without \
             this round, and `cargo kopt optimize --new` begins another one with what is here",
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn other_code_that_was_made_by_other_means_is_told_and_by_the_same_ones_is_judged() {
        let side = |compiler: &str, flags: &[&str]| Side {
            revision: "1a2b".to_owned(),
            name: "the candidate".to_owned(),
            object: String::new(),
            code: String::new(),
            compiler: compiler.to_owned(),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            knobs: BTreeMap::new(),
            prepares: false,
            audit: None,
        };
        let measured = side("gcc 14", &["-O3", "-I/srv/one/include"]);
        let then = Making { side: &measured, tool: "0.1.0", processor: "Some Core 9" };
        let elsewhere = side("gcc 14", &["-O3", "-I/srv/other/include"]);
        assert!(of_one_making("the candidate", &Making { side: &elsewhere, ..then }, &then).is_ok());
        let (compiler, flags) = (side("gcc 15", &["-O3"]), side("gcc 14", &["-O2"]));
        for (now, how, cause) in [
            (Making { side: &compiler, ..then }, "by another compiler", "then gcc 14, now gcc 15"),
            (Making { side: &flags, ..then }, "with other flags", "then -O3, now -O2"),
            (Making { tool: "0.2.0", ..then }, "by another version of cargo kopt", "then 0.1.0, now 0.2.0"),
            (
                Making { processor: "Some Core 10", ..then },
                "for another processor",
                "then Some Core 9, now Some Core 10",
            ),
        ] {
            let error = of_one_making("the candidate", &now, &then).unwrap_err();
            assert_eq!((error.exit(), error.failure().causes), (Exit::Setup, vec![cause.to_owned()]));
            assert_eq!(error.to_string(), format!("the candidate is compiled {how} now than when it was measured"));
            // Whatever is told of what this process has measured, its compiler and flags are the same.
            let is_excused = |measurer: Measurer| {
                let then = Making { side: measurer.means(then.side, now.side), ..then };
                of_one_making("the candidate", &now, &then).is_err()
            };
            let of_the_machine = now.tool != then.tool || now.processor != then.processor;
            assert_eq!([Measurer::Another, Measurer::ThisOne].map(is_excused), [true, of_the_machine]);
        }
    }
}
