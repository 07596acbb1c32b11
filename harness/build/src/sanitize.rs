//! A kernel under the sanitizers: the crate's sources with its own flags, AddressSanitizer and
//! UndefinedBehaviorSanitizer, linked with a driver into a program that makes the calls a file lists.
//!
//! Not the object that is timed: a sanitizer's runtime wants a process of its own. What it finds it finds in the sources, and
//! so they are preprocessed first, as for the object that is timed: compilers define other names under sanitizers and without
//! optimisation, and a source could hide behind those. The program is the candidate's own code, with whatever
//! constructors it has: it runs in a [`Cell`].

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::{Class, Language, Manifest};

use crate::error::BuildError;
use crate::recipe::Recipe;
pub use crate::sandbox::Cell;
use crate::site::{self, Site};
use crate::toolchain::{self, Compiler};

const DRIVER: &str = include_str!("sanitize/driver.c");

/// The first finding ends the program: what comes after it proves nothing. Not optimised: a tile of vector code takes a
/// minute to compile otherwise, and what the optimiser drops is not looked at. Sums of integers may wrap: on cases as small
/// as these no index does, but the bits of floats that are scaled by integer arithmetic do, in lanes whose result is then
/// dropped.
const FLAGS: [&str; 7] = [
    "-O0",
    "-g1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize=signed-integer-overflow",
    "-fno-sanitize-recover=all",
    "-Wno-maybe-uninitialized",
];

/// What the sanitizers are told when a program starts. What is leaked is looked for by ptrace, which a [`Cell`] has not, nor has many
/// a container: a program that looks for it fails there, the empty one, too. The audit refuses allocation itself.
const OPTIONS: [(&str, &str); 2] = [
    ("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=1:color=never"),
    ("UBSAN_OPTIONS", "print_stacktrace=1:color=never"),
];

/// A program under the sanitizers, or why there can be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sanitized {
    /// Where the program runs; its argument is a file of calls.
    Program(Cell),
    /// The sources keep the sanitizers from looking at part of them: by which word.
    Shunned(String),
    /// This toolchain has no sanitizers, or the class has no host code.
    Unavailable(String),
}

/// Compiles the crate in `folder`, whose entry points are `entries`, into `out`.
///
/// # Errors
/// When a source does not compile with what the compiler otherwise can do, or a file cannot be written.
pub fn sanitized(
    folder: &Utf8Path,
    manifest: &Manifest,
    entries: &[String],
    out: &Utf8Path,
) -> Result<Sanitized, BuildError> {
    if manifest.class != Class::Native {
        return Ok(Sanitized::Unavailable(format!("class {} has no code for the processor", manifest.class.name())));
    }
    let recipe = Recipe::of(folder, manifest)?;
    let compiler = match recipe.compiler {
        Ok(compiler) => compiler,
        Err(reason) => return Ok(Sanitized::Unavailable(reason)),
    };
    std::fs::create_dir_all(out).map_err(BuildError::file(out))?;
    let write = |name: &str, text: &str| {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(BuildError::file(&path)).map(|()| path)
    };
    let list: String = entries.iter().map(|entry| format!("ENTRY({entry})\n")).collect();
    write("entries.inc", &format!("{list}PREPARES({})\n", manifest.op))?;
    let driver = write("driver.c", DRIVER)?;
    let c = toolchain::host(false)?;
    let is_cpp = manifest.language == Language::Cpp;
    let site = |compiler| Site::new(folder, manifest, compiler, &recipe.flags, out, out);
    let driver_object = out.join("driver.o");
    let mut command = Command::new(&c.path);
    command.current_dir(out).args(FLAGS).arg("-c").arg(&driver).arg("-o").arg(&driver_object);
    if let Err(error) = site(&c).run(command, "the sanitizers' driver") {
        return unavailable(&site(&c), &c, out).map_or(Err(error), |why| Ok(Sanitized::Unavailable(why)));
    }
    let mut texts = Vec::new();
    for source in manifest.compiled() {
        let text = preprocessed(&site(&compiler), source)?;
        if let Some(word) = shunning(&site::read(&text)?) {
            return Ok(Sanitized::Shunned(format!("`{word}` in {source}")));
        }
        texts.push(text);
    }
    let program = out.join("sanitized");
    let link = |level: &str| {
        let mut command = Command::new(&compiler.path);
        command.current_dir(folder).args(&recipe.flags).args(FLAGS).arg(level);
        // What follows the texts is an object again.
        command.args(["-x", if is_cpp { "c++-cpp-output" } else { "cpp-output" }]).args(&texts).args(["-x", "none"]);
        command.arg(&driver_object).arg("-lm").arg("-o").arg(&program);
        site(&compiler).run(command, "the kernel under the sanitizers")
    };
    // Some intrinsics take constants only, and what is passed on to them is one only after some optimisation.
    match link("-O0").or_else(|_| link("-O1")) {
        Ok(_) => Ok(Sanitized::Program(Cell::new(&program, &compiler))),
        Err(error) => {
            unavailable(&site(&compiler), &compiler, out).map_or(Err(error), |why| Ok(Sanitized::Unavailable(why)))
        }
    }
}

