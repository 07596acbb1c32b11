//! `optimize`: a campaign, from the target to the report.
//!
//! | module | what |
//! |---|---|
//! | `confirm` | the target, shown, and the user's word for it |
//! | `live` | what is told while it goes on |

mod confirm;
pub(super) mod live;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::campaign::target::{ExecutionMode, Source};
use kopt_schema::exit::Exit;

use super::Target as Selected;
use crate::campaign::folder::Home;
use crate::campaign::opening::{self, Surroundings};
use crate::campaign::target::{self, Wishes};
use crate::campaign::{Campaign, Progress, journal};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::Phase;
use crate::lineage;
use crate::manifest::Kernel;
use crate::process::Interrupts;
use crate::referee::entrant;
use crate::shell::{GOOD, Shell, TOLD};
use crate::workspace::Workspace;
use crate::workspace::selection::Selection;
use live::Live;

/// What to optimize, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// The kernel crate; the one the user stands in if none is named.
    pub package: Option<String>,
    /// What the user says of the target.
    pub wishes: Wishes,
    /// A target file.
    pub target: Option<Utf8PathBuf>,
    /// Nobody is asked.
    pub yes: bool,
    /// The target is shown, and that is all.
    pub dry_run: bool,
    /// An unfinished campaign on the same kernel is left as it is.
    pub another: bool,
}

/// Runs a campaign.
///
/// # Errors
/// When it cannot be begun, or something goes wrong in it; it can be taken up again then.
pub fn optimize(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let (workspace, kernel) = one_kernel(context, shell, request.manifest_path.clone(), request.package.as_ref())?;
    if let Some((root, campaign)) = Home::around(&workspace.root) {
        let here = format!("this is the worktree of the campaign `{campaign}`, in which its candidates are made");
        let hint = format!("`cargo kopt try` judges an edit of it; another campaign begins in `{root}`");
        return Err(Error::setup(here).hint(hint));
    }
    let home = Home::of(&workspace.root);
    if !request.another {
        nothing_unfinished(&home, &kernel)?;
    }
    let mut wishes = request.wishes.clone();
    if let Some(path) = &request.target {
        let path = context.absolute(path);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Error::setup(format!("cannot read the target `{path}`")).because(&error))?;
        wishes.file = Some((context.shown(&path).to_string(), text));
    }
    for source in &mut wishes.proposers {
        relate(source, &workspace.root);
    }
    let named =
        |(_, text): &(String, String)| text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("proposers"));
    if wishes.proposers.is_empty() && !wishes.file.as_ref().is_some_and(named) {
        wishes.proposers = vec![own_queue(&kernel)?];
    }
    let sources: Vec<Utf8PathBuf> =
        kernel.manifest.sources.iter().map(|source| kernel.member.folder.join(source)).collect();
    let survey = lineage::survey(&workspace.root, &sources)?;
    let wanted = target::define(&kernel, &survey.head, &wishes)?;
    for note in &survey.notes {
        shell.note(note);
    }
    if let Some(lacks) = kernel.lacks_routings() {
        shell.warn(&lacks);
    }
    warn_of_walls(shell);
    if wanted.execution_mode == ExecutionMode::InPlace && !survey.dirty.is_empty() {
        return Err(lineage::uncommitted_error(&survey.dirty).hint(
            "in place, a campaign works on the files themselves: commit or stash them, or leave out --in-place",
        ));
    }
    if request.dry_run {
        confirm::show(shell, &wanted)?;
        return Ok(Exit::Ok);
    }
    if !confirm::target(shell, &wanted, request.yes)? {
        return Ok(Exit::Ok);
    }
    let interrupts = Interrupts::watch()?;
    let mut live = Live::new(shell);
    let around = Surroundings { context, interrupts: &interrupts, audience: &mut live, workspace: &workspace };
    let mut campaign = opening::begin(around, kernel, wanted)?;
    let progress = campaign.run();
    let ended = finish(context, &campaign, progress)?;
    drop(campaign);
    tell(shell, &ended);
    Ok(Exit::Ok)
}

/// Patches inside the workspace are named from there: it may be moved while a campaign is paused, and records of a campaign go
/// where other people read them.
fn relate(source: &mut Source, root: &Utf8Path) {
    if let Source::Patches { folder: path } | Source::Patch { file: path } = source
        && let Ok(inside) = Utf8Path::new(path.as_str()).strip_prefix(root)
    {
        *path = inside.to_string();
    }
}

