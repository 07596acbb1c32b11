//! A kernel under the sanitizers: the crate's sources with its own flags, AddressSanitizer and
//! UndefinedBehaviorSanitizer, linked with a driver into a program that makes the calls a file lists.
//!
//! Not the object that is timed: a sanitizer's runtime wants a process of its own. What it finds it finds in the sources.

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::{Class, Language, Manifest};

use crate::error::BuildError;
use crate::recipe::Recipe;
use crate::site::Site;
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

/// A program under the sanitizers, or why there can be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sanitized {
    /// The program; its argument is a file of calls.
    Program(Utf8PathBuf),
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
    let site = |compiler| Site::new(folder, manifest, compiler, &recipe.flags, out, out);
    let driver_object = out.join("driver.o");
    let mut command = Command::new(&c.path);
    command.current_dir(out).args(FLAGS).arg("-c").arg(&driver).arg("-o").arg(&driver_object);
    if let Err(error) = site(&c).run(command, "the sanitizers' driver") {
        return unavailable(&site(&c), &c, out).map_or(Err(error), |why| Ok(Sanitized::Unavailable(why)));
    }
    let program = out.join("sanitized");
    let link = |level: &str| {
        let mut command = Command::new(&compiler.path);
        command.current_dir(folder).args(&recipe.flags).args(FLAGS).arg(level);
        for source in manifest.compiled() {
            command.arg(source);
        }
        if manifest.language == Language::Cpp {
            // What follows is an object again, whatever the sources were called.
            command.args(["-x", "none"]);
        }
        command.arg(&driver_object).arg("-lm").arg("-o").arg(&program);
        site(&compiler).run(command, "the kernel under the sanitizers")
    };
    // Some intrinsics take constants only, and what is passed on to them is one only after some optimisation.
    match link("-O0").or_else(|_| link("-O1")) {
        Ok(_) => Ok(Sanitized::Program(program)),
        Err(error) => {
            unavailable(&site(&compiler), &compiler, out).map_or(Err(error), |why| Ok(Sanitized::Unavailable(why)))
        }
    }
}

/// Why this compiler has no sanitizers, if even an empty program cannot be made with them.
fn unavailable(site: &Site<'_>, compiler: &Compiler, out: &Utf8Path) -> Option<String> {
    let source = out.join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").ok()?;
    let mut command = Command::new(&compiler.path);
    command.current_dir(out).args(FLAGS).args(["-x", "c"]).arg(&source).arg("-o").arg(out.join("empty"));
    let said = site.run(command, "an empty program").err()?.to_string();
    let reason = said.lines().find(|line| line.contains("cannot find") || line.contains("error")).unwrap_or(&said);
    Some(format!("this compiler makes no program with sanitizers: {}", reason.trim()))
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

    fn said(source: &str) -> (bool, String) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(scratch.path()).unwrap();
        let manifest = crate_with(folder, source);
        let found = sanitized(folder, &manifest, &["twice".to_owned()], &folder.join("out")).unwrap();
        let Sanitized::Program(program) = found else { panic!("{found:?}") };
        calls(&folder.join("calls"));
        let output = Command::new(program).arg(folder.join("calls")).env("ASAN_OPTIONS", "detect_leaks=0").output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    const HONEST: &str = "struct a { const float *x; float *y; long n; };\n\
        int twice(const struct a *a) { for (long i = 0; i < a->n; i++) a->y[i] = 2 * a->x[i]; return 0; }\n";

    #[test]
    fn an_honest_kernel_is_clean() {
        let (clean, said) = said(HONEST);
        assert!(clean, "{said}");
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
}
