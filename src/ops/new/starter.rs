//! What a new crate starts from: the baseline kernels of the example crates for a standard operator, a small vector
//! operator for one's own, and the few lines of Rust that every kernel crate has.

use kopt_schema::DType;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::{Backend, Language};
use kopt_schema::operator;
use sha2::{Digest, Sha256};

use super::examples;
use super::harness::Harness;
use super::name;
use super::place::NewFile;
use crate::error::{Error, Result};

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("templates/", $file))
    };
}

const OWN_SHAPES: &[&str] = &["n = 1000", "n = 65536", "n = 4194304"];

/// A kernel to start from.
#[derive(Debug)]
pub struct Starter {
    op: String,
    backend: Backend,
    language: Language,
    dtype: DType,
    shapes: &'static [&'static str],
    lib: &'static str,
    kernels: Vec<(String, String)>,
}

impl Starter {
    /// A standard operator.
    ///
    /// # Errors
    /// When there is none of that name, or not for that backend in that language.
    pub fn standard(op: &str, backend: Backend, language: Language) -> Result<Self> {
        if operator::standard(op).is_none() {
            return Err(unknown(op));
        }
        fits(backend, language)?;
        let example = examples::find(op, backend, language).ok_or_else(|| {
            let known: Vec<String> =
                examples::offers(op).map(|(backend, language)| written(backend, language)).collect();
            let error = Error::new(Exit::Usage, format!("no {op} to start from for {}", written(backend, language)));
            match known.is_empty() {
                true => error.hint("--list-ops names what there is"),
                false => error.hint(format!("there is one for: {}", known.join(", "))),
            }
        })?;
        let shapes = examples::SHAPES.iter().find(|(name, _)| *name == op || name.is_empty());
        let shapes = shapes.map_or(OWN_SHAPES, |(_, shapes)| shapes);
        let as_written = |(file, text): &(&str, &'static str)| match file.strip_suffix(".c") {
            // C++ has no `restrict`; its compilers take the same word with underscores.
            Some(stem) if language == Language::Cpp => {
                (format!("{stem}.cpp"), text.replace("*restrict ", "*__restrict__ "))
            }
            _ => ((*file).to_owned(), (*text).to_owned()),
        };
        let kernels = example.kernels.iter().map(as_written).collect();
        let (op, dtype, lib) = (op.to_owned(), example.dtype, template!("lib.rs.in"));
        Ok(Self { op, backend, language, dtype, shapes, lib, kernels })
    }

    /// A small vector operator with its mathematics in the crate, to be replaced by one's own.
    ///
    /// # Errors
    /// When the name is impossible or that of a standard operator, or the backend is not written in that language.
    pub fn own(op: &str, backend: Backend, language: Language) -> Result<Self> {
        if !name::is_c_identifier(op) {
            return Err(Error::new(Exit::Usage, format!("`{op}` is not a C identifier"))
                .hint("the entry point is a C function of that name; say another with --op"));
        }
        if operator::standard(op).is_some() {
            return Err(Error::new(Exit::Usage, format!("`{op}` is a standard operator")).hint("leave out --own"));
        }
        fits(backend, language)?;
        let (source, plan) = match language {
            Language::C | Language::Cpp => (template!("own.c.in"), None),
            Language::Cuda | Language::Hip => (template!("own.cu.in"), Some(template!("own.launch.toml.in"))),
            Language::Triton => (template!("own.py.in"), Some(template!("own_triton.launch.toml.in"))),
        };
        let bindings = match plan {
            None => template!("own_native.bindings.rs.in"),
            Some(_) => template!("own_device.bindings.rs.in"),
        };
        // The header comes first: the bindings hold its digest.
        let files = [("h", Some(template!("own.h.in"))), (language.extension(), Some(source)), ("launch.toml", plan)];
        let files = files.into_iter().chain([("bindings.rs", Some(bindings))]);
        let kernels = files.filter_map(|(end, text)| Some((format!("{op}.{end}"), text?.to_owned()))).collect();
        let (op, dtype, lib) = (op.to_owned(), DType::F32, template!("own_lib.rs.in"));
        Ok(Self { op, backend, language, dtype, shapes: OWN_SHAPES, lib, kernels })
    }