/// Candidates of a campaign are whatever somebody proposes: that their compiler is not confined here is said before the first.
pub(super) fn warn_of_walls(shell: &mut Shell) {
    if let Some(lacking) = kopt_build::compile::unconfined() {
        shell.warn(&entrant::unconfined_for(&lacking));
    }
}

/// What is told of a campaign that stops here.
pub(super) struct Stopped {
    word: &'static str,
    lines: Vec<String>,
}

/// How far it got, in words.
pub(super) fn finish(context: &Context, campaign: &Campaign<'_>, progress: Result<Progress>) -> Result<Stopped> {
    let name = &campaign.target.campaign;
    match progress {
        Ok(Progress::Over) => {
            let [report, _] = campaign.folder.report();
            let text = std::fs::read_to_string(&report).unwrap_or_default();
            let lines = vec![text, format!("{}; as a page: `cargo kopt report {name} --html`", context.shown(&report))];
            Ok(Stopped { word: "Report", lines })
        }
        Ok(Progress::WaitsForHand) => Ok(Stopped {
            word: "Waiting",
            lines: vec![
                String::new(),
                format!(
                    "for an edit in {}; then `cargo kopt try --hypothesis \"…\"`",
                    context.shown(&campaign.crate_folder())
                ),
            ],
        }),
        Err(error) => {
            let error = match error.failure().hint {
                Some(_) => error,
                None => error.hint(format!("nothing that was decided is lost: `cargo kopt resume {name}` goes on")),
            };
            Err(error)
        }
    }
}

pub(super) fn tell(shell: &mut Shell, stopped: &Stopped) {
    if let [text, line] = stopped.lines.as_slice() {
        if !text.is_empty() {
            shell.say(&format!("\n{text}\n"));
        }
        shell.status(stopped.word, if stopped.word == "Report" { GOOD } else { TOLD }, line);
    }
}

/// The kernel that is meant, and its workspace.
fn one_kernel(
    context: &Context,
    shell: &mut Shell,
    manifest_path: Option<Utf8PathBuf>,
    package: Option<&String>,
) -> Result<(Workspace, Kernel)> {
    let packages = package.map(|name| glob::Pattern::escape(name)).into_iter().collect();
    let selected = Selected { manifest_path, selection: Selection { packages, workspace: false } };
    let (workspace, mut kernels) = selected.kernels(context, shell)?;
    match (kernels.pop(), kernels.is_empty()) {
        (Some(kernel), true) => Ok((workspace, kernel)),
        (Some(kernel), false) => {
            let names: Vec<&str> = kernels.iter().chain([&kernel]).map(|kernel| kernel.member.name.as_str()).collect();
            Err(Error::new(Exit::Usage, "a campaign is about one kernel")
                .hint(format!("say which with -p: {}", names.join(", "))))
        }
        (None, _) => Err(Error::new(Exit::NoKernel, "no kernel crate is selected")),
    }
}

/// The crate's own queue of patches.
fn own_queue(kernel: &Kernel) -> Result<Source> {
    let folder = kernel.member.folder.join("patches");
    let is_patch = |entry: std::io::Result<camino::Utf8DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension() == Some("patch"))
    };
    match folder.read_dir_utf8().is_ok_and(|mut entries| entries.any(is_patch)) {
        true => Ok(Source::Patches { folder: kernel.path.join("patches").to_string() }),
        false => Err(Error::new(Exit::Usage, format!("nobody proposes changes to `{}`", kernel.member.name)).hint(
            "name who does: --agent claude, --agent 'my-agent {prompt_file}', --patches FOLDER, --patch FILE, or --by-hand for your own edits",
        )),
    }
}

fn nothing_unfinished(home: &Home, kernel: &Kernel) -> Result<()> {
    let name = &kernel.member.name;
    for (folder, _) in home.campaigns().into_iter().filter(|(_, target)| target.kernel == *name) {
        let Ok(state) = journal::look(&folder.events()) else { continue };
        if state.began.is_some() && state.phase() != Phase::Over {
            return Err(Error::new(Exit::Locked, format!("campaign {} on `{name}` is unfinished", folder.name)).hint(
                format!(
                    "`cargo kopt resume {}` goes on, `cargo kopt stop {}` ends it; --new begins another one beside it",
                    folder.name, folder.name
                ),
            ));
        }
    }
    Ok(())
}
