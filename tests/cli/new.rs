use std::fs;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox};
use crate::schema::validator;

const FILES: [&str; 5] = ["Cargo.toml", "benches/latency.rs", "build.rs", "src/lib.rs", "tests/correctness.rs"];

#[test]
fn outside_of_a_workspace_a_crate_stands_alone() {
    let sandbox = Sandbox::empty();
    sandbox
        .kopt(&["new", "demo", "--op", "softmax"])
        .exits(0)
        .says("Created kernel crate `demo` (softmax, cpu) in demo");
    let files = sandbox.files();
    for file in FILES.iter().chain(&[".gitignore", "kernels/softmax.c", "kernels/softmax.h"]) {
        assert!(files.contains(&format!("demo/{file}")), "{file} is missing in {files:?}");
    }
    let manifest = sandbox.read("demo/Cargo.toml");
    assert!(manifest.contains("[profile.dev.package.kopt-harness]") && !manifest.contains("[workspace]"), "{manifest}");
    assert!(manifest.contains(concat!("path = \"", env!("CARGO_MANIFEST_DIR"), "/harness\"")), "{manifest}");
    sandbox.kopt_in("demo", &["list"]).exits(0).answers("kernels/softmax.c");
}

#[test]
fn a_crate_is_five_lines_of_rust() {
    let sandbox = Sandbox::empty();
    sandbox.kopt(&["new", "softmax-2", "--op", "softmax"]).exits(0);
    let rust = ["build.rs", "src/lib.rs", "tests/correctness.rs", "benches/latency.rs"];
    let lines: Vec<String> = rust
        .iter()
        .flat_map(|file| sandbox.read(&format!("softmax-2/{file}")).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert!(lines.contains(&"kopt_harness::latency_main!(softmax_2);".to_owned()));
}

#[test]
fn the_operator_may_be_the_name_and_the_backend_cuda() {
    let sandbox = Sandbox::empty();
    sandbox.kopt(&["new", "softmax", "--backend", "cuda"]).exits(0);
    assert!(sandbox.files().contains(&"softmax/kernels/softmax.launch.toml".to_owned()));
    sandbox.kopt_in("softmax", &["list"]).exits(0).answers("device");
}

#[test]
fn every_operator_on_offer_can_be_made() {
    let sandbox = Sandbox::empty();
    let offered = sandbox.kopt(&["new", "--list-ops", "--message-format", "json"]).exits(0).messages();
    let (mut made, words) = (0, |told: &Value, key: &str| {
        told[key].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    });
    for told in &offered[1..offered.len() - 1] {
        let op = told["op"].as_str().unwrap();
        for backend in words(told, "backends") {
            for language in words(told, "languages") {
                let name = format!("{op}-{made}");
                let create = ["new", &name, "--op", op, "--backend", &backend, "--language", &language];
                if sandbox.kopt(&create).code == 0 {
                    sandbox.kopt_in(&name, &["list"]).exits(0).answers(op);
                    sandbox.kopt_in(&name, &["bindings", "--check"]).exits(0).says("Fresh");
                    made += 1;
                }
            }
        }
    }
    assert!(made > 15, "{made}");
}

#[test]
fn a_kernel_is_in_the_language_that_was_asked_for() {
    let sandbox = Sandbox::empty();
    let made: [(&[&str], &str, &str); 4] = [
        (&["--language", "c++"], "softmax.cpp", "(softmax, cpu in c++)"),
        (&["--backend", "cuda", "--language", "triton"], "softmax.py", "(softmax, cuda in triton)"),
        (&["--backend", "hip"], "softmax.hip", "(softmax, hip)"),
        (&["--backend", "hip", "--language", "triton"], "softmax.py", "(softmax, hip in triton)"),
    ];
    for (number, (flags, source, told)) in made.into_iter().enumerate() {
        let name = format!("demo{number}");
        sandbox.kopt(&[&["new", &name, "--op", "softmax"], flags].concat()).exits(0).says(told);
        assert!(!sandbox.read(&format!("{name}/kernels/{source}")).is_empty());
    }
    let before = sandbox.files();
    let triton = ["new", "demo", "--op", "rmsnorm", "--backend", "cuda", "--language", "triton"];
    sandbox.kopt(&triton).exits(2).says("no rmsnorm to start from for cuda in triton").says("cpu in c++, cuda, hip");
    sandbox.kopt(&["new", "demo", "--op", "softmax", "--language", "cuda"]).exits(2).says("they are in c or c++");
    assert_eq!(sandbox.files(), before);
}

#[test]
fn the_operators_on_offer_are_told_to_programs_as_they_are_listed() {
    let sandbox = Sandbox::empty();
    let listed = sandbox.kopt(&["new", "--list-ops"]).exits(0).stdout;
    let ran = sandbox.kopt(&["new", "--list-ops", "--message-format", "json"]).exits(0).says("rmsnorm");
    let messages = ran.messages();
    let (operators, validator) = (&messages[1..messages.len() - 1], validator("messages"));
    assert_eq!((&messages[0]["command"], &messages[messages.len() - 1]["exit_code"]), (&json!("new"), &json!(0)));
    let told = operators.iter().map(|told| {
        assert_eq!(told["reason"], "operator");
        assert!(validator.is_valid(told), "{told}");
        let backends: Vec<&str> = told["backends"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let languages: Vec<&str> = told["languages"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let columns = [
            told["op"].as_str().unwrap(),
            &backends.join(" "),
            &languages.join(" "),
            told["summary"].as_str().unwrap(),
        ];
        let words = columns.join(" ");
        words.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    let lines = listed.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(told.collect::<Vec<_>>(), lines.collect::<Vec<_>>());
    let softmax = operators.iter().find(|told| told["op"] == "softmax").unwrap();
    assert_eq!(softmax["parameters"], json!(["rows", "cols"]));
    assert_eq!(sandbox.files(), Vec::<String>::new());
}

#[test]
fn an_operator_of_ones_own_comes_with_its_mathematics() {
    let sandbox = Sandbox::empty();
    for backend in ["cpu", "cuda", "hip"] {
        sandbox.kopt(&["new", backend, "--op", "swiglu", "--own", "--backend", backend]).exits(0).says("(swiglu, ");
        assert!(sandbox.read(&format!("{backend}/src/lib.rs")).contains("impl Kernel for"));
        sandbox.kopt_in(backend, &["bindings", "--check"]).exits(0).says("Fresh");
    }
    sandbox.write("cpu/kernels/swiglu.h", "/* changed */");
    sandbox.kopt_in("cpu", &["bindings", "--check"]).exits(96).says("do not fit kernels/swiglu.h");
}

#[test]
fn in_a_workspace_it_becomes_a_member_and_nothing_else_changes() {
    let sandbox = Sandbox::of("kernels");
    let before = sandbox.read("Cargo.toml");
    let ran = sandbox.kopt(&["new", "norm", "--op", "rmsnorm", "--message-format", "json"]).exits(0);
    assert_eq!(ran.reasons(), ["started", "kernel", "finished"]);
    assert_eq!(ran.messages()[1]["flags"], json!(["-funroll-loops"]));
    assert_eq!(sandbox.read("Cargo.toml"), before.replace("\"gpu\", ", "\"gpu\", \"norm\", "));
    assert!(!sandbox.path("norm/.gitignore").exists());
    assert!(!sandbox.read("norm/Cargo.toml").contains("[profile"));
    sandbox.kopt(&["list"]).exits(0).answers("norm");
}

#[test]
fn a_workspace_that_covers_the_folder_is_left_as_it_is() {
    let sandbox = Sandbox::of("kernels");
    let root = "[workspace]\nmembers = [\"crates/*\", \"softmax\"]\nexclude = [\"gpu\", \"plain\", \"alone\"]\nresolver = \"3\"\n";
    sandbox.write("Cargo.toml", root);
    sandbox.kopt(&["new", "norm", "--op", "rmsnorm", "--path", "crates/norm"]).exits(0);
    sandbox.kopt(&["new", "apart", "--op", "rmsnorm", "--path", "alone/apart"]).exits(0);
    assert_eq!(sandbox.read("Cargo.toml"), root);
    assert!(sandbox.path("alone/apart/.gitignore").exists());
    let listed = sandbox.kopt(&["list"]).exits(0).answers("norm").stdout;
    assert!(!listed.contains("apart"));
}

#[test]
fn an_empty_workspace_gets_its_first_member() {
    let sandbox = Sandbox::empty();
    sandbox.write("Cargo.toml", "[workspace]\nresolver = \"3\"\n");
    sandbox.kopt(&["new", "softmax"]).exits(0);
    assert_eq!(sandbox.read("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"softmax\"]\n");
}

#[test]
fn a_harness_in_the_workspace_is_found_by_its_relative_path() {
    let sandbox = Sandbox::of("kernels");
    for (name, folder) in [("kopt-harness", "harness"), ("kopt-build", "harness/build")] {
        let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        sandbox.write(&format!("{folder}/Cargo.toml"), &manifest);
        sandbox.write(&format!("{folder}/src/lib.rs"), "");
    }
    // Named by the user, then as a member.
    sandbox.kopt(&["new", "one", "--op", "softmax", "--harness", "harness"]).exits(0);
    let dependencies = |name: &str| {
        let text = sandbox.read(&format!("{name}/Cargo.toml"));
        text.lines().filter(|line| line.starts_with("kopt-")).map(str::to_owned).collect::<Vec<_>>()
    };
    let wanted = [
        "kopt-harness = { path = \"../harness\" }",
        "kopt-build = { path = \"../harness/build\" }",
        "kopt-harness = { path = \"../harness\", features = [\"runner\"] }",
    ];
    assert_eq!(dependencies("one"), wanted);
    let root = sandbox.read("Cargo.toml").replace("members = [", "members = [\"harness\", \"harness/build\", ");
    sandbox.write("Cargo.toml", &root);
    sandbox.kopt(&["new", "two", "--op", "softmax"]).exits(0);
    assert_eq!(dependencies("two"), wanted);
    sandbox.kopt(&["new", "three", "--op", "softmax", "--harness", "softmax"]).exits(96).says("is not the harness");
    assert!(!sandbox.path("three").exists());
}

#[test]
fn a_harness_outside_of_the_repository_is_named_absolutely() {
    let sandbox = Sandbox::empty();
    for (name, folder) in [("kopt-harness", "harness"), ("kopt-build", "harness/build")] {
        let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        sandbox.write(&format!("{folder}/Cargo.toml"), &manifest);
        sandbox.write(&format!("{folder}/src/lib.rs"), "");
    }
    let path_of = |name: &str| {
        let document: toml::Table = sandbox.read(&format!("{name}/Cargo.toml")).parse().unwrap();
        document["dependencies"]["kopt-harness"]["path"].as_str().unwrap().to_owned()
    };
    // It will be the top of its own repository.
    let ran = sandbox.kopt(&["new", "one", "--op", "softmax", "--harness", "harness"]).exits(0);
    ran.says("which other machines lack");
    let absolute = sandbox.path("harness").canonicalize().unwrap();
    assert_eq!(std::path::Path::new(&path_of("one")).canonicalize().unwrap(), absolute);
    assert!(path_of("one").starts_with('/'), "{}", path_of("one"));
    // Versions of a crate that names it otherwise cannot be read, and it is said why.
    git2::Repository::init(sandbox.path("one")).unwrap();
    sandbox.edit("one/Cargo.toml", &path_of("one"), "../harness");
    crate::history::commit(&git2::Repository::open(sandbox.path("one")).unwrap(), "first");
    let mut command = sandbox.command(&["compare", "HEAD"]);
    Ran::of(command.current_dir(sandbox.path("one"))).exits(102).says("a path that leads out of the repository");
    // Where both are in one repository they go together.
    git2::Repository::init(sandbox.path("")).unwrap();
    sandbox.kopt(&["new", "two", "--op", "softmax", "--harness", "harness"]).exits(0);
    assert_eq!(path_of("two"), "../harness");
}

#[test]
fn a_workspace_keeps_the_ends_of_its_lines() {
    let sandbox = Sandbox::of("kernels");
    let root = sandbox.read("Cargo.toml").replace('\n', "\r\n");
    sandbox.write("Cargo.toml", &root);
    sandbox.kopt(&["new", "norm", "--op", "rmsnorm"]).exits(0);
    let after = sandbox.read("Cargo.toml");
    assert_eq!(after.replace("\"norm\", ", "").matches("\r\n").count(), root.matches("\r\n").count(), "{after:?}");
    assert!(after.contains("norm") && !after.replace("\r\n", "").contains('\n'), "{after:?}");
}

#[test]
fn a_place_that_is_taken_is_not_touched() {
    let sandbox = Sandbox::of("kernels");
    let before = sandbox.files();
    sandbox.kopt(&["new", "softmax"]).exits(96).says("`softmax` exists already");
    sandbox.kopt(&["new", "softmax", "--path", "other"]).exits(96).says("has a package named `softmax` already");
    assert_eq!(sandbox.files(), before);
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox.kopt(&["new", "empty", "--op", "softmax"]).exits(0);
}

#[test]
fn a_failure_halfway_leaves_nothing() {
    let sandbox = Sandbox::of("kernels");
    // A member that cargo refuses is noticed when cargo is asked about the new one: by then everything is written.
    let before = (sandbox.files(), sandbox.read("Cargo.toml"));
    fs::write(sandbox.path("softmax/Cargo.toml"), "[package]\nname = 3\n").unwrap();
    sandbox.kopt(&["new", "norm", "--op", "rmsnorm", "--path", "a/b/norm"]).exits(102);
    assert_eq!((sandbox.files(), sandbox.read("Cargo.toml")), before);
    assert!(!sandbox.path("a").exists());
}

#[test]
fn names_and_operators_are_checked_first() {
    let sandbox = Sandbox::empty();
    sandbox.kopt(&["new", "loop", "--op", "softmax"]).exits(2).says("keyword");
    sandbox.kopt(&["new", "demo", "--op", "sofmtax"]).exits(2).says("did you mean `softmax`?");
    sandbox.kopt(&["new", "demo"]).exits(2).says("--op");
    sandbox.kopt(&["new", "demo", "--op", "softmax", "--own"]).exits(2).says("leave out --own");
    sandbox.kopt(&["new"]).exits(2);
    assert_eq!(sandbox.files(), Vec::<String>::new());
}
