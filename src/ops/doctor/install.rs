//! `doctor --install`: the commands that fetch a compiler, printed, and run with `--yes`. Packages of PyPI go into a virtual
//! environment of the tool's own, where `kopt-build` looks for them by itself.

use std::process::Command;

use camino::Utf8PathBuf;
use kopt_build::toolchain::{self, Compiler};
use kopt_schema::message::{Install, Message};

use crate::context::{self, Context};
use crate::error::{Error, Result};
use crate::process;
use crate::shell::{GOOD, Shell, TOLD, quoted};

/// A compiler that can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Compilers {
    /// nvcc, for CUDA kernels: packages of PyPI in a virtual environment
    Cuda,
    /// hipcc, for HIP kernels: packages of Debian
    Hip,
    /// Triton, for kernels in Python: a package of PyPI in the same virtual environment
    Triton,
}

impl Compilers {
    const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "nvcc",
            Self::Hip => "hipcc",
            Self::Triton => "triton",
        }
    }

    fn look(self) -> Result<Compiler, String> {
        match self {
            Self::Cuda => toolchain::nvcc(),
            Self::Hip => toolchain::hipcc(),
            Self::Triton => toolchain::triton().map(|python| python.compiler()),
        }
    }

    fn packages(self) -> Vec<String> {
        let of_cuda = ["cuda-nvcc", "cuda-crt", "nvvm", "cuda-runtime", "cuda-cccl"];
        match self {
            Self::Cuda => {
                let version = toolchain::wheels();
                of_cuda.iter().map(|name| format!("nvidia-{name}=={version}")).collect()
            }
            Self::Hip => ["hipcc", "libamdhip64-dev"].map(str::to_owned).into(),
            Self::Triton => vec!["triton==3.6.*".to_owned()],
        }
    }
}

/// Prints what fetches a compiler, or fetches it.
///
/// # Errors
/// When what it is fetched with is missing or fails.
pub fn install(context: &Context, shell: &mut Shell, compilers: Compilers, yes: bool) -> Result<()> {
    if let Ok(found) = compilers.look() {
        shell.status("Found", GOOD, &format!("{} in {}: nothing to fetch", compilers.name(), found.path));
        return told(shell, compilers, &[], false);
    }
    let commands = commands(context, compilers)?;
    let shown: Vec<String> = commands.iter().map(|words| line(words)).collect();
    if !yes {
        shell.tell(&format!("{}\n", shown.join("\n")));
        shell.say(&format!("{TOLD}hint{TOLD:#}: with --yes they are run\n"));
        return told(shell, compilers, &shown, false);
    }
    for (words, shown) in commands.iter().zip(&shown) {
        shell.status("Running", GOOD, shown);
        let [program, arguments @ ..] = words.as_slice() else { continue };
        let mut command = Command::new(program);
        command.args(arguments);
        let status = process::lines(command, |line| {
            shell.say(&format!("{line}\n"));
            Ok(())
        })?;
        if !status.success() {
            return Err(Error::setup(format!("`{shown}` ended with {status}"))
                .hint("what it said stands above; the commands can also be run by hand"));
        }
    }
    let found = compilers
        .look()
        .map_err(|why| Error::setup(format!("{} was fetched and is still not found", compilers.name())).cause(why))?;
    shell.status("Installed", GOOD, &format!("{} in {}", compilers.name(), found.path));
    shell.note("a crate that cargo has built without it is built anew after `cargo clean -p NAME`");
    told(shell, compilers, &shown, true)
}

fn told(shell: &mut Shell, compilers: Compilers, commands: &[String], ran: bool) -> Result<()> {
    shell.message(&Message::Install(Install { name: compilers.name().to_owned(), commands: commands.to_vec(), ran }))
}

fn commands(context: &Context, compilers: Compilers) -> Result<Vec<Vec<String>>> {
    let packages = compilers.packages();
    let command = |words: &[&str], packages: &[String]| -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).chain(packages.iter().cloned()).collect()
    };
    if compilers == Compilers::Hip {
        if context::program(context, "apt-get").is_none() {
            return Err(Error::setup("hipcc is fetched with apt-get, which is not here").hint(
                "install ROCm's hipcc as your system does it, and put it on PATH or name its folder in ROCM_PATH",
            ));
        }
        let sudo = if rustix::process::geteuid().is_root() { &[][..] } else { &["sudo"] };
        let words = |words: &[&'static str]| [sudo, words].concat();
        let install = words(&["apt-get", "install", "--yes", "--no-install-recommends"]);
        return Ok(vec![command(&words(&["apt-get", "update"]), &[]), command(&install, &packages)]);
    }
    let venv = toolchain::own_venv().ok_or_else(|| {
        Error::setup("there is no folder for a virtual environment").hint("set HOME, or XDG_DATA_HOME")
    })?;
    let pip: Utf8PathBuf = venv.join("bin/pip");
    let python = context::program(context, "python3").ok_or_else(|| {
        Error::setup("packages of PyPI are fetched with Python, and there is no python3 on PATH")
            .hint("Debian's packages are python3 and python3-venv")
    })?;
    let make = (!pip.is_file()).then(|| command(&[python.as_str(), "-m", "venv", venv.as_str()], &[]));
    Ok(make.into_iter().chain([command(&[pip.as_str(), "install"], &packages)]).collect())
}

/// A command as one types it.
fn line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_expand_is_quoted() {
        let words = ["pip", "install", "nvidia-nvvm==13.0.*"].map(str::to_owned);
        assert_eq!(line(&words), "pip install 'nvidia-nvvm==13.0.*'");
    }
}
