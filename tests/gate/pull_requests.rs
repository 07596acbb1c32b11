//! Pull requests of known truth, and what the gate says of each.

use git2::build::TreeUpdateBuilder;
use serde_json::Value;

use crate::history::somebody;
use crate::sandbox::Ran;
use crate::stage::{ALPHA, BETA, MARK, Stage};

/// The messages about kernels.
fn kernels(stage: &Stage, head: &str, codes: &[i32]) -> Vec<Value> {
    let ran = stage.gate(head, &["--message-format", "json"]);
    assert!(codes.contains(&ran.code), "{}\n{}", ran.stdout, ran.stderr);
    ran.messages().into_iter().filter(|message| message["reason"] == "gate-kernel").collect()
}

#[test]
fn text_for_people_reaches_no_kernel_and_nothing_is_built_or_even_exported() {
    let stage = Stage::new();
    let head = stage.request("words", |stage| {
        stage.write("README.md", "# Kernels\n\nMore words.\n");
        stage.write("crates/alpha/NOTES.md", "Words.\n");
    });
    stage.gate(&head, &[]).exits(0).says("2 files differ").says("PASSED: the change reaches no kernel");
    assert!(!stage.path("target/kopt").exists());
    let head = stage.request("a script", |stage| stage.write("scripts/run", "echo\n"));
    stage.gate(&head, &[]).exits(0).says("PASSED: the change reaches no kernel");
    assert!(!stage.path("target/kopt/judge").exists() && !stage.path("target/kopt/candidates").exists());
}

#[test]
fn equal_code_needs_no_judge() {
    let stage = Stage::new();
    let comment = stage.request("comment", |stage| stage.edit(ALPHA, "/* Never run", "/* A line\n   more. Never run"));
    let refactor = stage.request("refactor", |stage| {
        stage.edit(
            ALPHA,
            "int64_t i = 0; i < args->rows * args->cols; i++",
            "int64_t at = 0; at < args->rows * args->cols; at++",
        );
        stage.edit(ALPHA, "args->y[i] = args->x[i]", "args->y[at] = args->x[at]");
    });
    for head in [comment, refactor] {
        let ran = stage.gate(&head, &[]).exits(0);
        ran.says("Reached alpha: crates/alpha/kernels/softmax.c is its source")
            .says("PASSED: alpha same code; 1 kernel not reached");
    }
    // Both are compiled by the toolchain at hand, whatever the head names.
    let toolchain = stage.request("toolchain", |stage| {
        stage.write("rust-toolchain.toml", "[toolchain]\nchannel = \"stable\"\n");
    });
    let ran = stage.gate(&toolchain, &[]).exits(0).says("rust-toolchain.toml names the toolchain");
    ran.says("compiled by the one at hand").says("PASSED: alpha, beta same code");
    assert!(!stage.path("target/kopt/judge").exists());
}

#[test]
fn slower_is_caught_in_all_shapes_and_in_one_of_eight_and_faster_passes() {
    let stage = Stage::new();
    let cases: [(&str, &[i32], &str, &str); 9] = [
        ("TIME=1.030;", &[100, 104], "", ""),
        ("TIME=1.050;", &[100], "regressed", "slower by more than 2 %, shown and confirmed"),
        ("TIME=1.200;", &[100], "regressed", "the mean over all shapes"),
        ("TIME=1.000;tall=1.030;", &[100, 104], "", ""),
        ("TIME=1.000;tall=1.050;", &[100], "regressed", "new seeds: tall"),
        ("TIME=1.000;4x64=1.200;", &[100], "regressed", "4x64"),
        ("TIME=0.900;4x64=1.200;", &[100], "regressed", "4x64"),
        ("TIME=0.900;", &[0], "faster", "no shape is slower by 2 % or more"),
        ("TIME=1.010;", &[0], "passed", "no shape is slower by 2 % or more"),
    ];
    for (mark, codes, outcome, text) in cases {
        let head = stage.request(mark, |stage| stage.edit(ALPHA, MARK, mark));
        let kernels = kernels(&stage, &head, codes);
        assert_eq!((kernels.len(), kernels[0]["kernel"].as_str()), (1, Some("alpha")));
        assert!(outcome.is_empty() || kernels[0]["outcome"] == outcome, "{mark}: {}", kernels[0]);
        assert!(kernels[0]["text"].as_str().unwrap().contains(text), "{mark}: {}", kernels[0]["text"]);
        assert_eq!(kernels[0]["verdict"]["shapes"].as_array().unwrap().len(), 8);
        let evidence = kernels[0]["evidence"].as_str().unwrap();
        let ran = stage.sandbox.kopt(&["verdict", evidence]).says("Agrees");
        assert!(codes.contains(&ran.code));
    }
}

