use super::*;

const MANIFEST: &str = "[package]\nname = \"softmax\"\ndescription = \"a\"\n[package.metadata.kopt]\nop = \"softmax\"\nbackend = \"cpu\"\nflags = [\"-O2\"]\ninclude_roots = [\"../shared\"]\nshapes = [{ rows = 1, cols = 8 }]\n[dependencies]\nharness = \"1\"\n";
const ROOT: &str = "[workspace]\nmembers = [\"crates/*\"]\n[workspace.dependencies]\nrand = \"1\"\nplot = \"1\"\n[profile.bench]\nopt-level = 3\n[workspace.lints.rust]\nx = \"warn\"\n";
const LOCK: &str = "version = 4\n[[package]]\nname = \"softmax\"\nversion = \"0.1.0\"\ndependencies = [\"harness\"]\n[[package]]\nname = \"harness\"\nversion = \"0.1.0\"\ndependencies = [\"rand 1.0.0\"]\n[[package]]\nname = \"rand\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"a\"\n[[package]]\nname = \"plot\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"b\"\n";

fn snapshot() -> Snapshot {
    let kernel = |text: &str| kopt_schema::manifest::parse("Cargo.toml", text, None).unwrap().unwrap();
    let package = |name: &str, folder: &str, dependencies: &[&str], links: &[&str]| Package {
        name: name.to_owned(),
        folder: folder.into(),
        manifest: String::new(),
        include_roots: Vec::new(),
        is_kernel: false,
        kernel: None,
        dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        links: links.iter().map(Utf8PathBuf::from).collect(),
        inherits: None,
    };
    let softmax = Package {
        manifest: MANIFEST.to_owned(),
        include_roots: named_roots(MANIFEST),
        is_kernel: true,
        kernel: Some(kernel(MANIFEST)),
        ..package("softmax", "ws/crates/softmax", &["harness"], &["ws/harness"])
    };
    Snapshot {
        workspace: "ws".into(),
        packages: vec![
            package("tool", "ws", &["plot"], &[]),
            package("harness", "ws/harness", &["rand"], &["ws/stats"]),
            package("stats", "ws/stats", &[], &["common/ops"]),
            softmax,
            Package { inherits: Some("common".into()), ..package("ops", "common/ops", &[], &["ws/vendor/bounds"]) },
            package("bounds", "ws/vendor/bounds", &[], &[]),
        ],
        manifest: ROOT.to_owned(),
        lock: Some(LOCK.to_owned()),
    }
}

fn changed(path: &str) -> Changed {
    Changed { before: Some(path.into()), after: Some(path.into()) }
}

fn told(before: &Snapshot, after: &Snapshot, path: &str) -> Vec<(Aspect, String)> {
    let pair = Pair::Both { before: "softmax".to_owned(), after: "softmax".to_owned() };
    reasons(before, after, &[changed(path)], &pair).into_iter().map(|one| (one.aspect, one.why)).collect()
}