/// A source as the compiler of the measured object sees it.
fn preprocessed(site: &Site<'_>, source: &str) -> Result<Utf8PathBuf, BuildError> {
    let text = site.out.join(format!("{}.i", source.replace('/', "-")));
    let mut command = Command::new(&site.compiler.path);
    command.current_dir(site.folder).args(site.flags).arg("-E").arg(source).arg("-o").arg(&text);
    site.run(command, source)?;
    Ok(text)
}

/// The first word of a preprocessed text that exempts code from a sanitizer: an attribute of functions and variables, in each
/// of its spellings. No header of a C compiler or library has one, and once macros are expanded it stands as it is.
fn shunning(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let bare = |word: &str| word.trim_matches('_').to_owned();
    let starts = ["no_sanitize", "no_address_safety_analysis", "disable_sanitizer_instrumentation"];
    text.split(|c| !is_part(c)).find(|word| starts.iter().any(|start| bare(word).starts_with(start)))
}

/// What starts the program of a cell, a kernel's and the empty one alike: otherwise one of them tells nothing of the other.
#[must_use]
pub fn command(cell: &Cell) -> Command {
    let mut command = Command::new(cell.program());
    command.envs(OPTIONS);
    command
}

/// An empty program under the sanitizers, compiled into `out`: where even that does not run, they cannot run here (their memory is
/// reserved in advance, which a limit or the system's policy may refuse), and nothing that they say is a kernel's fault. Nothing
/// where it cannot be made.
#[must_use]
pub fn idle(folder: &Utf8Path, manifest: &Manifest, out: &Utf8Path) -> Option<Cell> {
    let recipe = Recipe::of(folder, manifest).ok()?;
    let compiler = recipe.compiler.ok()?;
    let program = empty(&Site::new(folder, manifest, &compiler, &recipe.flags, out, out), &compiler, out).ok()?;
    Some(Cell::new(&program, &compiler))
}

/// Why this compiler has no sanitizers, if even an empty program cannot be made with them.
fn unavailable(site: &Site<'_>, compiler: &Compiler, out: &Utf8Path) -> Option<String> {
    let said = empty(site, compiler, out).err()?.to_string();
    let reason = said.lines().find(|line| line.contains("cannot find") || line.contains("error")).unwrap_or(&said);
    Some(format!("this compiler makes no program with sanitizers: {}", reason.trim()))
}