/// A slower kernel, by the one way or the other that no line of the compiled source shows.
#[test]
fn a_slower_kernel_passes_by_no_way_around_its_source() {
    type Way<'a> = (&'a str, &'a str, &'a dyn Fn(&Stage));
    const SLOW: &str = "TIME=1.200;";
    let table = "[package.metadata.kopt]\n";
    let stage = Stage::new();
    let source = stage.sandbox.read(ALPHA);
    // Two sources, of which one is compiled.
    stage.write("crates/alpha/kernels/second.c", &source.replace(MARK, SLOW));
    // Sources in a folder of their own, with headers beside them, one by the name of a document.
    let (first, second) = ("#define FIRST \"TIME=1.000;\"\n", "#define SECOND \"tall=1.000;\"\n");
    stage.write("crates/beta/csrc/first.h", first);
    stage.write("crates/beta/csrc/SECOND.md", second);
    let included = "#include \"softmax.h\"\n#include \"first.h\"\n#include \"SECOND.md\"\n";
    let beta = stage.sandbox.read(BETA).replace(&format!("\"{MARK}\""), "FIRST SECOND");
    stage.write("crates/beta/csrc/softmax.c", &beta.replace("#include \"softmax.h\"\n", included));
    // A link to one of two folders.
    stage.write("crates/alpha/kernels/one/third.h", "#define THIRD \"4x64=1.000;\"\n");
    stage.write("crates/alpha/kernels/two/third.h", "#define THIRD \"4x64=1.200;\"\n");
    let linked = stage.path("crates/alpha/kernels/linked");
    std::os::unix::fs::symlink("one", &linked).unwrap();
    stage.edit(ALPHA, &format!("\"{MARK}\""), &format!("\"{MARK}\" THIRD"));
    stage.edit(ALPHA, "#include \"softmax.h\"\n", "#include \"softmax.h\"\n#include \"linked/third.h\"\n");
    stage.edit("crates/beta/Cargo.toml", table, &format!("{table}sources = [\"csrc/softmax.c\"]\n"));
    stage.commit("more sources");
    let ways: [Way<'_>; 5] = [
        ("another source", "alpha", &|stage| {
            stage.edit("crates/alpha/Cargo.toml", table, &format!("{table}sources = [\"kernels/second.c\"]\n"));
        }),
        ("a header beside it", "beta", &|stage| stage.edit("crates/beta/csrc/first.h", "1.000", "1.200")),
        ("a document that is included", "beta", &|stage| stage.edit("crates/beta/csrc/SECOND.md", "1.000", "1.200")),
        ("a link that leads elsewhere", "alpha", &|_| {
            std::fs::remove_file(&linked).unwrap();
            std::os::unix::fs::symlink("two", &linked).unwrap();
        }),
        ("a link that leads nowhere", "alpha", &|stage| {
            stage.edit(ALPHA, MARK, SLOW);
            std::os::unix::fs::symlink("gone", stage.path("crates/alpha/kernels/link")).unwrap();
        }),
    ];
    for (way, name, change) in ways {
        let head = stage.request(way, change);
        let kernels = kernels(&stage, &head, &[100]);
        let found = kernels.iter().find(|kernel| kernel["kernel"] == name).unwrap();
        assert_eq!(found["outcome"], "regressed", "{way}: {found}");
    }
}

