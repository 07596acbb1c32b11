//! Compilers and libraries: whether they are here, what they call themselves, which kernels need them, and how to get
//! those that are missing.

use camino::Utf8PathBuf;
use kopt_build::toolchain::{self, Compiler};
use kopt_schema::manifest::{Backend, Class, Language};
use kopt_schema::message::{Message, Toolchain};

use crate::error::Result;
use crate::manifest::Kernel;
use crate::shell::table::{Align, Table};
use crate::shell::{BAD, Shell, TOLD};

/// A tool that was looked for, as programs are told of it.
pub type Tool = Toolchain;

/// Names of kernels that a row has room for.
const SHOWN: usize = 3;

/// A tool, how it is looked for, who needs it and how to get it.
struct Wanted {
    name: &'static str,
    look: fn() -> Result<Compiler, String>,
    needs: fn(&Kernel) -> bool,
    hint: &'static str,
}

const WANTED: [Wanted; 8] = [
    Wanted {
        name: "cc",
        look: || toolchain::host(false).map_err(|error| first_line(&error.to_string())),
        needs: |kernel| kernel.manifest.class == Class::Native && kernel.manifest.language != Language::Cpp,
        hint: "Debian's package is gcc",
    },
    Wanted {
        name: "c++",
        look: || toolchain::host(true).map_err(|error| first_line(&error.to_string())),
        needs: |kernel| kernel.manifest.class == Class::Native && kernel.manifest.language == Language::Cpp,
        hint: "Debian's package is g++",
    },
    Wanted {
        name: "nvcc",
        look: || toolchain::nvcc().map_err(|error| before(&error, "; `cargo kopt")),
        needs: |kernel| kernel.manifest.language == Language::Cuda,
        hint: "`cargo kopt doctor --install cuda` prints what fetches it from PyPI, and runs it with --yes",
    },
    Wanted {
        name: "hipcc",
        look: || toolchain::hipcc().map_err(|error| before(&error, "; `cargo kopt")),
        needs: |kernel| kernel.manifest.language == Language::Hip,
        hint: "`cargo kopt doctor --install hip` prints what fetches it from Debian, and runs it with --yes",
    },
    Wanted {
        name: "hip runtime",
        look: toolchain::hip_runtime,
        needs: |kernel| kernel.manifest.backend == Backend::Hip,
        hint: "it comes with ROCm, 6.0 or later; if it is in no usual place, name ROCm's folder in ROCM_PATH",
    },
    Wanted {
        name: "triton",
        look: || match toolchain::triton() {
            Ok(python) => Ok(python.compiler()),
            Err(error) => Err(before(&error, "; `cargo kopt")),
        },
        needs: |kernel| kernel.manifest.language == Language::Triton,
        hint: "`cargo kopt doctor --install triton` prints what fetches it from PyPI, and runs it with --yes",
    },
    Wanted {
        name: "libclang",
        look: toolchain::libclang,
        // Checked-in bindings that fit their header need nobody to read it.
        needs: |kernel| !kopt_build::bindings::check(&kernel.member.folder, &kernel.manifest).unwrap_or(false),
        hint: "Debian's package is libclang-dev; bindgen reads headers with it",
    },
    // The tool itself reads repositories without it; people commit with it.
    Wanted { name: "git", look: || toolchain::program("git"), needs: |_| false, hint: "Debian's package is git" },
];

/// Looks for every tool.
pub fn look(kernels: &[Kernel]) -> Vec<Tool> {
    let one = |wanted: &Wanted| {
        let needed_by = kernels.iter().filter(|kernel| (wanted.needs)(kernel));
        let tool = Tool {
            name: wanted.name.to_owned(),
            path: None,
            version: None,
            needed_by: needed_by.map(|kernel| kernel.member.name.clone()).collect(),
            missing: None,
            hint: None,
            mismatch: None,
        };
        match (wanted.look)() {
            Ok(found) => Tool {
                path: Some(whole(&found).to_string()),
                version: Some(shortened(&found.version)),
                mismatch: (wanted.name == "nvcc").then(|| toolchain::newer_than_driver(&found)).flatten(),
                ..tool
            },
            Err(why) => Tool { missing: Some(why), hint: Some(wanted.hint.to_owned()), ..tool },
        }
    };
    WANTED.iter().map(one).collect()
}

/// The tool that this kernel needs and that is missing.
pub fn missing_for<'a>(tools: &'a [Tool], kernel: &Kernel) -> Option<&'a Tool> {
    tools.iter().find(|tool| tool.missing.is_some() && tool.needed_by.contains(&kernel.member.name))
}

/// Shows them: one row a tool, then how to get what is needed and missing.
pub fn tell(shell: &mut Shell, tools: &[Tool]) -> Result<()> {
    let mut table = Table::new(&[
        ("toolchain", Align::Left),
        ("version", Align::Left),
        ("where", Align::Left),
        ("needed by", Align::Left),
    ]);
    for tool in tools {
        let version = tool.version.clone().unwrap_or_else(|| "missing".to_owned());
        table.row([tool.name.clone(), version, tool.path.clone().unwrap_or_default(), needed(tool)]);
    }
    shell.say(&table.render());
    for tool in tools {
        shell.message(&Message::Toolchain(tool.clone()))?;
        if let Some(mismatch) = &tool.mismatch {
            shell.warn(mismatch);
        }
        if let (Some(why), Some(hint), false) = (&tool.missing, &tool.hint, tool.needed_by.is_empty()) {
            let names = tool.needed_by.join(", ");
            shell.tell(&format!(
                "{BAD}missing{BAD:#}: {}, needed by {names}: {why}\n{TOLD}hint{TOLD:#}: {hint}\n",
                tool.name
            ));
        }
    }
    Ok(())
}

fn needed(tool: &Tool) -> String {
    let names = &tool.needed_by;
    match names.len() {
        0 => "not needed here".to_owned(),
        number if number > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), number - SHOWN),
        _ => names.join(", "),
    }
}

/// Where it is: a compiler may be known by its name alone.
fn whole(found: &Compiler) -> Utf8PathBuf {
    let is_bare = found.path.components().count() == 1;
    let on_path = is_bare.then(|| toolchain::program(found.path.as_str()).ok()).flatten();
    on_path.map_or_else(|| found.path.clone(), |program| program.path)
}

/// The line that names a version: nvcc's is not its first.
fn shortened(version: &str) -> String {
    let release = version.lines().find(|line| line.contains("release "));
    release.or(version.lines().next()).unwrap_or_default().trim().to_owned()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn before(text: &str, mark: &str) -> String {
    text.split(mark).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_one_line_and_long_lists_are_cut() {
        let nvcc =
            "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c)\nCuda compilation tools, release 13.0, V13.0.88\n";
        assert_eq!(shortened(nvcc), "Cuda compilation tools, release 13.0, V13.0.88");
        assert_eq!(shortened("cc (Debian) 12.2.0\nCopyright\n"), "cc (Debian) 12.2.0");
        let tool = |count: usize| Tool { needed_by: vec!["k".to_owned(); count], ..look(&[])[0].clone() };
        assert_eq!([0, 2, 5].map(|count| needed(&tool(count))), ["not needed here", "k, k", "k, k, k and 2 more"]);
    }
}
