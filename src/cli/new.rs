//! `cargo kopt new`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::{Backend, Language};

use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Make a kernel crate that builds, tests and benches at once
///
/// The crate holds a plain kernel to start from, its header, the shapes to check and time, and a few lines of Rust.
/// Inside a workspace it becomes a member. Where something fails, nothing is left behind.
///
/// Example: cargo kopt new demo --op softmax && cd demo && cargo test && cargo bench
///
/// Example: cargo kopt new fast --op softmax --backend cuda --language triton
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The crate's name
    #[arg(required_unless_present = "list_ops")]
    name: Option<String>,
    /// The operator; not needed where the crate is named after it
    #[arg(long)]
    op: Option<String>,
    /// An operator of one's own, named after the crate unless --op says otherwise: the crate starts as y = factor * x, with its reference in src/lib.rs
    #[arg(long)]
    own: bool,
    /// Where it runs
    #[arg(long, value_enum, default_value = "cpu")]
    backend: Where,
    /// What it is written in, instead of the backend's own language
    #[arg(long, value_enum)]
    language: Option<Written>,
    /// The crate's folder, instead of ./NAME
    #[arg(long, value_name = "DIR")]
    path: Option<Utf8PathBuf>,
    /// The folder of kopt-harness to depend on
    #[arg(long, value_name = "DIR")]
    harness: Option<Utf8PathBuf>,
    /// List the operators to start from, each with its backends and languages, and do nothing else
    #[arg(long)]
    list_ops: bool,
}

/// Backends that have a kernel to start from.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Where {
    /// The host's cores, in C or C++
    Cpu,
    /// An NVIDIA GPU, in CUDA C++ or Triton
    Cuda,
    /// An AMD GPU, in HIP C++ or Triton; no kernel has run on one yet
    Hip,
}

/// Languages of kernels.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Written {
    C,
    #[value(name = "c++")]
    Cpp,
    Cuda,
    Hip,
    Triton,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell) -> Result<Exit> {
        let Some(name) = self.name.filter(|_| !self.list_ops) else { return ops::new::list_operators(shell) };
        let backend = match self.backend {
            Where::Cpu => Backend::Cpu,
            Where::Cuda => Backend::Cuda,
            Where::Hip => Backend::Hip,
        };
        let language = self.language.map(|language| match language {
            Written::C => Language::C,
            Written::Cpp => Language::Cpp,
            Written::Cuda => Language::Cuda,
            Written::Hip => Language::Hip,
            Written::Triton => Language::Triton,
        });
        let Self { op, own, path, harness, .. } = self;
        let request = ops::new::Request { name, op, own, backend, language, path, harness };
        ops::new::new(context, shell, &request)
    }
}