/// What judges a kernel may lie outside of its workspace, and what it is made of may be called anything.
#[test]
fn what_lies_elsewhere_or_has_another_name_reaches_the_kernel_all_the_same() {
    let stage = Stage::new();
    let package = |name: &str, more: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{more}")
    };
    // An operator's bounds, by two paths from a crate that is in no workspace.
    stage.write("vendor/ops/Cargo.toml", &package("ops", "[dependencies]\nbounds = { path = \"../bounds\" }\n"));
    stage.write("vendor/bounds/Cargo.toml", &package("bounds", ""));
    for name in ["ops", "bounds"] {
        stage.write(&format!("vendor/{name}/src/lib.rs"), "");
    }
    stage.edit("Cargo.toml", "resolver", "exclude = [\"vendor\"]\nresolver");
    let with = "[dev-dependencies]\nops = { path = \"../../vendor/ops\" }\n\n[lib]\n";
    stage.edit("crates/alpha/Cargo.toml", "[lib]\n", with);
    // Sources by the names of a manifest and of a document, the latter where only folders are beside it.
    stage.write("include/more/Cargo.toml", "# define FIRST \"TIME=1.000;\"\n");
    stage.write("include/SECOND.md", "#define SECOND \"tall=1.000;\"\n");
    let included = "#include \"softmax.h\"\n#include \"more/Cargo.toml\"\n#include \"SECOND.md\"\n";
    stage.edit(ALPHA, "#include \"softmax.h\"\n", included);
    stage.edit(ALPHA, &format!("\"{MARK}\""), "FIRST SECOND");
    let table = "[package.metadata.kopt]\n";
    stage.edit("crates/alpha/Cargo.toml", table, &format!("{table}include_roots = [\"../../include\"]\n"));
    stage.commit("all of it");
    let bounds = stage.request("bounds", |stage| stage.write("vendor/bounds/src/lib.rs", "//! Wider.\n"));
    let ran = stage.gate(&bounds, &[]).exits(0).says("is a part of bounds, which it depends on");
    ran.says("alpha same code").says("the change edits what judges it");
    // Rust code includes what lies beside it by any name.
    let data = stage.request("a table", |stage| stage.write("vendor/bounds/src/TABLE.md", "1e-3\n"));
    let ran = stage.gate(&data, &[]).exits(0).says("is a part of bounds, which it depends on");
    ran.says("the change edits what judges it");
    for path in ["include/more/Cargo.toml", "include/SECOND.md"] {
        let slower = stage.request(path, |stage| stage.edit(path, "1.000", "1.200"));
        let kernels = kernels(&stage, &slower, &[100]);
        assert_eq!(kernels[0]["outcome"], "regressed", "{path}: {}", kernels[0]);
    }
}

/// A repository has only the number of a submodule's commit, and none of its files.
#[test]
fn a_kernel_that_includes_from_a_submodule_is_not_judged() {
    let stage = Stage::new();
    let table = "[package.metadata.kopt]\n";
    let root = format!("{table}include_roots = [\"../../third_party/vec/include\"]\n");
    stage.edit("crates/alpha/Cargo.toml", table, &root);
    stage.commit("includes from elsewhere");
    let repository = stage.repository();
    let with = |parent: git2::Oid, number: &str, message: &str| {
        let parent = repository.find_commit(parent).unwrap();
        let number = git2::Oid::from_str(&number.repeat(40)).unwrap();
        let mut update = TreeUpdateBuilder::new();
        update.upsert("third_party/vec", number, git2::FileMode::Commit);
        let tree = update.create_updated(&repository, &parent.tree().unwrap()).unwrap();
        let (tree, who) = (repository.find_tree(tree).unwrap(), somebody());
        repository.commit(None, &who, &who, message, &tree, &[&parent]).unwrap()
    };
    let base = with(repository.head().unwrap().target().unwrap(), "1", "a submodule");
    let head = with(base, "2", "a newer one");
    let ran = Ran::of(&mut stage.command(&["gate", "--base", &base.to_string(), "--head", &head.to_string()]));
    let ran = ran.exits(104).says("third_party/vec is a submodule or a link that the include root");
    let ran = ran.says("alpha NOT JUDGED: `third_party/vec` is a submodule, which is not exported");
    ran.says("`third_party/vec` is a submodule: not supported");
}

