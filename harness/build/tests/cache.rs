//! What the cache of compiled kernels takes for the same.

#![allow(clippy::unwrap_used, reason = "a test")]

use camino::Utf8Path;
use kopt_build::cache::{Cache, Order};
use kopt_schema::candidate::Candidate;
use rustix::fs::{CWD, RenameFlags, renameat_with};

const SOURCE: &str = "#include \"probe.h\"\nint probe(const probe_args *args) { return args->n == ANSWER; }\n";

#[test]
fn a_cache_among_the_sources_is_none_of_them() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap().to_owned();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("probe.c", SOURCE);
    write("probe.h", "typedef struct { long n; } probe_args;\n#define ANSWER 1\n");
    let text = "[package.metadata.kopt]\nop = \"probe\"\nbackend = \"cpu\"\nsources = [\"probe.c\"]\nheader = \"probe.h\"\n\
                shapes = [{ n = 4 }]\n";
    let manifest = kopt_schema::manifest::parse("Cargo.toml", text, None).unwrap().unwrap();
    let order = Order { folder: folder.clone(), manifest };
    let cache = Cache::new(folder.join("target/kopt/candidates"));
    let first = cache.candidate(&order).unwrap();
    assert_eq!(cache.candidate(&order).unwrap(), first);
    write("probe.h", "typedef struct { long n; } probe_args;\n#define ANSWER 2\n");
    assert_ne!(cache.candidate(&order).unwrap(), first);
}

/// An entry without an object is made anew each time, and whoever makes it meets others who do.
#[test]
fn an_entry_that_stands_in_the_way_is_replaced_whoever_else_does_so() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap().to_owned();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("probe.c", SOURCE);
    write("probe.h", "typedef struct { long n; } probe_args;\n#define ANSWER 1\n");
    let text = "[package.metadata.kopt]\nop = \"probe\"\nbackend = \"cpu\"\nsources = [\"probe.c\"]\nheader = \"probe.h\"\n\
                shapes = [{ n = 4 }]\n";
    let manifest = kopt_schema::manifest::parse("Cargo.toml", text, None).unwrap().unwrap();
    let order = Order { folder: folder.clone(), manifest };
    let cache = Cache::new(folder.join("target/kopt/candidates"));
    let file = cache.candidate(&order).unwrap();
    let object = file.parent().unwrap().join("kernel.so");
    let whole = std::fs::read(&object).unwrap();
    // All find the same damage.
    std::fs::write(&object, "damaged").unwrap();
    std::thread::scope(|scope| {
        let made: Vec<_> = (0..8).map(|_| scope.spawn(|| cache.candidate(&order))).collect();
        for one in made {
            assert_eq!(one.join().unwrap().unwrap(), file);
        }
    });
    assert_eq!(std::fs::read(&object).unwrap(), whole);
    let left = folder.join("target/kopt/candidates").read_dir_utf8().unwrap().flatten().count();
    assert_eq!(left, 2, "the entry, what is locked, and nothing of those who made it");
}

/// Where the compiler is missing every process makes an entry anew: who was told of one reads it while others put theirs in its place.
#[test]
fn an_entry_that_was_told_of_is_there_while_others_replace_it() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap().to_owned();
    std::fs::create_dir(folder.join("kernels")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join("kernels").join(name), text).unwrap();
    let header = "#include <stdint.h>\ntypedef struct probe_args { int64_t n; } probe_args;\n";
    let digest = kopt_build::digest_of_bytes(header.as_bytes());
    write("probe.py", "");
    write("probe.h", header);
    // For where libclang is not installed.
    let bindings = format!("// header digest: {digest}\n#[repr(C)]\npub struct probe_args {{ pub n: i64 }}\n");
    write("probe.bindings.rs", &bindings);
    write("probe.launch.toml", "[[launch]]\nkernel = \"probe\"\ngrid = [1]\n");
    let text = "[package.metadata.kopt]\nop = \"probe\"\nbackend = \"cuda\"\nlanguage = \"triton\"\n\
                generator = [\"no-such-generator-of-kopt\"]\nshapes = [{ n = 4 }]\n";
    let manifest = kopt_schema::manifest::parse("Cargo.toml", text, None).unwrap().unwrap();
    let order = Order { folder: folder.clone(), manifest };
    let cache = Cache::new(folder.join("cache"));
    let file = cache.candidate(&order).unwrap();
    let read = || -> std::io::Result<Candidate> { Ok(serde_json::from_slice(&std::fs::read(&file)?)?) };
    assert!(read().unwrap().missing.is_some());
    let in_one_step = exchanges(&folder);
    std::thread::scope(|scope| {
        let made: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..5 {
                        assert_eq!(cache.candidate(&order).unwrap(), file);
                        // On other file systems an entry may be gone for a moment.
                        assert!(!in_one_step || read().is_ok(), "{:?}", read());
                    }
                })
            })
            .collect();
        made.into_iter().for_each(|one| one.join().unwrap());
    });
    assert!(read().unwrap().missing.is_some());
    let left = folder.join("cache").read_dir_utf8().unwrap().count();
    assert_eq!(left, 2, "the entry, what is locked, and nothing of those who made it");
}

/// Whether two folders change places in one step here.
fn exchanges(folder: &Utf8Path) -> bool {
    let [one, other] = ["one", "other"].map(|name| folder.join(name));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&other).unwrap();
    renameat_with(CWD, one.as_std_path(), CWD, other.as_std_path(), RenameFlags::EXCHANGE).is_ok()
}
