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