#[test]
fn a_kernel_does_not_leave_the_gate_by_naming_a_compiler_that_is_not_here() {
    if let Ok(nvcc) = kopt_build::toolchain::nvcc() {
        eprintln!("skipped: nvcc is here ({})", nvcc.path);
        return;
    }
    let stage = Stage::new();
    let to_cuda = |stage: &Stage, name: &str| {
        let folder = format!("crates/{name}");
        stage.edit(&format!("{folder}/Cargo.toml"), "backend = \"cpu\"", "backend = \"cuda\"");
        stage.write(&format!("{folder}/kernels/softmax.cu"), "#include \"softmax.h\"\n");
        let plan = "[[launch]]\nkernel = \"softmax\"\ngrid = [\"rows\"]\nblock = [32]\n";
        stage.write(&format!("{folder}/kernels/softmax.launch.toml"), plan);
    };
    let moved = stage.request("moved", |stage| to_cuda(stage, "alpha"));
    stage.gate(&moved, &[]).exits(104).says("alpha NOT JUDGED: ").says("takes the kernel out of this gate's sight");
    // One that could never be judged here is for another machine.
    let new = stage.request("new", |stage| {
        stage.add("gamma");
        to_cuda(stage, "gamma");
    });
    stage.gate(&new, &[]).exits(0).says("gamma not judged here");
}

#[test]
fn that_a_compiler_was_not_confined_is_told() {
    let stage = Stage::new();
    let head = stage.request("slower", |stage| stage.edit(ALPHA, MARK, "TIME=1.001;"));
    stage.gate(&head, &["--max-time", "0.001s", "--inconclusive", "pass"]).exits(0);
    // As on a system without landlock.
    for entry in std::fs::read_dir(stage.path("target/kopt/candidates")).unwrap() {
        let entry = entry.unwrap().path();
        // Beside the candidates lies a lock.
        if !entry.is_dir() {
            continue;
        }
        let file = entry.join("candidate.json");
        let mut candidate: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        candidate["unconfined"] = "the system has no landlock".into();
        std::fs::write(&file, serde_json::to_vec(&candidate).unwrap()).unwrap();
    }
    let ran = stage.gate(&head, &["--max-time", "0.001s", "--inconclusive", "pass"]).exits(0);
    ran.says("the compiler was not confined").says("the system has no landlock");
    let ran = stage.sandbox.kopt(&["compare", "main", &head, "-p", "alpha", "--max-time", "0.001s"]);
    let ran = ran.says("the compiler was not confined");
    assert_eq!(ran.stderr.matches("the compiler was not confined").count(), 1, "{}", ran.stderr);
}

#[test]
fn what_this_machine_could_compile_and_does_not_build_fails() {
    let stage = Stage::new();
    let table = "[package.metadata.kopt]\n";
    let renamed = stage.request("a header called a document", |stage| {
        let text = stage.sandbox.read("crates/alpha/kernels/softmax.h");
        std::fs::remove_file(stage.path("crates/alpha/kernels/softmax.h")).unwrap();
        stage.write("crates/alpha/kernels/HEADER.md", &text);
    });
    let flags = stage.request("a plugin", |stage| {
        stage.edit("crates/alpha/Cargo.toml", table, &format!("{table}flags = [\"-fplugin=x.so\"]\n"));
    });
    for head in [renamed, flags] {
        let kernels = kernels(&stage, &head, &[101]);
        assert_eq!(kernels[0]["outcome"], "does-not-build", "{}", kernels[0]);
    }
    // What did not build before is not the change's doing, and nothing is known of it either.
    stage.edit(ALPHA, "return 0;", "retrun 0;");
    stage.commit("broken");
    let still = stage.request("still broken", |stage| stage.edit(ALPHA, MARK, "TIME=1.300;"));
    let ran = stage.gate(&still, &[]).exits(104).says("alpha NOT JUDGED: the head's version does not compile");
    ran.says("nor does the base's version");
    let mended = stage.request("mended", |stage| stage.edit(ALPHA, "retrun 0;", "return 0;"));
    let ran = stage.gate(&mended, &[]).exits(104).says("alpha NOT COMPARED: the base's version does not compile");
    let ran = ran.says("a commit says so: `Kopt-Allow: alpha <reason>`");
    assert!(!ran.stderr.contains("what is called as the base's is"), "{}", ran.stderr);
}

