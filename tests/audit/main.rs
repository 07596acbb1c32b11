//! The state audit, on objects of real compilers: each file of `violations/` is a kernel that a rule must find, with its name,
//! symbol and section; each of `honest/`, and each example with each helping patch, is one that no rule may accuse.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

#[path = "../support/queue.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod queue;

mod cuda;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::audit::{self, Subject, rules};
use kopt_schema::audit::{Audit, Finding, Severity, Stateless};
use kopt_schema::manifest::{Class, Manifest};
use kopt_schema::queue::Truth;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A kernel in one file, and what its first lines say of it.
struct Probe {
    name: String,
    text: String,
}

impl Probe {
    fn all(folder: &str) -> Vec<Self> {
        let folder = Utf8Path::new(ROOT).join("tests/audit").join(folder);
        let paths = folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path());
        let mut probes: Vec<Self> = paths
            .map(|path| Self { name: path.file_stem().unwrap().to_owned(), text: fs::read_to_string(&path).unwrap() })
            .collect();
        probes.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!probes.is_empty());
        probes
    }

    /// What follows `// word: ` on the first lines.
    fn said(&self, word: &str) -> Vec<&str> {
        let heads = self.text.lines().map_while(|line| line.strip_prefix("// "));
        heads.filter_map(|line| line.strip_prefix(word)?.strip_prefix(": ")).collect()
    }

    fn has_only_notes(&self) -> bool {
        self.text.lines().any(|line| line == "// only notes")
    }

    /// Its source and header, where a crate has them.
    fn lay_out(&self, folder: &Utf8Path) {
        fs::create_dir(folder.join("kernels")).unwrap();
        fs::write(folder.join("kernels/probe.c"), &self.text).unwrap();
        fs::copy(Utf8Path::new(ROOT).join("tests/audit/probe.h"), folder.join("kernels/probe.h")).unwrap();
    }

    /// Compiled as every kernel is, and audited.
    fn audit(&self, allow: &[String]) -> Audit {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(scratch.path()).unwrap();
        self.lay_out(folder);
        for blob in self.said("blob") {
            let bytes: Vec<u8> = blob.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            fs::write(folder.join("kernels/blob.bin"), bytes).unwrap();
        }
        let manifest = self.manifest();
        let out = folder.join("out");
        match self.said("link").first() {
            None => {
                let built = kopt_build::compile::compile(folder, &manifest, &out);
                built.unwrap_or_else(|error| panic!("{}: {error}", self.name));
            }
            Some(link) => self.link(folder, &manifest, &out, link),
        }
        audit_in(&out, "kernel.so", &manifest, allow)
    }

    fn manifest(&self) -> Manifest {
        let flags: Vec<String> =
            self.said("flags").iter().flat_map(|flags| flags.split(' ')).map(|flag| format!("\"{flag}\"")).collect();
        let text = format!(
            "[package]\nname = \"probe\"\n[package.metadata.kopt]\nop = \"probe\"\nbackend = \"cpu\"\nshapes = [{{ n = 4 }}]\nflags = [{}]\n",
            flags.join(", ")
        );
        kopt_schema::manifest::parse("Cargo.toml", &text, None).unwrap().unwrap()
    }

    /// Linked by other means than the harness's: what no source can ask for must be found nevertheless.
    fn link(&self, folder: &Utf8Path, manifest: &Manifest, out: &Utf8Path, link: &str) {
        fs::create_dir(out).unwrap();
        let cc = kopt_build::toolchain::host(false).unwrap();
        let run = |arguments: Vec<&str>| {
            let status = Command::new(&cc.path).args(arguments).current_dir(folder).status().unwrap();
            assert!(status.success(), "{}", self.name);
        };
        let mut compile = vec!["-O2", "-fPIC", "-c", "kernels/probe.c", "-o", "out/probe.o"];
        compile.extend(manifest.flags.iter().map(String::as_str));
        run(compile);
        let shared = ["-shared", "-nostartfiles", "-Wl,-z,now", "out/probe.o", "-o", "out/kernel.so"];
        run(shared.into_iter().chain(link.split(' ')).collect());
    }
}