#[test]
fn each_file_is_what_it_is_to_the_kernel() {
    let same = snapshot();
    for (path, expected) in [
        ("ws/crates/softmax/kernels/softmax.c", Some((Aspect::Kernel, "is its source"))),
        ("ws/crates/softmax/kernels/softmax.h", Some((Aspect::Kernel, "is the header with its arguments"))),
        ("ws/crates/softmax/kernels/tile.inc", Some((Aspect::Kernel, "lies beside its sources"))),
        ("ws/crates/shared/vec.h", Some((Aspect::Kernel, "is under the include root `../shared`"))),
        ("ws/crates/softmax/src/lib.rs", Some((Aspect::Judging, "is the operator: its reference, bounds and inputs"))),
        ("ws/crates/softmax/tests/correctness.rs", Some((Aspect::Judging, "checks and times it"))),
        ("ws/crates/softmax/build.rs", Some((Aspect::Judging, "builds it"))),
        ("ws/crates/softmax/data.bin", Some((Aspect::Judging, "is a file of the crate"))),
        ("ws/harness/src/bound.rs", Some((Aspect::Judging, "is a part of harness, which it depends on"))),
        ("ws/stats/src/lib.rs", Some((Aspect::Judging, "is a part of stats, which it depends on"))),
        ("ws/rust-toolchain.toml", Some((Aspect::Toolchain, "names the toolchain"))),
        ("rust-toolchain", Some((Aspect::Toolchain, "names the toolchain"))),
        ("ws/crates/shared", Some((Aspect::Kernel, "is under the include root `../shared`"))),
        ("ws/stats", Some((Aspect::Judging, "is a submodule or a link that stats lies behind, which it depends on"))),
        ("ws/vendor", Some((Aspect::Judging, "is a submodule or a link that bounds lies behind, which it depends on"))),
        ("ws/crates/softmax", Some((Aspect::Judging, "is a submodule or a link that the crate lies behind"))),
        ("ws/tool", None),
        ("ws/.cargo/config.toml", Some((Aspect::Judging, "configures cargo"))),
        ("ws/stats/Cargo.toml", Some((Aspect::Judging, "is the manifest of stats, which it depends on"))),
        ("common/ops/src/lib.rs", Some((Aspect::Judging, "is a part of ops, which it depends on"))),
        ("common/ops/Cargo.toml", Some((Aspect::Judging, "is the manifest of ops, which it depends on"))),
        ("common/Cargo.toml", Some((Aspect::Judging, "is the manifest of ops, which it depends on"))),
        ("ws/vendor/bounds/src/lib.rs", Some((Aspect::Judging, "is a part of bounds, which it depends on"))),
        ("ws/crates/softmax/kernels/Cargo.toml", Some((Aspect::Kernel, "lies beside its sources"))),
        ("ws/crates/softmax/Cargo.toml", None),
        ("common/other/src/lib.rs", None),
        ("ws/stats/tests/all.rs", None),
        ("ws/README.md", None),
        ("ws/crates/softmax/README.md", None),
        ("ws/crates/softmax/kernels/NOTES.md", Some((Aspect::Kernel, "lies beside its sources"))),
        ("ws/crates/shared/NOTES.md", Some((Aspect::Kernel, "is under the include root `../shared`"))),
        ("ws/crates/softmax/src/A.md", Some((Aspect::Judging, "is the operator: its reference, bounds and inputs"))),
        ("ws/crates/softmax/benches/NOTES.md", Some((Aspect::Judging, "checks and times it"))),
        ("ws/harness/src/TABLE.md", Some((Aspect::Judging, "is a part of harness, which it depends on"))),
        ("ws/stats/tests/NOTES.md", None),
        ("ws/harness/docs/NOTES.md", None),
        ("ws/crates/softmax/patches/01.patch", None),
        ("ws/src/main.rs", None),
        ("ws/.github/workflows/ci.yml", None),
        ("LICENSE-MIT", None),
        ("elsewhere/rust-toolchain.toml", None),
    ] {
        let expected: Vec<(Aspect, String)> =
            expected.into_iter().map(|(aspect, why)| (aspect, why.to_owned())).collect();
        assert_eq!(told(&same, &same, path), expected, "{path}");
    }
}

#[test]
fn an_include_root_behind_a_submodule_is_reached_by_it_though_the_manifest_is_wrong_without() {
    let mut same = snapshot();
    let kernel = same.packages.iter_mut().find(|package| package.is_kernel).unwrap();
    kernel.manifest = MANIFEST.replace("../shared", "../../../third_party/vec/include");
    kernel.include_roots = named_roots(&kernel.manifest);
    kernel.kernel = None;
    let why = "is a submodule or a link that the include root `../../../third_party/vec/include` lies behind";
    assert_eq!(told(&same, &same, "third_party/vec"), [(Aspect::Kernel, why.to_owned())]);
    assert_eq!(told(&same, &same, "third_party/other"), []);
}