    /// Every file of the crate. A crate that is its own root also gets what a workspace would give it.
    pub fn files(&self, name: &str, harness: &Harness, is_root: bool) -> Vec<NewFile> {
        let shapes: String = self.shapes.iter().map(|shape| format!("    {{ {shape} }},\n")).collect();
        // f32 is what a manifest means that says nothing.
        let dtype = match self.dtype {
            DType::F32 => String::new(),
            other => format!("dtype = \"{}\"\n", other.name()),
        };
        let language = match self.backend.language() == self.language {
            true => String::new(),
            false => format!("language = \"{}\"\n", self.language.name()),
        };
        // For the device that is here; where there is none, for what a manifest means that says nothing.
        let usual = match (self.backend, self.language) {
            (Backend::Cpu, _) => None,
            (Backend::Cuda, _) => Some("sm_90"),
            (Backend::Hip, Language::Triton) => Some("gfx942"),
            (Backend::Hip, _) => Some("gfx90a"),
        };
        let arch = usual.map_or_else(String::new, |usual| format!("arch = [\"native\", \"{usual}\"]\n"));
        let fill = |text: &str| {
            text.replace("{{name}}", name)
                .replace("{{crate}}", &name.replace('-', "_"))
                .replace("{{op}}", &self.op)
                .replace("{{OP}}", &self.op.to_uppercase())
                .replace("{{backend}}", self.backend.name())
                .replace("{{language}}", &language)
                .replace("{{dtype}}", &dtype)
                .replace("{{arch}}", &arch)
                .replace("{{shapes}}", &shapes)
                .replace("{{harness}}", &harness.harness)
                .replace("{{build}}", &harness.build)
        };
        let mut manifest = fill(template!("Cargo.toml.in"));
        let mut files: Vec<NewFile> = [
            ("build.rs", template!("build.rs.in")),
            ("src/lib.rs", self.lib),
            ("tests/correctness.rs", template!("correctness.rs.in")),
            ("benches/latency.rs", template!("latency.rs.in")),
        ]
        .into_iter()
        .map(|(path, text)| (path.into(), fill(text)))
        .collect();
        let mut digest = String::new();
        for (file, text) in &self.kernels {
            let text = fill(text).replace("{{digest}}", &digest);
            if file.ends_with(".h") {
                digest = sha256(&text);
            }
            files.push((format!("kernels/{file}").into(), text));
        }
        if is_root {
            manifest.push_str(template!("profile.toml.in"));
            files.push((".gitignore".into(), template!("gitignore.in").to_owned()));
        }
        files.push(("Cargo.toml".into(), manifest));
        files
    }
}

/// `cpu`, or `cuda in triton`.
pub fn written(backend: Backend, language: Language) -> String {
    match backend.language() == language {
        true => backend.name().to_owned(),
        false => format!("{} in {}", backend.name(), language.name()),
    }
}

fn fits(backend: Backend, language: Language) -> Result<()> {
    let languages = backend.languages();
    if languages.contains(&language) {
        return Ok(());
    }
    let what = format!("kernels for {} are not written in {}", backend.name(), language.name());
    Err(Error::new(Exit::Usage, what).hint(format!("they are in {}", languages.map(Language::name).join(" or "))))
}