fn empty(site: &Site<'_>, compiler: &Compiler, out: &Utf8Path) -> Result<Utf8PathBuf, BuildError> {
    let (source, program) = (out.join("empty.c"), out.join("empty"));
    std::fs::write(&source, "int main(void) { return 0; }\n").map_err(BuildError::file(&source))?;
    let mut command = Command::new(&compiler.path);
    command.current_dir(out).args(FLAGS).args(["-x", "c"]).arg(&source).arg("-o").arg(&program);
    site.run(command, "an empty program")?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_with(folder: &Utf8Path, source: &str) -> Manifest {
        std::fs::create_dir_all(folder.join("kernels")).unwrap();
        std::fs::write(folder.join("kernels/twice.c"), source).unwrap();
        std::fs::write(folder.join("kernels/twice.h"), "").unwrap();
        std::fs::write(
            folder.join("Cargo.toml"),
            "[package]\nname = \"twice\"\n[package.metadata.kopt]\nop = \"twice\"\nbackend = \"cpu\"\nshapes = [{ n = 4 }]\n",
        )
        .unwrap();
        crate::manifest::load(folder, None, folder).unwrap().unwrap()
    }

    /// One call: `x` of three floats and room for `y`, and the length.
    fn calls(file: &Utf8Path) {
        let mut words: Vec<u64> =
            vec![0x3165_7372_746f_706b, 1, 5, u64::from_le_bytes(*b"twice\0\0\0"), 24, 0, 0, 3, 2];
        let x: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).chain([0; 4]).collect();
        words.extend([0, 12, 64, 0]);
        words.extend(x.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())));
        words.extend([8, 12, 64, 1]);
        std::fs::write(file, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    }

    /// What the program says in its cell.
    fn said(source: &str) -> (bool, String) {
        let scratch = tempfile::tempdir().unwrap();
        said_in(Utf8Path::from_path(scratch.path()).unwrap(), source)
    }

    fn said_in(folder: &Utf8Path, source: &str) -> (bool, String) {
        let manifest = crate_with(folder, source);
        let found = sanitized(folder, &manifest, &["twice".to_owned()], &folder.join("out")).unwrap();
        let Sanitized::Program(cell) = found else { panic!("{found:?}") };
        calls(&folder.join("calls"));
        let cell = cell.and_read(&folder.join("calls"));
        let mut command = command(&cell);
        command.arg(folder.join("calls"));
        let [said, complained] = ["said", "complained"].map(|name| std::fs::File::create(folder.join(name)).unwrap());
        command.stdout(said).stderr(complained);
        let status = cell.inside(|| command.spawn()).unwrap().unwrap().wait().unwrap();
        (status.success(), std::fs::read_to_string(folder.join("complained")).unwrap())
    }

    const HONEST: &str = "struct a { const float *x; float *y; long n; };\n\
        int twice(const struct a *a) { for (long i = 0; i < a->n; i++) a->y[i] = 2 * a->x[i]; return 0; }\n";

    #[test]
    fn an_honest_kernel_is_clean() {
        let (clean, said) = said(HONEST);
        assert!(clean, "{said}");
    }

    #[test]
    fn an_empty_program_runs_where_they_do() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(scratch.path()).unwrap();
        let manifest = crate_with(folder, HONEST);
        let cell = idle(folder, &manifest, folder).unwrap();
        let mut command = command(&cell);
        assert!(cell.inside(|| command.status()).unwrap().unwrap().success());
    }

    #[test]
    fn a_read_of_one_element_too_many_is_found() {
        let (clean, said) = said(&HONEST.replace("2 * a->x[i]", "a->x[i] + a->x[i + 1]"));
        assert!(!clean && said.contains("heap-buffer-overflow") && said.contains("twice.c"), "{said}");
    }

    #[test]
    fn what_the_language_leaves_undefined_is_found() {
        let (clean, said) = said(&HONEST.replace("2 * a->x[i]", "(float)(1 << (int)(a->x[i] * 16))"));
        assert!(!clean && said.contains("runtime error"), "{said}");
    }

    #[test]
    fn what_only_the_sanitizers_would_not_see_is_found() {
        // Each gives a program under the sanitizers, or without optimisation, another text than the one that is timed.
        let hidden = [
            "#ifndef __SANITIZE_ADDRESS__\n#define MORE 1\n#endif\n",
            "#ifdef __OPTIMIZE__\n#define MORE 1\n#endif\n",
            "#ifndef __NO_INLINE__\n#define MORE 1\n#endif\n",
            "#define OF(a, b) a ## b\n#if OF(__OPTI, MIZE__)\n#define MORE 1\n#endif\n",
            "#ifdef __has_feature\n#if !__has_feature(address_sanitizer)\n#define MORE 1\n#endif\n#else\n#define MORE 1\n#endif\n",
        ];
        for before in hidden {
            let source = HONEST.replace("2 * a->x[i]", "a->x[i] + a->x[i + MORE]");
            let (clean, said) = said(&format!("{before}#ifndef MORE\n#define MORE 0\n#endif\n{source}"));
            assert!(!clean && said.contains("heap-buffer-overflow") && said.contains("twice.c"), "{before}: {said}");
        }
    }

    #[test]
    fn code_that_is_exempt_from_them_is_named() {
        let exempt =
            ["no_sanitize(\"address\")", "no_sanitize_address", "__no_sanitize_address__", "OF(no_sani, tize_address)"];
        for attribute in exempt {
            let scratch = tempfile::tempdir().unwrap();
            let folder = Utf8Path::from_path(scratch.path()).unwrap();
            let source = format!(
                "#define OF(a, b) a ## b\n{}",
                HONEST.replace("int twice", &format!("__attribute__(({attribute})) int twice"))
            );
            let manifest = crate_with(folder, &source);
            let found = sanitized(folder, &manifest, &["twice".to_owned()], &folder.join("out")).unwrap();
            assert!(
                matches!(&found, Sanitized::Shunned(word) if word.contains("no_sanitize")),
                "{attribute}: {found:?}"
            );
        }
        assert_eq!(shunning("int no; int sanitize_no_more; int my_no_sanitize;"), None);
    }

    #[test]
    fn a_constructor_reaches_nothing_and_the_kernel_is_still_looked_at() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(scratch.path()).unwrap();
        let beside = tempfile::tempdir().unwrap();
        let beside = Utf8Path::from_path(beside.path()).unwrap();
        std::fs::write(beside.join("secret"), "of another").unwrap();
        let reach = r#"
            #include <fcntl.h>
            #include <signal.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <sys/socket.h>
            #include <sys/stat.h>
            #include <unistd.h>
            static void say(const char *what, int reached) { fprintf(stderr, "%s: %s\n", what, reached ? "reached" : "kept out"); }
            __attribute__((constructor)) static void reach(void) {
                char *const words[] = {"/bin/sh", "-c", "echo > BESIDE/by-shell", 0};
                say("write", open("BESIDE/written", O_CREAT | O_WRONLY, 0600) >= 0);
                say("write here", open("FOLDER/written", O_CREAT | O_WRONLY, 0600) >= 0);
                say("read", open("BESIDE/secret", O_RDONLY) >= 0);
                say("mode", chmod("BESIDE/secret", 0777) == 0);
                say("shell", system("echo > BESIDE/by-system") == 0);
                say("socket", socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || socket(AF_INET, SOCK_DGRAM, 0) >= 0);
                say("signal", kill(getppid(), 0) == 0);
                if (fork() == 0) {
                    execv(words[0], words);
                    _exit(1);
                }
            }
        "#;
        let reach = reach.replace("BESIDE", beside.as_str()).replace("FOLDER", folder.as_str());
        let (clean, said) = said_in(folder, &format!("{reach}{HONEST}"));
        assert!(clean, "{said}");
        let left: Vec<_> = beside.read_dir_utf8().unwrap().map(|file| file.unwrap().file_name().to_owned()).collect();
        if crate::sandbox::tests::confines() {
            assert_eq!((said.matches("kept out").count(), said.matches(": reached").count()), (7, 0), "{said}");
            assert_eq!(left, ["secret"], "{said}");
        }
        // Confined or not, it is looked at.
        let (clean, said) =
            said_in(folder, &format!("{reach}{}", HONEST.replace("2 * a->x[i]", "a->x[i] + a->x[i + 1]")));
        assert!(!clean && said.contains("heap-buffer-overflow") && said.contains("twice.c"), "{said}");
    }
}