#[test]
fn where_a_source_lies_in_the_root_of_a_crate_all_of_it_can_be_included() {
    let mut same = snapshot();
    let kernel = same.packages.iter_mut().find(|package| package.is_kernel).unwrap();
    kernel.kernel.as_mut().unwrap().sources = vec!["softmax.c".to_owned()];
    for inside in ["patches/01.h", "README.md", "examples/table.h", "Cargo.toml"] {
        let expected = [(Aspect::Kernel, "lies where its compiler can read it".to_owned())];
        assert_eq!(told(&same, &same, &format!("ws/crates/softmax/{inside}")), expected, "{inside}");
    }
    let judging = [(Aspect::Judging, "checks and times it".to_owned())];
    assert_eq!(told(&same, &same, "ws/crates/softmax/tests/correctness.rs"), judging);
}

#[test]
fn of_a_manifest_only_what_is_built_or_judged_counts() {
    let before = snapshot();
    let with = |from: &str, to: &str| {
        let mut after = before.clone();
        let kernel = after.packages.iter_mut().find(|package| package.is_kernel).unwrap();
        assert!(kernel.manifest.contains(from));
        kernel.manifest = kernel.manifest.replace(from, to);
        told(&before, &after, "ws/crates/softmax/Cargo.toml")
    };
    let judging = |text: &str| vec![(Aspect::Judging, text.to_owned())];
    assert_eq!(with("\"a\"", "\"b\""), []);
    assert_eq!(with("-O2", "-O3"), [(Aspect::Kernel, "changes `flags` of the kernel".to_owned())]);
    assert_eq!(with("cols = 8", "cols = 9"), judging("changes `shapes` of the kernel"));
    assert_eq!(with("harness = \"1\"", "harness = \"2\""), judging("changes `dependencies` of the crate"));
}

#[test]
fn of_the_workspace_only_what_the_kernel_depends_on_counts() {
    let before = snapshot();
    let with = |from: &str, to: &str| {
        assert!(ROOT.contains(from));
        let after = Snapshot { manifest: ROOT.replace(from, to), ..before.clone() };
        told(&before, &after, "ws/Cargo.toml")
    };
    let judging = |text: &str| vec![(Aspect::Judging, text.to_owned())];
    assert_eq!(with("rand = \"1\"", "rand = \"2\""), judging("changes `rand` of the workspace"));
    assert_eq!(with("plot = \"1\"", "plot = \"2\""), []);
    assert_eq!(with("\"warn\"", "\"deny\""), []);
    assert_eq!(with("\"crates/*\"", "\"crates/*\", \"more\""), []);
    assert_eq!(with("opt-level = 3", "opt-level = 0"), judging("changes `profile` of the workspace"));
    let flags = with("[profile.bench]", "[workspace.metadata.kopt]\nflags = []\n[profile.bench]");
    assert_eq!(flags, [(Aspect::Kernel, "changes `metadata.kopt.flags` of the workspace".to_owned())]);
}

#[test]
fn of_the_lock_file_only_the_kernels_own_dependencies_count() {
    let before = snapshot();
    let with = |from: &str, to: &str| {
        assert!(LOCK.contains(from), "{from}");
        let after = Snapshot { lock: Some(LOCK.replace(from, to)), ..before.clone() };
        told(&before, &after, "ws/Cargo.lock")
    };
    assert_eq!(with("checksum = \"b\"", "checksum = \"c\""), []);
    let (_, why) = with("checksum = \"a\"", "checksum = \"z\"").remove(0);
    assert_eq!(why, "changes what it depends on: rand 1.0.0");
    let (_, why) = with("dependencies = [\"rand 1.0.0\"]\n", "").remove(0);
    assert_eq!(why, "changes what it depends on: without rand");
    let none = Snapshot { lock: None, ..before.clone() };
    assert_eq!(told(&before, &none, "ws/Cargo.lock")[0].1, "fixes the versions of its dependencies");
}