/// As `kopt-build` writes it into bindings.
fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unknown(op: &str) -> Error {
    let error = Error::new(Exit::Usage, format!("unknown operator `{op}`"));
    match kopt_schema::nearest(op, operator::STANDARD.iter().map(|known| known.name)) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("--list-ops names the standard ones; --own makes one of your own"),
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;
    use kopt_build::compile;
    use kopt_schema::manifest::Manifest;

    use super::*;

    /// Every backend with every language that its kernels are written in.
    fn all() -> impl Iterator<Item = (Backend, Language)> {
        let backends = [Backend::Cpu, Backend::Cuda, Backend::Hip];
        backends.into_iter().flat_map(|backend| backend.languages().map(|language| (backend, language)))
    }

    /// Every one, with its files.
    fn starters() -> Vec<(Starter, Vec<NewFile>)> {
        let version = "version = \"1\"".to_owned();
        let harness = Harness { harness: version.clone(), build: version, found: None };
        let standard = operator::STANDARD.iter().flat_map(|known| {
            examples::offers(known.name)
                .map(|(backend, language)| Starter::standard(known.name, backend, language).unwrap())
        });
        let own = all().map(|(backend, language)| Starter::own("scale", backend, language).unwrap());
        let files = |starter: Starter| {
            let files = starter.files("my-kernel", &harness, true);
            (starter, files)
        };
        standard.chain(own).map(files).collect()
    }

    fn manifest(files: &[NewFile]) -> Manifest {
        let text = &files.iter().find(|(path, _)| path == "Cargo.toml").unwrap().1;
        kopt_schema::manifest::parse("Cargo.toml", text, None).unwrap().unwrap()
    }

    #[test]
    fn every_starter_has_what_its_manifest_names_and_nothing_left_to_fill_in() {
        let mut found = 0;
        for (starter, files) in starters() {
            let text = |wanted: &str| &files.iter().find(|(path, _)| path == wanted).unwrap().1;
            assert!(files.iter().all(|(_, text)| !text.contains("{{")), "{starter:?}");
            let manifest = manifest(&files);
            assert_eq!((manifest.backend, manifest.language), (starter.backend, starter.language));
            // Of a device here, and without one it compiles all the same.
            let arch: Vec<&str> = manifest.arch.iter().map(String::as_str).collect();
            let is_for_a_device = matches!(arch.as_slice(), ["native", usual] if *usual != "native");
            assert!(is_for_a_device || starter.backend == Backend::Cpu && arch.is_empty(), "{starter:?}: {arch:?}");
            assert!(manifest.sources.iter().chain([&manifest.header]).all(|source| !text(source).is_empty()));
            assert!(manifest.launch.iter().all(|plan| !text(plan).is_empty()));
            assert!(text("tests/correctness.rs").contains("(my_kernel)"));
            // Its library has nothing to run by itself, and a toolchain without rustdoc should do.
            assert!(text("Cargo.toml").contains("[lib]\nbench = false\ndoctest = false\n"), "{starter:?}");
            assert!(starter.language != Language::Cpp || !text(&manifest.sources[0]).contains(" *restrict"));
            found += 1;
        }
        assert!(found > 20, "{found}");
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "what was not looked at is told")]
    fn every_starter_compiles_where_its_compiler_is_installed() {
        let mut compiled = 0;
        for (starter, files) in starters() {
            let manifest = manifest(&files);
            if let Some(why) = compile::lacking(&manifest) {
                eprintln!("skipped: {} for {}: {why}", starter.op, written(starter.backend, starter.language));
                continue;
            }
            let scratch = tempfile::tempdir().unwrap();
            let folder = Utf8Path::from_path(scratch.path()).unwrap();
            for (path, text) in &files {
                let path = folder.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let built = compile::compile(folder, &manifest, &folder.join("out"));
            let candidate = built.unwrap_or_else(|error| panic!("{starter:?}: {error}")).candidate;
            assert!(candidate.object.is_some(), "{starter:?}: {:?}", candidate.missing);
            compiled += 1;
        }
        assert!(compiled >= 10, "each operator for the processor, in C and in C++: {compiled}");
    }

    #[test]
    fn what_cannot_be_had_is_told_with_what_can() {
        let hint = |made: Result<Starter>| made.unwrap_err().failure().hint.unwrap();
        assert_eq!(hint(Starter::standard("sofmtax", Backend::Cpu, Language::C)), "did you mean `softmax`?");
        let triton = Starter::standard("rmsnorm", Backend::Hip, Language::Triton);
        assert_eq!(hint(triton), "there is one for: cpu, cpu in c++, cuda, hip");
        assert_eq!(hint(Starter::standard("softmax", Backend::Cpu, Language::Triton)), "they are in c or c++");
        assert_eq!(hint(Starter::own("softmax", Backend::Cpu, Language::C)), "leave out --own");
        assert_eq!(hint(Starter::own("scale", Backend::Hip, Language::Cuda)), "they are in hip or triton");
        assert!(Starter::own("a-b", Backend::Cpu, Language::C).is_err());
    }
}
