//! Before an accept: both sides once more, from the files that git has, in a folder that is new, past every cache. An agent can
//! write to the folders that rounds are compiled in; what is committed must not rest on these.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::evidence::{Evidence, Side};
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Backend;

use super::stand::Stand;
use super::{Campaign, bug};
use crate::error::{Error, Result};
use crate::lineage::Lineage;
use crate::manifest::Kernel;
use crate::process;
use crate::referee::entrant::Entrant;
use crate::referee::trusted;
use crate::revision::{Revision, Revisions};
use crate::sanitizer::{self, Finding};
use crate::shell::Shell;

/// Begins the names of such places; the number of their process follows.
const PLACE: &str = ".anew-";

/// A place to compile versions in that is gone when it is dropped.
pub(super) struct Anew {
    _folder: tempfile::TempDir,
    path: Utf8PathBuf,
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
        sweep(&self.own);
        let prefix = format!("{PLACE}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.own).map_err(|error| {
            Error::new(Exit::Output, format!("cannot make a folder in `{}`", self.own)).because(&error)
        })?;
        let path = Utf8Path::from_path(folder.path()).unwrap_or(&self.own).to_owned();
        let base = Revision { name: "the campaign's base".to_owned(), commit: self.target.base.clone() };
        let files = Revisions::around(&self.root, &path.join("revisions"))?.export(&base)?;
        let (stand, candidates) = (path.join("stand"), path.join("candidates"));
        let (context, kernel) = (self.context, &self.target.kernel);
        let stand = Stand::make(context, self.audience.shell(), &files, kernel, &stand, &candidates)?;
        Ok(Anew { _folder: folder, path, stand })
    }

    /// Both sides must compile to what was measured: an incumbent that was made slower is as good as a candidate that was
    /// made faster.
    ///
    /// # Errors
    /// When one cannot be compiled, or another compiler is here now and makes other code: that is nobody's misdeed.
    pub(super) fn is_not_what_was_measured(
        &self,
        anew: &Anew,
        candidate: &str,
        found: &Evidence,
    ) -> Result<Option<String>> {
        let sides = [
            (self.journal.state().incumbent(), "the version that stands", &found.incumbent),
            (candidate, "the candidate", &found.candidate),
        ];
        for (commit, name, measured) in sides {
            let side = anew.stand.compile(&self.lineage, commit, name)?.side;
            if side.code != measured.code || side.audit != measured.audit {
                of_one_compiler(name, &side, measured)?;
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
        let scratch = anew.path.join("sanitizers");
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

/// Both were made by the same compiler, by the name that it gives itself.
fn of_one_compiler(name: &str, now: &Side, measured: &Side) -> Result<()> {
    if now.compiler == measured.compiler {
        return Ok(());
    }
    Err(Error::setup(format!("{name} is compiled by another compiler now than when it was measured"))
        .cause(format!("then {}, now {}", measured.compiler, now.compiler))
        .hint(
            "the campaign is paused: put that compiler back, and `cargo kopt resume`; or begin another one with this \
             compiler: `cargo kopt optimize --new`",
        ))
}

/// Removes what killed processes have left in `own`. What cannot be removed is left for the next one.
fn sweep(own: &Utf8Path) {
    for entry in own.read_dir_utf8().into_iter().flatten().flatten() {
        let Some(rest) = entry.file_name().strip_prefix(PLACE) else { continue };
        if rest.split('-').next().is_none_or(process::is_gone) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_a_killed_process_left_is_swept_and_what_another_one_works_in_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let own = Utf8Path::from_path(scratch.path()).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = child.id();
        child.wait().unwrap();
        let [left, used, others] =
            [format!("{PLACE}{gone}-a"), format!("{PLACE}{}-a", std::process::id()), "candidates".to_owned()]
                .map(|name| own.join(name));
        for path in [&left, &used, &others] {
            fs::create_dir_all(path.join("stand")).unwrap();
        }
        sweep(own);
        assert!(!left.exists() && used.exists() && others.exists());
    }

    #[test]
    fn other_code_of_another_compiler_is_told_and_of_the_same_one_is_judged() {
        let side = |compiler: &str| Side {
            revision: "1a2b".to_owned(),
            name: "the candidate".to_owned(),
            object: String::new(),
            code: String::new(),
            compiler: compiler.to_owned(),
            flags: Vec::new(),
            knobs: BTreeMap::new(),
            prepares: false,
            audit: None,
        };
        assert!(of_one_compiler("the candidate", &side("gcc 14"), &side("gcc 14")).is_ok());
        let error = of_one_compiler("the candidate", &side("gcc 15"), &side("gcc 14")).unwrap_err();
        assert_eq!((error.exit(), error.failure().causes), (Exit::Setup, vec!["then gcc 14, now gcc 15".to_owned()]));
    }
}