#[test]
fn kernels_are_paired_by_name_by_folder_and_by_where_their_files_went() {
    let before = snapshot();
    let renamed = |name: &str, folder: &str| {
        let mut after = before.clone();
        let kernel = after.packages.iter_mut().find(|package| package.is_kernel).unwrap();
        (kernel.name, kernel.folder) = (name.to_owned(), folder.into());
        after
    };
    let both = |after: &str| vec![Pair::Both { before: "softmax".to_owned(), after: after.to_owned() }];
    assert_eq!(pairs(&before, &before, &[]), both("softmax"));
    assert_eq!(pairs(&before, &renamed("softmax", "ws/crates/other"), &[]), both("softmax"));
    assert_eq!(pairs(&before, &renamed("soft", "ws/crates/softmax"), &[]), both("soft"));
    let moved = Changed {
        before: Some("ws/crates/softmax/kernels/softmax.c".into()),
        after: Some("ws/crates/soft/kernels/soft.c".into()),
    };
    assert_eq!(pairs(&before, &renamed("soft", "ws/crates/soft"), &[moved]), both("soft"));
    // Nothing else tells, and it computes the same in the same place.
    assert_eq!(pairs(&before, &renamed("soft", "ws/crates/soft"), &[]), both("soft"));
    let mut other = renamed("soft", "ws/crates/soft");
    other.packages.iter_mut().find_map(|package| package.kernel.as_mut()).unwrap().op = "layernorm".to_owned();
    let apart = [Pair::Added("soft".to_owned()), Pair::Removed("softmax".to_owned())];
    assert_eq!(pairs(&before, &other, &[]), apart);
    // Sources in a folder of another name, and in the crate's root, went there all the same; what else did says nothing.
    for (from, to, found) in [
        ("csrc/softmax.c", "csrc/soft.c", both("soft")),
        ("softmax.c", "soft.c", both("soft")),
        ("src/lib.rs", "src/lib.rs", apart.to_vec()),
    ] {
        let with = |snapshot: &Snapshot, source: &str| {
            let mut snapshot = snapshot.clone();
            let kernel = snapshot.packages.iter_mut().find_map(|package| package.kernel.as_mut()).unwrap();
            kernel.sources = vec![source.to_owned()];
            snapshot
        };
        let moved = Changed {
            before: Some(format!("ws/crates/softmax/{from}").into()),
            after: Some(format!("ws/crates/soft/{to}").into()),
        };
        let source = |path: &str| if path.ends_with(".c") { path.to_owned() } else { "softmax.c".to_owned() };
        assert_eq!(pairs(&with(&before, &source(from)), &with(&other, &source(to)), &[moved]), found, "{from}");
    }
}

/// What the other commit has of a kernel that one has and the other has not, whichever of them is the base. `own` and `other` are
/// their manifests.
fn elsewhere(
    [with, without]: [&Snapshot; 2],
    [own, other]: [&[(Utf8PathBuf, String)]; 2],
    moved: &[(&str, &str)],
) -> Option<Utf8PathBuf> {
    let (own, other) = (crates(own), crates(other));
    let changed = |from: &str, to: &str| Changed { before: Some(from.into()), after: Some(to.into()) };
    let gone: Vec<Changed> = moved.iter().map(|&(from, to)| changed(from, to)).collect();
    let come: Vec<Changed> = moved.iter().map(|&(from, to)| changed(to, from)).collect();
    let removed = still_in(&Pair::Removed("softmax".to_owned()), [with, without], [&own, &other], &gone);
    let added = still_in(&Pair::Added("softmax".to_owned()), [without, with], [&other, &own], &come);
    assert_eq!(removed, added);
    removed
}

fn manifest(folder: &str, text: &str) -> (Utf8PathBuf, String) {
    (folder.into(), text.to_owned())
}

fn named(name: &str) -> String {
    format!("[package]\nname = \"{name}\"\n")
}

