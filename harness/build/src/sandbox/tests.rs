//! Real compilers, and sources that reach for what they may not.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::Manifest;

use super::{Walls, limited, refused};
use crate::compile;
use crate::error::BuildError;

const HEADER: &str = "typedef struct { const float *x; float *y; long rows; long cols; } softmax_args;\n";

/// A crate in a folder of its own, and a file beside it that is none of its business.
struct Ground {
    scratch: tempfile::TempDir,
}

impl Ground {
    fn new(source: &str) -> Self {
        let ground = Self { scratch: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(ground.path("crate/kernels")).unwrap();
        std::fs::create_dir_all(ground.path("beside")).unwrap();
        std::fs::write(ground.path("crate/kernels/softmax.h"), HEADER).unwrap();
        std::fs::write(ground.path("crate/kernels/table.inc"), "7").unwrap();
        std::fs::write(ground.path("beside/answers.h"), "7\n").unwrap();
        let source = source.replace("BESIDE", ground.path("beside").as_str());
        std::fs::write(ground.path("crate/kernels/softmax.c"), source).unwrap();
        ground
    }

    fn path(&self, inside: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.scratch.path()).unwrap().join(inside)
    }

    fn manifest(&self, more: &str) -> Manifest {
        let text = format!(
            "[package.metadata.kopt]\nop = \"softmax\"\nbackend = \"cpu\"\nshapes = [{{ rows = 1, cols = 1 }}]\n{more}"
        );
        kopt_schema::manifest::parse("Cargo.toml", &text, None).unwrap().unwrap()
    }

    fn compile(&self, more: &str) -> Result<compile::Built, BuildError> {
        compile::compile(&self.path("crate"), &self.manifest(more), &self.path("out"))
    }
}

const END: &str = "\nint softmax(const void *args) { return args == 0; }\n";

/// Whether this machine can confine a compiler at all: it says so where it cannot.
pub(crate) fn confines() -> bool {
    let built = Ground::new(END).compile("").unwrap();
    if let Some(lacking) = &built.candidate.unconfined {
        assert!(built.remarks.contains(lacking), "it is said");
        eprintln!("skipped, at least in part: {lacking}");
    }
    built.candidate.unconfined.is_none()
}

#[test]
fn a_source_reads_its_crate_and_the_system() {
    let inside = "#include <math.h>\n#include \"softmax.h\"\nint table[] = {\n#include \"table.inc\"\n};\n\
                  __asm__(\".section .rodata\\n.incbin \\\"kernels/table.inc\\\"\\n.text\");";
    let ground = Ground::new(&format!("{inside}{END}"));
    let built = ground.compile("").unwrap();
    assert!(built.candidate.object.is_some());
    let left: Vec<_> = ground.path("out").read_dir_utf8().unwrap().flatten().collect();
    assert!(left.iter().all(|file| !file.file_name().starts_with(".compiling")), "{left:?}");
}

#[test]
fn a_file_outside_can_be_neither_included_nor_embedded() {
    if !confines() {
        return;
    }
    let sources = [
        ("#include \"/etc/passwd\"", "/etc/passwd"),
        ("int answers =\n#include \"BESIDE/answers.h\"\n;", "beside/answers.h"),
        ("int answers =\n#include \"../../beside/answers.h\"\n;", "beside/answers.h"),
        ("__asm__(\".section .rodata\\n.incbin \\\"BESIDE/answers.h\\\"\\n.text\");", "beside/answers.h"),
        ("__asm__(\".include \\\"BESIDE/answers.h\\\"\");", "beside/answers.h"),
    ];
    for (source, path) in sources {
        let error = Ground::new(&format!("{source}{END}")).compile("").unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, BuildError::Include { .. }), "{source}: {text}");
        assert!(text.contains(path) && text.contains("include_roots"), "{source}: {text}");
    }
}

