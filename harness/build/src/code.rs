//! What of an object runs: its code and constants, without what only a debugger reads.
//!
//! Two objects of equal code need no clock: whatever a comparison of them would find is noise. The price of a mistake
//! is not the same in both directions. Two equal objects that are called different cost a measurement; two different
//! ones that are called equal would be a wrong verdict. So everything is hashed that is not known to be without
//! effect.

use camino::Utf8Path;
use kopt_schema::candidate::Candidate;
use kopt_schema::manifest::Class;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};

use crate::digest;
use crate::error::BuildError;

/// SHA-256 over the code and constants of an ELF file, a shared object or a cubin.
///
/// The same sources, compiled in two folders, give the same digest; debug data and build ids are left out.
///
/// # Errors
/// When the file cannot be read or is no 64-bit ELF file.
pub fn digest(file: &Utf8Path) -> Result<String, BuildError> {
    let bytes = std::fs::read(file).map_err(BuildError::file(file))?;
    let parts = parts(&bytes).map_err(|error| BuildError::file(file)(std::io::Error::other(error.to_string())))?;
    Ok(digest::of_parts(parts.iter().map(Vec::as_slice)))
}

/// The digest of a candidate, by its `candidate.json`: equal for two candidates that cannot differ in what they do.
/// For class `device` the launch plan and the knobs that it names are part of what runs; in the other classes they are
/// compiled in.
///
/// # Errors
/// As [`digest`]; also when there is no object.
pub fn of_candidate(file: &Utf8Path, candidate: &Candidate) -> Result<String, BuildError> {
    let Some(object) = &candidate.object else {
        return Err(BuildError::NoCompiler(candidate.missing.clone().unwrap_or_else(|| "not compiled".to_owned())));
    };
    let code = digest(&file.with_file_name(object))?;
    if candidate.class != Class::Device {
        return Ok(code);
    }
    let knobs: Vec<String> = candidate.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let plan = candidate.plan.as_deref().unwrap_or_default();
    Ok(digest::of_parts([code.as_bytes(), plan.as_bytes(), knobs.join(" ").as_bytes()]))
}

/// The functions that a shared object offers, by name.
///
/// # Errors
/// As [`digest`].
pub fn functions(file: &Utf8Path) -> Result<Vec<String>, BuildError> {
    let bytes = std::fs::read(file).map_err(BuildError::file(file))?;
    let names = || -> Result<Vec<String>, object::read::Error> {
        let header = FileHeader64::<object::Endianness>::parse(bytes.as_slice())?;
        let endian = header.endian()?;
        let sections = header.sections(endian, bytes.as_slice())?;
        let symbols = sections.symbols(endian, bytes.as_slice(), elf::SHT_DYNSYM)?;
        let offered = symbols.iter().filter(|symbol| {
            symbol.st_type() == elf::STT_FUNC && symbol.st_bind() != elf::STB_LOCAL && !symbol.is_undefined(endian)
        });
        offered
            .map(|symbol| Ok(String::from_utf8_lossy(symbol.name(endian, symbols.strings())?).into_owned()))
            .collect()
    };
    names().map_err(|error| BuildError::file(file)(std::io::Error::other(error.to_string())))
}

/// What is hashed, in the order of the file: of each section its name, its header's facts and its contents.
fn parts(bytes: &[u8]) -> Result<Vec<Vec<u8>>, object::read::Error> {
    let header = FileHeader64::<object::Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let machine = header.e_machine(endian);
    let mut parts = vec![format!("{:?} {:?}", machine, header.e_flags(endian)).into_bytes()];
    let sections = header.sections(endian, bytes)?;
    for section in sections.iter() {
        let name = sections.section_name(endian, section)?;
        let (kind, flags) = (section.sh_type(endian), section.sh_flags(endian));
        let runs = match machine {
            elf::EM_CUDA => !(kind == elf::SHT_NULL || kind == elf::SHT_STRTAB || is_debug(name)),
            _ => flags.0 & elf::SHF_ALLOC.0 != 0,
        };
        // Notes are in memory as any other section, and a source can put what it reads into one. Those of a cubin are not, and
        // tell of the compiler; a build's identity tells of the whole file.
        let data = section.data(endian, bytes)?;
        if !runs || kind == elf::SHT_NOTE && (machine == elf::EM_CUDA || is_build_id(data)) {
            continue;
        }
        // For cubins the registers of a kernel stand in `sh_info`.
        let facts = [
            u64::from(kind.0),
            flags.0,
            section.sh_addr(endian),
            section.sh_size(endian),
            u64::from(section.sh_info(endian)),
            section.sh_addralign(endian),
            section.sh_entsize(endian),
        ];
        parts.push(name.to_vec());
        parts.push(facts.iter().flat_map(|fact| fact.to_le_bytes()).collect());
        parts.push(data.to_vec());
    }
    Ok(parts)
}

/// Whether a note is a build's identity, and nothing else: sizes of name and content, the kind, the name, the content.
fn is_build_id(note: &[u8]) -> bool {
    const BUILD_ID: u32 = 3;
    let word = |at: usize| note.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    let content = note.len().checked_sub(16);
    word(0) == Some(4)
        && word(4).map(|len| len as usize) == content
        && word(8) == Some(BUILD_ID)
        && note.get(12..16) == Some(b"GNU\0")
}