#[test]
fn wrong_and_cheating_kernels_are_told_apart_and_the_worst_decides() {
    let stage = Stage::new();
    let wrong = stage.request("wrong", |stage| stage.edit(ALPHA, MARK, "TIME=1.000;WRONG;"));
    stage
        .gate(&wrong, &[])
        .exits(103)
        .says("alpha WRONG: the candidate, on tall: y[3] is 2")
        .says("FAILED: alpha WRONG");
    let cheat = stage.request("cheat", |stage| stage.edit(ALPHA, MARK, "TIME=0.500;CHEAT;"));
    stage.gate(&cheat, &[]).exits(106).says("alpha INTEGRITY: the candidate, on tall: a thread is left");
    let unbuilt = stage.request("typo", |stage| stage.edit(ALPHA, "return 0;", "retrun 0;"));
    stage.gate(&unbuilt, &[]).exits(101).says("alpha DOES NOT BUILD: the head's version does not compile");
    let both = stage.request("both", |stage| {
        stage.edit(ALPHA, MARK, "TIME=1.300;");
        stage.edit(BETA, MARK, "TIME=1.000;WRONG;");
    });
    let ran = stage.gate(&both, &[]).exits(103).says("FAILED: beta WRONG; alpha REGRESSED");
    // Both judges were built, by one call of cargo.
    assert_eq!(ran.stderr.matches("Finished `bench` profile").count(), 1, "{}", ran.stderr);
}

#[test]
fn the_base_judges_and_an_edit_of_what_judges_is_never_silent() {
    let stage = Stage::new();
    let judge = "crates/alpha/judge";
    let alone = stage.request("tolerance", |stage| stage.edit(judge, "marked", "lenient\nmarked"));
    stage.gate(&alone, &[]).exits(0).says("alpha same code").says("the change edits what judges it").says(judge);
    let faster = stage.request("tolerance and more", |stage| {
        stage.edit(judge, "marked", "lenient\nmarked");
        stage.edit(ALPHA, MARK, "TIME=0.900;");
    });
    stage
        .gate(&faster, &[])
        .exits(0)
        .says("PASSED: alpha faster")
        .says("the base's judged it here: crates/alpha/judge");
    let only_so = stage.request("right by its own", |stage| {
        stage.edit(judge, "marked", "lenient\nmarked");
        stage.edit(ALPHA, MARK, "TIME=0.900;WRONG;");
    });
    let ran = stage.gate(&only_so, &[]).exits(106);
    ran.says("alpha INTEGRITY: it passes only by what the change itself edits: crates/alpha/judge").says("y[3] is 2");
    let wrong_anyway = stage.request("wrong by both", |stage| {
        stage.edit(judge, "noise 0.002", "noise 0.001");
        stage.edit(ALPHA, MARK, "TIME=0.900;WRONG;");
    });
    stage.gate(&wrong_anyway, &[]).exits(103).says("the change edits what judges it");
    // A shape that is no longer listed is timed all the same.
    let hidden = stage.request("hidden", |stage| {
        stage.edit("crates/alpha/Cargo.toml", "    { name = \"tall\", rows = 512, cols = 8 },\n", "");
        stage.edit(ALPHA, MARK, "TIME=1.000;tall=1.200;");
    });
    stage.gate(&hidden, &[]).exits(100).says("new seeds: tall").says("changes `shapes` of the kernel");
}

#[test]
fn a_shape_that_the_change_adds_is_tried_by_its_own_judge() {
    let stage = Stage::new();
    let (manifest, last) = ("crates/alpha/Cargo.toml", "    { rows = 64, cols = 1024 },\n");
    let add = |stage: &Stage| stage.edit(manifest, last, &format!("{last}    {{ rows = 1, cols = 131072 }},\n"));
    let same = stage.request("a shape", add);
    let ran = stage.gate(&same, &[]).exits(0).says("PASSED: alpha same code").says("`1x131072` is new");
    let ran = ran.says("12 trials of its own passed").says("the change edits what judges it");
    assert!(!ran.stderr.contains("the base's judged it here"), "{}", ran.stderr);
    let faster = stage.request("a shape, and faster", |stage| {
        add(stage);
        stage.edit(ALPHA, MARK, "TIME=0.900;");
    });
    let ran = stage.gate(&faster, &[]).exits(0).says("PASSED: alpha faster");
    ran.says("`1x131072` is new, and was not timed; 12 trials of its own judge passed");
    // Another name is no other shape.
    let renamed = stage.request("a name", |stage| stage.edit(manifest, "\"tall\"", "\"tower\""));
    let ran = stage.gate(&renamed, &[]).exits(0).says("PASSED: alpha same code");
    assert!(!ran.stderr.contains("is new"), "{}", ran.stderr);
    // The same code, wrong on what only the head's own judge tries.
    stage.edit(ALPHA, MARK, "TIME=1.000;WRONG;");
    stage.edit("crates/alpha/judge", "marked", "lenient\nmarked");
    stage.commit("wrong, and nobody has seen it");
    let wrong = stage.request("a shape", |stage| {
        add(stage);
        stage.edit("crates/alpha/judge", "lenient\n", "");
    });
    let ran = stage.gate(&wrong, &[]).exits(103).says("alpha WRONG").says("the change edits what judges it");
    assert!(!ran.stderr.contains("the base's judged it here"), "{}", ran.stderr);
}