#[test]
fn what_is_compiled_is_the_same_whatever_lies_around_and_whatever_it_asks() {
    let sources = [
        "#if __has_include(\"../Cargo.toml.orig\")\nint found;\n#endif",
        "#include <sys/cdefs.h>\n#if __CONCAT(__has_, include)(\"../Cargo.toml.orig\")\nint found;\n#endif",
        "#pragma push_macro(\"__has_include\")\n#pragma pop_macro(\"__has_include\")\n#if __has_include(\"../target\")\nint found;\n#endif",
        "#undef __has_include\n#ifdef __has_include\nint found;\n#endif",
        "const char *day = __DATE__ __TIME__ __TIMESTAMP__ __FILE__;",
        "__asm__(\".section .rodata\\n.incbin \\\"target/../kernels/table.inc\\\"\\n.text\");",
    ];
    for source in sources {
        let compile = |around: bool| {
            let ground = Ground::new(&format!("{source}{END}"));
            // The assembler must not find in a folder below what it does not find in the crate.
            std::fs::create_dir_all(ground.path("crate/kernels/target")).unwrap();
            std::fs::create_dir_all(ground.path("crate/kernels/kernels")).unwrap();
            std::fs::write(ground.path("crate/kernels/kernels/table.inc"), "8").unwrap();
            if around {
                std::fs::create_dir(ground.path("crate/target")).unwrap();
                std::fs::write(ground.path("crate/Cargo.toml.orig"), "").unwrap();
            }
            ground.compile("").map(|built| (built.candidate.digest, built.remarks))
        };
        match (compile(false), compile(true)) {
            (Ok((one, said)), Ok((other, _))) => {
                assert_eq!(one, other, "{source}");
                assert!(!said.contains("<command-line>"), "{said}");
            }
            (Err(_), _) => assert!(source.contains(".incbin"), "{source}"),
            (_, Err(error)) => panic!("{source}: {error}"),
        }
    }
}

#[test]
fn who_could_ask_for_files_is_told_that_there_are_none_and_that_it_is_so() {
    let told = |ground: &Ground, more: &str| {
        let built = ground.compile(more).unwrap();
        assert_eq!(
            built.remarks.contains("there are none"),
            built.candidate.flags.contains(&"-D__has_include(file)=0".into())
        );
        built.remarks.contains("there are none")
    };
    assert!(!told(&Ground::new(END), ""));
    assert!(told(&Ground::new(&format!("#if __has_include(<math.h>)\n#endif{END}")), ""));
    assert!(told(&Ground::new(END), "flags = [\"-DASK=__has_include\"]\n"));
    // Nobody includes it, but somebody could.
    let ground = Ground::new(END);
    std::fs::write(ground.path("crate/kernels/table.inc"), "__has_include").unwrap();
    assert!(told(&ground, ""));
    // A root that the repository does not hold is as good as installed.
    let ground = Ground::new(END);
    std::fs::write(ground.path("beside/answers.h"), "#if __has_include(<math.h>)\n#endif\n").unwrap();
    assert!(told(&ground, "include_roots = [\"../beside\"]\n"));
    std::fs::create_dir(ground.path("crate/.git")).unwrap();
    assert!(!told(&ground, "include_roots = [\"../beside\"]\n"));
}

#[test]
fn what_the_librarys_headers_look_for_is_there_for_them() {
    // <cstdint> of libstdc++, from version 13 on, in a crate that could ask itself.
    let library =
        "#if __has_include(<stdint.h>)\n#include <stdint.h>\n#endif\nnamespace library { using ::int_fast8_t; }\n";
    let ground = Ground::new(END);
    std::fs::remove_file(ground.path("crate/kernels/softmax.c")).unwrap();
    let source = format!("{library}#include <cstdint>\nstd::int_fast8_t number;\nextern \"C\"{END}");
    std::fs::write(ground.path("crate/kernels/softmax.cpp"), source).unwrap();
    assert!(ground.compile("language = \"c++\"\n").unwrap().candidate.object.is_some());
}

#[test]
fn nothing_beside_a_source_takes_its_place() {
    for name in ["softmax.h.gch", "below/Cargo.toml"] {
        let ground = Ground::new(END);
        std::fs::create_dir(ground.path("crate/kernels/below")).unwrap();
        std::fs::write(ground.path("crate/kernels").join(name), "").unwrap();
        let error = ground.compile("").unwrap_err().to_string();
        assert!(error.contains(&format!("kernels/{name}")) && error.contains("hint: "), "{error}");
    }
}

#[test]
fn what_lies_in_the_crate_beside_its_sources_is_not_read() {
    let ground = Ground::new(&format!("int answers =\n#include \"../answers.h\"\n;{END}"));
    std::fs::write(ground.path("crate/answers.h"), "7\n").unwrap();
    assert!(!confines() || matches!(ground.compile(""), Err(BuildError::Include { .. })));
    assert!(ground.compile("include_roots = [\".\"]\n").is_ok(), "unless it is declared");
}