/// Sections that a debugger reads, and the relocations into them.
fn is_debug(name: &[u8]) -> bool {
    let bare = name.strip_prefix(b".rela").or_else(|| name.strip_prefix(b".rel")).unwrap_or(name);
    bare.starts_with(b".debug") || bare.starts_with(b".nv_debug")
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8PathBuf;
    use std::process::Command;

    const SOURCE: &str = "static const float table[4] = {1, 2, 3, 4};\nint f(float *x, int n) {\n    for (int i = 0; i < n; i++) {\n        x[i] = x[i] * table[i & 3] + 0.5f;\n    }\n    return 0;\n}\n";

    /// Compiles `source` with debug data in a folder of its own, whose name gets into the object.
    fn built(root: &Utf8Path, folder: &str, source: &str) -> Utf8PathBuf {
        let folder = root.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("f.c"), source).unwrap();
        let cc = crate::toolchain::host(false).unwrap();
        let mut command = Command::new(&cc.path);
        command.args(["-O3", "-g", "-fPIC", "-shared", "-Wl,--build-id", "f.c", "-o", "f.so"]).current_dir(&folder);
        assert!(command.status().unwrap().success());
        folder.join("f.so")
    }

    #[test]
    fn the_folder_and_the_lines_do_not_count_and_one_constant_or_instruction_does() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let first = built(root, "a", SOURCE);
        let elsewhere = built(root, "another/folder", SOURCE);
        let moved = built(root, "b", &format!("/* A comment that moves every line. */\n\n{SOURCE}"));
        assert_ne!(
            digest::of_file(&first).unwrap(),
            digest::of_file(&elsewhere).unwrap(),
            "debug data names the folder"
        );
        assert_eq!(digest(&first).unwrap(), digest(&elsewhere).unwrap());
        assert_eq!(digest(&first).unwrap(), digest(&moved).unwrap());
        for (from, to) in [("3, 4}", "3, 5}"), ("0.5f", "0.25f"), ("x[i] *", "x[i] /"), ("return 0", "return 1")] {
            let changed = built(root, "c", &SOURCE.replace(from, to));
            assert_ne!(digest(&first).unwrap(), digest(&changed).unwrap(), "{from} -> {to}");
        }
    }

    #[test]
    fn what_a_source_keeps_in_a_note_counts() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let noted = SOURCE.replace("table[4]", "table[4] __attribute__((section(\".note.table\")))");
        let (first, again) = (built(root, "a", &noted), built(root, "b", &noted));
        let changed = built(root, "c", &noted.replace("3, 4}", "3, 5}"));
        assert_eq!(digest(&first).unwrap(), digest(&again).unwrap());
        assert_ne!(digest(&first).unwrap(), digest(&changed).unwrap());
    }

    #[test]
    fn the_launch_plan_is_part_of_what_a_device_candidate_does() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let object = built(root, "a", SOURCE);
        let file = object.with_file_name("candidate.json");
        let mut candidate = Candidate {
            format: 1,
            class: Class::Device,
            object: Some("f.so".to_owned()),
            prepares: false,
            digest: String::new(),
            missing: None,
            plan: Some("grid = 1".to_owned()),
            knobs: [("TILE".to_owned(), 8)].into(),
            compiler: String::new(),
            flags: Vec::new(),
            unconfined: None,
            resources: Vec::new(),
        };
        let first = of_candidate(&file, &candidate).unwrap();
        candidate.plan = Some("grid = 2".to_owned());
        let other_plan = of_candidate(&file, &candidate).unwrap();
        candidate.knobs.insert("TILE".to_owned(), 16);
        let other_knob = of_candidate(&file, &candidate).unwrap();
        assert!(first != other_plan && other_plan != other_knob);
        candidate.class = Class::Native;
        assert_eq!(of_candidate(&file, &candidate).unwrap(), digest(&object).unwrap());
        candidate.object = None;
        assert!(matches!(of_candidate(&file, &candidate), Err(BuildError::NoCompiler(_))));
    }

    #[test]
    fn functions_are_those_that_others_can_call() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let more = format!(
            "{SOURCE}static int hidden(void) {{ return 1; }}\nint g(void) {{ return hidden(); }}\nint data = 3;\n"
        );
        let mut found = functions(&built(root, "a", &more)).unwrap();
        found.retain(|name| !name.starts_with('_'));
        found.sort();
        assert_eq!(found, ["f", "g"]);
    }

    #[test]
    fn a_file_that_is_no_object_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let file = Utf8PathBuf::from_path_buf(scratch.path().join("x.so")).unwrap();
        for contents in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF\x02\x01\x01"] {
            std::fs::write(&file, contents).unwrap();
            assert!(digest(&file).is_err());
        }
    }

    /// Where nvcc is not installed there is no cubin to look at.
    #[test]
    fn cubins_are_compared_by_what_runs_on_the_device() {
        let nvcc = match crate::toolchain::nvcc() {
            Ok(nvcc) => nvcc,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        };
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let source = "extern \"C\" __global__ void k(float *x, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) x[i] = x[i] * 2.0f + 1.0f;\n}\n";
        let cubin = |folder: &str, source: &str| {
            let folder = root.join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("k.cu"), source).unwrap();
            let mut command = Command::new(&nvcc.path);
            command.args(["-O3", "-lineinfo", "-cubin", "-arch=sm_90", "k.cu", "-o", "k.cubin"]).current_dir(&folder);
            assert!(command.status().unwrap().success());
            folder.join("k.cubin")
        };
        let first = cubin("a", source);
        let elsewhere = cubin("another/folder", &format!("// A comment.\n{source}"));
        assert_ne!(digest::of_file(&first).unwrap(), digest::of_file(&elsewhere).unwrap());
        assert_eq!(digest(&first).unwrap(), digest(&elsewhere).unwrap());
        for (from, to) in [("2.0f", "3.0f"), ("+ 1.0f", "- 1.0f"), ("i < n", "i <= n")] {
            assert_ne!(digest(&first).unwrap(), digest(&cubin("b", &source.replace(from, to))).unwrap(), "{from}");
        }
    }
}
