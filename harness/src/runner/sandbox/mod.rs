//! What confines a worker that runs a candidate's host code. It confines itself, before it loads the candidate, so that
//! constructors run inside too; and once more, when all memory is mapped, before the first call.
//!
//! | module | what |
//! |---|---|
//! | `files` | landlock: nothing to write, libraries and the object to read |
//! | `calls` | seccomp: the system calls of loading, then those of answering |
//! | `names` | names of system calls, for people |
//!
//! Memory of the worker is fenced in while a call runs, by the backend (`backend::cpu`'s `fence`), where the processor can.

mod calls;
mod files;
mod names;

use camino::Utf8Path;
use kopt_schema::manifest::{Backend, Class};
use kopt_schema::sandbox::{Defence, Force, Sandbox};

pub(crate) use calls::Pass;
pub(crate) use names::forbidden;

/// The defences that a worker has put up, and those still to come.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// What is in force.
    pub sandbox: Sandbox,
    /// The second filter of system calls, until it is in force.
    pending: Option<Pass>,
}

/// Before the candidate is loaded. What cannot be put up is said, and lowers the trust in what comes of it.
pub(crate) fn enter(backend: Backend, class: Class, object: &Utf8Path, without: &[Defence], pass: Pass) -> Confinement {
    let mut sandbox = Sandbox::default();
    if backend != Backend::Cpu {
        // A driver opens devices, maps what it likes and runs threads; and of the candidate only a launcher runs on the host.
        let _ = calls::no_new_privileges();
        for defence in [Defence::Files, Defence::SystemCalls, Defence::CleanCalls, Defence::Memory] {
            match class {
                Class::Launcher => {
                    sandbox.add(defence, Force::None, "the driver needs the system, and a launcher is beside it")
                }
                Class::Native | Class::Device => {
                    sandbox.add(
                        defence,
                        Force::NotNeeded,
                        "the candidate has no host code, and the driver needs the system",
                    );
                }
            }
        }
        return Confinement { sandbox, pending: None };
    }
    let off = |defence: Defence| without.contains(&defence);
    if off(Defence::CleanCalls) {
        sandbox.add(Defence::CleanCalls, Force::Off, "turned off for a test");
    } else {
        let (force, detail) = super::backend::clean_calls();
        sandbox.add(Defence::CleanCalls, force, detail);
    }
    if off(Defence::Memory) || off(Defence::CleanCalls) {
        sandbox.add(Defence::Memory, Force::Off, "turned off for a test");
    } else {
        let (force, detail) = super::backend::fenced_calls();
        sandbox.add(Defence::Memory, force, detail);
    }
    if off(Defence::Files) {
        sandbox.add(Defence::Files, Force::Off, "turned off for a test");
    } else {
        let (force, detail) = files::restrict(object);
        sandbox.add(Defence::Files, force, detail);
    }
    if off(Defence::SystemCalls) {
        sandbox.add(Defence::SystemCalls, Force::Off, "turned off for a test");
        return Confinement { sandbox, pending: None };
    }
    make_room();
    match calls::load(&pass) {
        Ok(()) => {
            sandbox.add(Defence::SystemCalls, Force::Whole, "seccomp");
            Confinement { sandbox, pending: Some(pass) }
        }
        Err(error) => {
            sandbox.add(Defence::SystemCalls, Force::None, format!("no seccomp: {error}"));
            Confinement { sandbox, pending: None }
        }
    }
}

impl Confinement {
    /// Before the first call: from here on the process can answer, and nothing else.
    pub(crate) fn seal(&mut self) -> std::io::Result<()> {
        match self.pending.take() {
            Some(pass) => calls::serve(&pass),
            None => Ok(()),
        }
    }
}

/// Memory for requests and replies, so that the heap need not grow once growing is forbidden: pieces small enough to be the
/// heap's own, freed below one that stays, so that it is not given back to the system either.
fn make_room() {
    const PIECE: usize = 60 << 10;
    const PIECES: usize = 17;
    let pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| Vec::with_capacity(PIECE)).collect();
    let last: &'static mut [u8; 64] = Box::leak(Box::new([0; 64]));
    std::hint::black_box(last);
    drop(std::hint::black_box(pieces));
}