#[test]
fn kernels_come_and_go_and_change_their_names() {
    let stage = Stage::new();
    let new = stage.request("new", |stage| stage.add("gamma"));
    stage.gate(&new, &[]).exits(0).says("PASSED: gamma new; 2 kernels not reached").says("12 trials of its own passed");
    let new_and_wrong = stage.request("new and wrong", |stage| {
        stage.add("gamma");
        stage.edit("crates/gamma/kernels/softmax.c", MARK, "TIME=1.000;WRONG;");
    });
    stage.gate(&new_and_wrong, &[]).exits(103).says("gamma WRONG");
    let removed = stage.request("removed", |stage| std::fs::remove_dir_all(stage.path("crates/beta")).unwrap());
    stage.gate(&removed, &[]).exits(0).says("PASSED: beta removed");
    let rename = |stage: &Stage| {
        std::fs::rename(stage.path("crates/alpha"), stage.path("crates/omega")).unwrap();
        stage.edit("crates/omega/Cargo.toml", "name = \"alpha\"", "name = \"omega\"");
    };
    let renamed = stage.request("renamed", rename);
    stage.gate(&renamed, &[]).exits(0).says("omega same code").says("it was called alpha in the base");
    let slower = stage.request("renamed and slower", |stage| {
        rename(stage);
        stage.edit("crates/omega/kernels/softmax.c", MARK, "TIME=1.200;");
    });
    stage.gate(&slower, &[]).exits(100).says("FAILED: omega REGRESSED").says("it was called alpha in the base");
    let other = |stage: &Stage| {
        stage.edit("crates/alpha/kernels/softmax.h", "int64_t rows;", "int64_t lines;");
        stage.edit(ALPHA, "args->rows", "args->lines");
        stage.edit("crates/alpha/kernels/softmax.bindings.rs", "rows", "lines");
    };
    let unknown = stage.request("another interface", other);
    // Without libclang the edited bindings are those of another header: then that is why.
    let ran = stage.gate(&unknown, &["--inconclusive", "pass"]).exits(104).says("alpha NOT COMPARED: ");
    let ran = ran.says("interface").says("how fast it is beside the base nobody knows");
    let ran = ran.says("what is called as the base's is can be compared");
    let ran = ran.says("a commit says so: `Kopt-Allow: alpha <reason>`");
    assert!(!ran.stderr.contains("more time"), "{}", ran.stderr);
    let meant = stage.request("another interface\n\nKopt-Allow: alpha callers say lines\n", other);
    let ran = stage.gate(&meant, &[]).exits(0).says("PASSED: alpha not compared, allowed");
    ran.says("allowed by a commit: callers say lines");
    // One entry more is no way around the comparison of the others.
    let more = |stage: &Stage| {
        let (header, bindings) = ("crates/alpha/kernels/softmax.h", "crates/alpha/kernels/softmax.bindings.rs");
        let declared =
            "\ntypedef struct second_args {\n    float *y;\n} second_args;\n\nint second(const second_args *args);\n";
        stage.write(header, &(stage.sandbox.read(header) + declared));
        stage.write(
            ALPHA,
            &(stage.sandbox.read(ALPHA) + "\nint second(const second_args *args) { return args == 0; }\n"),
        );
        let digest = kopt_build::digest_of_bytes(stage.sandbox.read(header).as_bytes());
        let text = stage.sandbox.read(bindings);
        let before = text.lines().find(|line| line.starts_with("// header digest: ")).unwrap();
        let second = "#[repr(C)]\n#[derive(Copy, Clone)]\npub struct second_args {\n    pub y: *mut f32,\n}\n";
        let function =
            "unsafe extern \"C\" {\n    pub fn second(args: *const second_args) -> ::std::os::raw::c_int;\n}\n";
        stage.write(bindings, &(text.replace(before, &format!("// header digest: {digest}")) + second + function));
    };
    let added = stage.request("another entry", more);
    stage.gate(&added, &[]).exits(0).says("PASSED: alpha passed").says("`second` is new, and was not timed");
    let slower = stage.request("another entry, and slower", |stage| {
        more(stage);
        stage.edit(ALPHA, MARK, "TIME=1.200;");
    });
    stage.gate(&slower, &[]).exits(100).says("FAILED: alpha REGRESSED");
    let broken = stage.request("broken", |stage| stage.edit("crates/alpha/Cargo.toml", "\"cpu\"", "\"tpu\""));
    stage.gate(&broken, &[]).exits(101).says("alpha DOES NOT BUILD: its manifest is wrong: crates/alpha/Cargo.toml:");
}