/// Audits an object as the tool does, with what lies beside it.
fn audit_in(out: &Utf8Path, object: &str, manifest: &Manifest, allow: &[String]) -> Audit {
    let files = out.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path());
    let parts: Vec<Utf8PathBuf> = files.filter(|path| path.extension() == Some("o")).collect();
    let parts: Vec<Vec<u8>> = parts.iter().map(|path| fs::read(path).unwrap()).collect();
    let ptx = fs::read_to_string(out.join(object).with_extension("ptx")).ok();
    let taken = ["memcmp", "clock_gettime", "malloc"];
    audit::audit(&Subject {
        class: manifest.class,
        op: &manifest.op,
        object: &fs::read(out.join(object)).unwrap(),
        parts: &parts,
        ptx: ptx.as_deref(),
        allow,
        is_taken: &|name| taken.contains(&name),
    })
}

/// `rule | what | symbol | section`, with `-` for anything.
fn is_wanted(wanted: &str, finding: &Finding) -> bool {
    let found = [Some(&finding.rule), Some(&finding.what), finding.symbol.as_ref(), finding.section.as_ref()];
    let wanted: Vec<&str> = wanted.split(" | ").collect();
    assert_eq!(wanted.len(), found.len(), "{wanted:?}");
    wanted.iter().zip(found).all(|(wanted, found)| *wanted == "-" || found.is_some_and(|found| found == wanted))
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the audit reads instructions of x86-64 only")]
fn every_violation_is_found_with_its_rule_name_and_place() {
    let mut wrong = Vec::new();
    for probe in Probe::all("violations") {
        let audit = probe.audit(&[]);
        for wanted in probe.said("finds") {
            if !audit.findings.iter().any(|finding| is_wanted(wanted, finding)) {
                wrong.push(format!("{}: not found: {wanted}; found: {:#?}", probe.name, audit.findings));
            }
        }
        assert!(!probe.said("finds").is_empty(), "{}", probe.name);
        for wanted in probe.said("line") {
            let lines: Vec<_> = audit.findings.iter().filter_map(|finding| finding.source.as_deref()).collect();
            if !lines.contains(&format!("kernels/probe.c:{wanted}").as_str()) {
                wrong.push(format!("{}: line {wanted} is not among {lines:?}", probe.name));
            }
        }
        let wanted = if probe.has_only_notes() { Stateless::Presumed } else { Stateless::Violated };
        if audit.stateless != wanted {
            wrong.push(format!("{}: {:?} instead of {wanted:?}", probe.name, audit.stateless));
        }
        let strange =
            audit.findings.iter().filter(|one| !probe.said("finds").iter().any(|wanted| is_wanted(wanted, one)));
        wrong.extend(strange.map(|finding| format!("{}: also found: {}", probe.name, finding.line())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_rule_for_native_code_is_without_a_kernel_that_it_finds() {
    let probes = Probe::all("violations");
    let covered: BTreeSet<&str> =
        probes.iter().flat_map(|probe| probe.said("finds")).filter_map(|wanted| wanted.split(" | ").next()).collect();
    let native: BTreeSet<&str> =
        rules::all().iter().filter(|rule| rule.class == Class::Native).map(|rule| rule.id).collect();
    assert_eq!(covered, native);
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the audit reads instructions of x86-64 only")]
fn honest_kernels_are_not_accused() {
    for probe in Probe::all("honest") {
        let audit = probe.audit(&[]);
        assert_eq!(audit.stateless, Stateless::Presumed, "{}: {:#?}", probe.name, audit.findings);
        let allowed: BTreeSet<&str> = audit.allowed.iter().map(|one| one.rule.as_str()).collect();
        for rule in probe.said("allows") {
            assert!(allowed.contains(rule), "{}: {allowed:?}", probe.name);
        }
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the audit reads instructions of x86-64 only")]
fn every_example_is_clean_with_every_patch_of_its_queue() {
    let root = Utf8Path::new(ROOT);
    std::thread::scope(|scope| {
        for package in queue::examples(root, |manifest| manifest.class == Class::Native).unwrap() {
            scope.spawn(move || every_state_is_clean(root, &package));
        }
    });
}

fn every_state_is_clean(root: &Utf8Path, package: &str) {
    let (folder, manifest) = queue::example(root, package).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let scratch = Utf8Path::from_path(scratch.path()).unwrap();
    let check = |name: &str, folder: &Utf8Path| {
        let out = folder.join("out");
        kopt_build::compile::compile(folder, &manifest, &out).unwrap();
        let begun = std::time::Instant::now();
        let audit = audit_in(&out, "kernel.so", &manifest, &[]);
        eprintln!("{package} {name}: {} in {:.1} ms", audit.scope, 1e3 * begun.elapsed().as_secs_f64());
        assert_eq!(audit.stateless, Stateless::Presumed, "{package} {name}: {:#?}", audit.findings);
    };
    let applied = queue::apply_all(&folder, scratch).unwrap();
    check("baseline", &applied[0].before);
    assert!(applied.iter().any(|patch| patch.truth == Truth::Helps));
    for patch in applied.iter().filter(|patch| patch.truth != Truth::NoBuild) {
        check(&patch.name, &patch.after);
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the audit reads instructions of x86-64 only")]
fn a_policy_lets_a_rule_pass_and_it_is_shown() {
    let probes = Probe::all("violations");
    let probe = probes.iter().find(|probe| probe.name == "import-memory").unwrap();
    let audit = probe.audit(&["import-memory".to_owned()]);
    assert_eq!(audit.stateless, Stateless::Presumed);
    assert_eq!(audit.allowed.len(), 1, "{:?}", audit.allowed);
    assert!(audit::words::line(&audit).contains("malloc"), "{}", audit::words::line(&audit));
    let other = probe.audit(&["import-clock".to_owned()]);
    assert_eq!(other.stateless, Stateless::Violated);
}

#[test]
fn what_cannot_be_read_is_never_called_clean() {
    let subject =
        |class, object| Subject { class, op: "probe", object, parts: &[], ptx: None, allow: &[], is_taken: &|_| false };
    // An object for another processor: the machine stands at byte 18 of the header.
    let probe = &Probe::all("honest")[0];
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    probe.lay_out(folder);
    kopt_build::compile::compile(folder, &probe.manifest(), &folder.join("out")).unwrap();
    let mut foreign = fs::read(folder.join("out/kernel.so")).unwrap();
    foreign[18..20].copy_from_slice(&183_u16.to_le_bytes());
    for (object, is_object) in [(&foreign[..], true), (b"", false), (b"#!/bin/sh\n", false), (&foreign[..100], false)] {
        for class in [Class::Native, Class::Device, Class::Launcher] {
            let audit = audit::audit(&subject(class, object));
            // A loader may make something of host code that cannot be read.
            let refused = class == Class::Native && !is_object;
            let expected = if refused { Stateless::Violated } else { Stateless::NotAudited };
            assert_eq!(audit.stateless, expected, "{class:?}");
            assert!(!audit.scope.is_empty());
        }
    }
}

#[test]
fn every_rule_says_what_why_and_what_instead() {
    let folder = Utf8Path::new(ROOT).join("src/audit/rules");
    let files: BTreeSet<String> =
        folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().path().file_stem().unwrap().to_owned()).collect();
    let known: BTreeSet<String> = rules::all().iter().map(|rule| rule.id.to_owned()).collect();
    assert_eq!(files, known);
    for rule in rules::all() {
        assert!(!rule.title.is_empty() && rule.why.len() > 40 && rule.instead.len() > 5, "{}", rule.id);
        let patterns = [&rule.imports, &rule.exports, &rule.opcodes, &rule.operands, &rule.allow, &rule.toolchain];
        for pattern in patterns.into_iter().flatten() {
            assert!(glob::Pattern::new(pattern).is_ok(), "{}: {pattern}", rule.id);
        }
    }
    let notes: Vec<&str> =
        rules::all().iter().filter(|rule| rule.severity == Severity::Note).map(|rule| rule.id).collect();
    assert_eq!(notes, ["export", "floating-point-status", "hidden-bytes", "device-cache-hint"]);
}
