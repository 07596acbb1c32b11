//! What the cache of compiled kernels takes for the same.

#![allow(clippy::unwrap_used, reason = "a test")]

use camino::Utf8Path;
use kopt_build::cache::{Cache, Order};

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
    assert_eq!(left, 1, "the entry, and nothing of those who made it");
}