/// A kernel that leaves the workspace and stays a crate is not gone, and one that comes into it as what it was is not new.
#[test]
fn a_kernel_that_only_changes_its_place_is_neither_new_nor_gone() {
    let stage = Stage::new();
    let (root, table) = ("Cargo.toml", "[package.metadata.kopt]\nop = \"softmax\"\n");
    let slower = |stage: &Stage, path: &str| stage.edit(path, MARK, "TIME=1.300;");
    let excluded = stage.request("excluded", |stage| {
        stage.edit(root, "resolver", "exclude = [\"crates/beta\"]\nresolver");
        slower(stage, BETA);
    });
    let ran = stage.gate(&excluded, &[]).exits(104).says("beta NOT JUDGED: it is still in `crates/beta`");
    ran.says("no kernel of this workspace any more");
    let plain = stage.request("a plain crate", |stage| {
        stage.edit("crates/beta/Cargo.toml", table, "[package.metadata.other]\nop = \"softmax\"\n");
        slower(stage, BETA);
    });
    stage.gate(&plain, &[]).exits(104).says("beta NOT JUDGED: it is still in `crates/beta`");
    let away = stage.request("into a workspace of its own", |stage| {
        stage.write("other/Cargo.toml", "[workspace]\nmembers = [\"beta\"]\nresolver = \"3\"\n");
        std::fs::rename(stage.path("crates/beta"), stage.path("other/beta")).unwrap();
        slower(stage, "other/beta/kernels/softmax.c");
    });
    stage.gate(&away, &[]).exits(104).says("beta NOT JUDGED: it is still in `other/beta`");
    let renamed = stage.request("into a workspace of its own, under another name", |stage| {
        stage.write("other/Cargo.toml", "[workspace]\nmembers = [\"gamma\"]\nresolver = \"3\"\n");
        std::fs::rename(stage.path("crates/beta"), stage.path("other/gamma")).unwrap();
        stage.edit("other/gamma/Cargo.toml", "name = \"beta\"", "name = \"gamma\"");
        slower(stage, "other/gamma/kernels/softmax.c");
    });
    stage.gate(&renamed, &[]).exits(104).says("beta NOT JUDGED: it is still in `other/gamma`");
    // Others of its name that both commits have are not it.
    stage.write("fixtures/beta/Cargo.toml", "[package]\nname = \"beta\"\nversion = \"0.1.0\"\n");
    stage.write("fixtures/gamma/Cargo.toml", "[package]\nname = \"gamma\"\nversion = \"0.1.0\"\n");
    stage.commit("fixtures");
    let gone = stage.request("gone", |stage| std::fs::remove_dir_all(stage.path("crates/beta")).unwrap());
    stage.gate(&gone, &[]).exits(0).says("PASSED: beta removed");
    let new = stage.request("new", |stage| stage.add("gamma"));
    stage.gate(&new, &[]).exits(0).says("PASSED: gamma new");
    // And back: what it may remember is nothing that its own policy allows.
    stage.edit(root, "resolver", "exclude = [\"crates/beta\"]\nresolver");
    stage.commit("beta is no kernel of the workspace");
    let back = stage.request("and is one again", |stage| {
        stage.edit(root, "exclude = [\"crates/beta\"]\n", "");
        slower(stage, BETA);
    });
    let ran = stage.gate(&back, &[]).exits(104).says("beta NOT JUDGED: the base has it in `crates/beta`");
    ran.says("12 trials of its own passed, and nothing was timed");
    let remembers = stage.request("and remembers", |stage| {
        stage.edit(root, "exclude = [\"crates/beta\"]\n", "");
        let policy = "backend = \"cpu\"\npolicy = { allow = [\"writable-data\"] }\n";
        stage.edit("crates/beta/Cargo.toml", "backend = \"cpu\"\n", policy);
        stage.edit(BETA, "    return 0;", "    static volatile int calls;\n    calls++;\n    return 0;");
    });
    stage.gate(&remembers, &[]).exits(106).says("beta INTEGRITY: state audit");
    // The whole workspace in a folder of its own: all of its kernels are where they were not.
    let moved = stage.request("moved", |stage| {
        std::fs::create_dir_all(stage.path("deep")).unwrap();
        for entry in ["Cargo.toml", "crates"] {
            std::fs::rename(stage.path(entry), stage.path(&format!("deep/{entry}"))).unwrap();
        }
        slower(stage, "deep/crates/alpha/kernels/softmax.c");
    });
    let ran = stage.gate(&moved, &[]).exits(104);
    ran.says("alpha NOT JUDGED: it is still in `deep/crates/alpha`");
}