#[test]
fn a_crate_is_found_by_its_folder_whatever_it_is_and_by_its_name_where_it_moved() {
    let with = snapshot();
    let mut without = with.clone();
    without.packages.retain(|package| !package.is_kernel);
    let in_place = manifest("ws/crates/softmax", MANIFEST);
    for (folder, text, was_there, expected) in [
        ("ws/crates/softmax", named("other"), false, true),
        ("elsewhere/softmax", named("softmax"), false, true),
        // Both have it: a fixture, an example, another workspace's.
        ("elsewhere/softmax", named("softmax"), true, false),
        ("ws/crates/softmax", "[".to_owned(), false, true),
        ("ws/crates/softmax", "[workspace]\nmembers = [\"softmax\"]\n".to_owned(), false, false),
        ("ws/crates/rmsnorm", named("rmsnorm"), false, false),
    ] {
        let other = [manifest("ws", ROOT), manifest(folder, &text)];
        let own = [&other[..1], std::slice::from_ref(&in_place), if was_there { &other[1..] } else { &[] }].concat();
        let found = elsewhere([&with, &without], [&own, &other], &[]);
        assert_eq!(found, expected.then(|| Utf8PathBuf::from(folder)), "{folder}, was there: {was_there}: {text}");
    }
}

#[test]
fn a_crate_is_found_under_another_name_where_the_files_that_make_it_went() {
    let with = snapshot();
    let mut without = with.clone();
    without.packages.retain(|package| !package.is_kernel);
    let rmsnorm = Package {
        name: "rmsnorm".to_owned(),
        folder: "ws/crates/rmsnorm".into(),
        ..with.package("softmax").unwrap().clone()
    };
    without.packages.push(rmsnorm);
    let own = [manifest("ws", ROOT), manifest("ws/crates/softmax", MANIFEST)];
    let other = [
        manifest("ws", ROOT),
        manifest("ws/crates/rmsnorm", &named("rmsnorm")),
        manifest("other", "[workspace]\n"),
        manifest("other/gamma", &named("gamma")),
        manifest("other/gamma/broken", "["),
    ];
    for (from, to, expected) in [
        ("kernels/softmax.c", "other/gamma/kernels/gamma.c", Some("other/gamma")),
        ("kernels/softmax.c", "other/gamma/csrc/gamma.c", Some("other/gamma")),
        ("kernels/softmax.c", "other/gamma/broken/gamma.c", Some("other/gamma/broken")),
        // What else is in a crate is alike in many.
        ("src/lib.rs", "other/gamma/src/lib.rs", None),
        ("kernels/softmax.c", "other/notes/softmax.c", None),
        // The gate looks at that one, too.
        ("kernels/softmax.c", "ws/crates/rmsnorm/kernels/softmax.c", None),
    ] {
        let from = format!("ws/crates/softmax/{from}");
        let found = elsewhere([&with, &without], [&own, &other], &[(from.as_str(), to)]);
        assert_eq!(found, expected.map(Utf8PathBuf::from), "{to}");
    }
}

#[test]
fn folders_that_sources_include_from_are_known_by_the_manifests_alone() {
    let manifests = [
        ("ws/crates/softmax".into(), MANIFEST.to_owned()),
        ("ws".into(), ROOT.to_owned()),
        ("broken".into(), "[".to_owned()),
    ];
    assert_eq!(include_roots(&manifests), ["ws/crates/shared"]);
}

#[test]
fn a_file_that_was_moved_is_also_what_it_was() {
    let same = snapshot();
    let moved = Changed {
        before: Some("ws/crates/softmax/src/lib.rs".into()),
        after: Some("ws/crates/softmax/kernels/lib.inc".into()),
    };
    let pair = Pair::Both { before: "softmax".to_owned(), after: "softmax".to_owned() };
    let aspects: Vec<Aspect> = reasons(&same, &same, &[moved], &pair).into_iter().map(|one| one.aspect).collect();
    assert_eq!(aspects, [Aspect::Kernel, Aspect::Judging]);
}
