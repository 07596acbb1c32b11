//! `doctor`: what this machine has, what it can do, how quiet it is, and whether the gate finds what is known to be there.
//!
//! | module | what |
//! |---|---|
//! | `toolchains` | compilers and libraries, and which kernels need them |
//! | `install` | what fetches a compiler |
//! | `subject` | a kernel that something is measured with |
//! | `devices` | devices and their ceilings |
//! | `noise` | equal code against itself |
//! | `selftest` | decisions whose answers are known |
//! | `conclusion` | what can be trusted here |

mod conclusion;
mod devices;
pub mod install;
mod noise;
mod selftest;
mod subject;
mod toolchains;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Backend;

use crate::build::{self, Role};
use crate::context::Context;
use crate::error::Result;
use crate::machine::figures::Store;
use crate::manifest::{Found, Kernel};
use crate::process::Interrupts;
use crate::referee::{ceilings, trusted};
use crate::shell::{GOOD, Shell, TOLD};
use crate::workspace::selection::Selection;
use crate::workspace::{Member, Workspace};
use conclusion::Conclusion;
use subject::Subject;
use toolchains::Tool;

/// What to look at.
#[derive(Debug, Clone)]
pub struct Request {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// The kernel to measure with.
    pub package: Option<String>,
    /// Few launches, and one injection.
    pub quick: bool,
}

/// The kernels of a workspace.
struct Place {
    workspace: Workspace,
    kernels: Vec<Kernel>,
    /// Position of the kernel that noise and self-test are measured with.
    chosen: Option<usize>,
    /// A manifest was wrong, and has been complained about.
    mistaken: bool,
}

/// Looks at everything, and tells it as it is found.
///
/// # Errors
/// When cargo cannot say, a kernel does not build or cannot be measured. What is missing or noisy is an [`Exit`].
pub fn doctor(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let place = Place::find(context, shell, request)?;
    let kernels = place.as_ref().map_or(&[][..], |place| &place.kernels);
    let tools = toolchains::look(kernels);
    toolchains::tell(shell, &tools)?;
    devices::processor(shell)?;
    let mut conclusion = Conclusion::new(&tools, request.quick);
    match &place {
        Some(place) if !kernels.is_empty() => measure(context, shell, request, place, &tools, &mut conclusion)?,
        _ => conclusion.nowhere(),
    }
    conclusion.tell(shell)?;
    let mistaken = place.is_some_and(|place| place.mistaken);
    Ok(if mistaken { Exit::Setup } else { conclusion.exit() })
}

/// Everything that needs a kernel.
fn measure(
    context: &Context,
    shell: &mut Shell,
    request: &Request,
    place: &Place,
    tools: &[Tool],
    conclusion: &mut Conclusion,
) -> Result<()> {
    let own = place.workspace.target.join("kopt");
    let mut store = Store::open(&own);
    if let Some(note) = &store.note {
        shell.note(note);
    }
    let (kernels, left_out): (Vec<&Kernel>, Vec<&Kernel>) =
        place.one_a_backend().into_iter().partition(|kernel| toolchains::missing_for(tools, kernel).is_none());
    for kernel in left_out {
        devices::not_looked_for(shell, kernel, toolchains::missing_for(tools, kernel))?;
    }
    let kernels: Vec<Kernel> = kernels.into_iter().cloned().collect();
    if kernels.is_empty() {
        return Ok(());
    }
    let executables = build::executables(context, shell.manner(), &place.workspace, &kernels, Role::Latency)?;
    let subjects = Subject::compile(context, &own, &kernels, executables)?;
    // Before the interrupts are watched: who waits can be interrupted.
    let _lock = trusted::lock(shell, &own)?;
    let interrupts = Interrupts::watch()?;
    let mut timed = None;
    for subject in &subjects {
        // The chosen kernel comes first; where its device is not here, one of the processor serves.
        let is_timed = timed.is_none() && (place.is_chosen(subject.kernel) || subject.is_on_processor());
        if let Some(found) = devices::look(shell, subject, &interrupts, is_timed)? {
            // Noise only ever lowers what is measured.
            let known = store.figures.ceilings.iter().find(|known| known.device == found.device);
            let best = known.map_or_else(|| found.ceilings.clone(), |known| ceilings::better(known, &found.ceilings));
            store.keep_ceilings(&best);
            timed = timed.or(is_timed.then_some((subject, found)));
        }
    }
    if let Some((subject, found)) = timed {
        let floor = noise::floor(shell, subject, &interrupts, &found, request.quick)?;
        store.keep_noise(floor.noise.clone());
        keep(context, shell, &store, &own);
        conclusion.resolves(&floor);
        conclusion.tested(&selftest::run(shell, subject, &interrupts, &found, request.quick)?);
        return Ok(());
    }
    keep(context, shell, &store, &own);
    Ok(())
}