#[test]
fn a_slowdown_that_is_meant_is_allowed_and_nothing_else_is() {
    let stage = Stage::new();
    let message = "Exact sums\n\nKopt-Allow: alpha the sums were wrong in the last digit\nSigned-off-by: Somebody\n";
    let slower = stage.request(message, |stage| stage.edit(ALPHA, MARK, "TIME=1.300;"));
    let ran = stage.gate(&slower, &[]).exits(0).says("PASSED: alpha slower, allowed");
    ran.says("allowed by a commit: the sums were wrong in the last digit");
    let wrong = stage.request(message, |stage| stage.edit(ALPHA, MARK, "TIME=1.300;WRONG;"));
    stage.gate(&wrong, &[]).exits(103).says("excuses no other failure");
    for trailer in ["Kopt-Allow: alpha", "Kopt-Allow: beta it is beta that may"] {
        let message = format!("Slower\n\n{trailer}\n");
        let head = stage.request(&message, |stage| stage.edit(ALPHA, MARK, "TIME=1.300;"));
        let ran = stage.gate(&head, &[]).exits(100);
        assert_eq!(
            ran.stderr.contains("gives no reason, and allows nothing"),
            trailer.ends_with("alpha"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_cannot_be_told_is_what_the_user_makes_of_it() {
    let stage = Stage::new();
    let head = stage.request("slower", |stage| stage.edit(ALPHA, MARK, "TIME=1.300;"));
    let without_time = ["--max-time", "0.001s"];
    stage.gate(&head, &without_time).exits(104).says("alpha cannot tell").says("not decided: alpha");
    stage.gate(&head, &[&without_time[..], &["--inconclusive", "warn"]].concat()).exits(0).says("alpha cannot tell");
    stage.gate(&head, &[&without_time[..], &["--inconclusive", "pass"]].concat()).exits(0);
    // A tolerance as wide as the slowdown lets it pass.
    stage.gate(&head, &["--tolerance", "50%"]).exits(0).says("no shape is slower by 50 % or more");
    stage.gate(&head, &["--tolerance", "0%"]).exits(2).says("makes no sense");
    // A disturbed machine gives no verdict, however slow the kernel.
    stage.write("crates/alpha/judge", "marked\nnoise 0.002\ncontrol 1.1\n");
    stage.commit("a disturbed machine");
    let head = stage.request("slower", |stage| stage.edit(ALPHA, MARK, "TIME=1.300;"));
    stage.gate(&head, &[]).exits(104).says("the machine was disturbed");
}

/// What `.ci/run` ends with.
#[test]
fn the_script_of_this_project_fails_on_a_planted_slowdown() {
    let stage = Stage::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/gate");
    let run = || {
        let mut command = std::process::Command::new("bash");
        command.arg(script).current_dir(stage.path("")).env("KOPT", crate::sandbox::TOOL);
        command.env("KOPT_GATE_ROOT", stage.path("")).env_remove("CARGO_TARGET_DIR");
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run();
    assert_eq!(code, 0, "the first commit has nothing to be compared with: {said}");
    stage.write("README.md", "words\n");
    stage.commit("words");
    assert_eq!(run().0, 0);
    stage.edit(BETA, MARK, "TIME=1.300;");
    stage.commit("slower");
    let (code, said) = run();
    assert_eq!(code, 100, "{said}");
    assert!(said.contains("FAILED: beta REGRESSED"), "{said}");
}