#[test]
fn a_declared_root_can_be_read() {
    let source = "int answers =\n#include \"answers.h\"\n;\n\
                  __asm__(\".section .rodata\\n.incbin \\\"BESIDE/answers.h\\\"\\n.text\");";
    let ground = Ground::new(&format!("{source}{END}"));
    assert!(ground.compile("include_roots = [\"../beside\"]\n").unwrap().candidate.object.is_some());
}

#[test]
fn a_link_out_of_the_crate_is_no_way_out() {
    if !confines() {
        return;
    }
    let ground = Ground::new(&format!("int answers =\n#include \"link.h\"\n;{END}"));
    std::os::unix::fs::symlink(ground.path("beside/answers.h"), ground.path("crate/kernels/link.h")).unwrap();
    let error = ground.compile("").unwrap_err().to_string();
    assert!(error.contains("link.h"), "{error}");
}

/// Code of a candidate may not go on when the build is over.
#[test]
fn what_runs_too_long_is_ended_with_what_it_started() {
    let ground = Ground::new(END);
    let (folder, manifest) = (ground.path("crate"), ground.manifest(""));
    let compiler = crate::toolchain::host(false).unwrap();
    std::fs::create_dir_all(ground.path("out")).unwrap();
    let walls = Walls::new(&folder, &manifest, &compiler, &ground.path("out"), &ground.path("out"));
    let run = |script: &str, seconds: f64| {
        let mut command = Command::new("/bin/sh");
        walls.run_within(command.args(["-c", script]), Duration::from_secs_f64(seconds))
    };
    let said = run("sleep 600 & echo $!; echo complaint >&2; exit 3", 60.0).unwrap();
    assert_eq!((said.status.code(), said.stderr.as_slice()), (Some(3), &b"complaint\n"[..]));
    let left = String::from_utf8(said.stdout).unwrap();
    let runs = || std::fs::read(format!("/proc/{}/cmdline", left.trim())).is_ok_and(|command| !command.is_empty());
    let gone = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !runs()
    });
    assert!(gone, "{left} is still there");
    let late = run("sleep 600", 0.2).unwrap_err();
    assert_eq!((late.kind(), late.to_string().as_str()), (ErrorKind::TimedOut, "it did not end within 0.2 s"));
    // All threads of a program may be at work for as long as that.
    let processors = std::thread::available_parallelism().unwrap().get();
    let said = run("sleep 0.1; ulimit -t", 60.0).unwrap();
    assert_eq!(String::from_utf8(said.stdout).unwrap().trim(), (60 * processors).to_string());
}

/// Whoever waits for a compiler waits for ever otherwise, and what a killed build leaves behind runs beside what is measured.
#[test]
fn what_never_comes_to_an_end_is_ended_by_the_system_and_so_is_what_it_started() {
    let start = |script: &str, written| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
        limited(&mut command, Duration::from_secs(1), written).unwrap()
    };
    let alone = start("while :; do :; done", None).wait().unwrap();
    assert_eq!(alone.signal(), Some(24), "{alone}");
    let below = start("sleep 0.1; sh -c 'while :; do :; done'; exit 7", None).wait().unwrap();
    assert_eq!(below.code(), Some(7), "the inner one was ended: {below}");
    let scratch = tempfile::tempdir().unwrap();
    let file = Utf8Path::from_path(scratch.path()).unwrap().join("large");
    let script = format!("sleep 0.1; head -c 100000 /dev/zero > {file} || exit 8");
    assert!(!start(&script, Some(1000)).wait().unwrap().success());
    assert!(file.metadata().unwrap().len() <= 1000);
}

#[test]
fn flags_that_name_programs_are_refused() {
    let bad = [
        "-fplugin=./evil.so",
        "-B.",
        "-B/tmp",
        "-wrapper",
        "-specs=own.specs",
        "--specs=own.specs",
        "@flags.txt",
        "-fuse-ld=gold",
        "-Wl,-plugin,./evil.so",
        "-Xcompiler=-fplugin=./evil.so",
        "-ccbin=./cc",
        "--sysroot=/tmp",
        "-o",
        "-MF",
    ];
    for flag in bad {
        assert!(refused(flag).is_some(), "{flag}");
        let error = Ground::new(END).compile(&format!("flags = [{flag:?}]\n")).unwrap_err().to_string();
        assert!(error.contains(flag), "{error}");
    }
    for flag in ["-O2", "-funroll-loops", "-DNAME=1", "-Wl,-Bsymbolic", "-march=native", "-Iother", "-mavx512f", "-lm"]
    {
        assert_eq!(refused(flag), None, "{flag}");
    }
}