/// Figures that cannot be kept can be measured again.
fn keep(context: &Context, shell: &mut Shell, store: &Store, own: &Utf8Path) {
    match store.write() {
        Ok(()) if store.is_kept() => {
            let path = own.join("machine.json");
            shell.status("Kept", TOLD, &format!("in {}, for `cargo kopt compare`", context.shown(&path)));
        }
        Ok(()) => {}
        Err(error) => shell.warn(&error.to_string()),
    }
}

impl Place {
    /// The workspace, if the tool was started in one, and its kernels.
    fn find(context: &Context, shell: &mut Shell, request: &Request) -> Result<Option<Self>> {
        let asked_for = request.manifest_path.is_some() || request.package.is_some();
        if !asked_for && !context.cwd.ancestors().any(|folder| folder.join("Cargo.toml").exists()) {
            return Ok(None);
        }
        let workspace = Workspace::find(context, request.manifest_path.as_deref())?;
        let here = request.manifest_path.as_deref().map(|path| context.absolute(path));
        let here = here.as_deref().and_then(Utf8Path::parent).unwrap_or(&context.cwd);
        let named = match &request.package {
            Some(name) => {
                let named = Selection { packages: vec![name.clone()], workspace: false }.of(&workspace, here)?;
                named.first().map(|member| member.name.clone())
            }
            None => workspace.around(here).filter(|member| member.is_kernel).map(|member| member.name.clone()),
        };
        let members: Vec<&Member> = workspace.members.iter().filter(|member| member.is_kernel).collect();
        let found = Found::read(context, &workspace, &members);
        found.complain(shell)?;
        let position = |wanted: &dyn Fn(&Kernel) -> bool| found.kernels.iter().position(wanted);
        let first = position(&|kernel| kernel.manifest.backend == Backend::Cpu);
        let chosen = match named {
            Some(named) => position(&|kernel| kernel.member.name == named),
            None => first.or((!found.kernels.is_empty()).then_some(0)),
        };
        let mistaken = !found.findings.is_empty();
        shell.status("Looking", GOOD, &format!("at {}", workspace.root));
        // Who asks about one kernel does not want to hear what others lack.
        let (kernels, chosen) = match chosen.filter(|_| request.package.is_some()) {
            Some(only) => (found.kernels.into_iter().skip(only).take(1).collect(), Some(0)),
            None => (found.kernels, chosen),
        };
        Ok(Some(Self { kernels, workspace, chosen, mistaken }))
    }

    fn chosen(&self) -> Option<&Kernel> {
        self.chosen.and_then(|chosen| self.kernels.get(chosen))
    }

    fn is_chosen(&self, kernel: &Kernel) -> bool {
        self.chosen().is_some_and(|chosen| chosen.member.name == kernel.member.name)
    }

    /// The chosen kernel, and the first one of each other backend.
    fn one_a_backend(&self) -> Vec<&Kernel> {
        let mut kernels: Vec<&Kernel> = self.chosen().into_iter().collect();
        for kernel in &self.kernels {
            if kernels.iter().all(|other| other.manifest.backend != kernel.manifest.backend) {
                kernels.push(kernel);
            }
        }
        kernels
    }
}
