//! What a new crate starts from: the baseline kernels of the example crates for a standard operator, a small vector
//! operator for one's own, and the few lines of Rust that every kernel crate has.

use kopt_schema::DType;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Backend;
use kopt_schema::operator;
use sha2::{Digest, Sha256};

use super::harness::Harness;
use super::name;
use super::place::NewFile;
use crate::error::{Error, Result};

/// The files of an example crate's `kernels/`.
macro_rules! kernels {
    ($example:literal, $($file:literal),+) => {
        &[$(($file, include_str!(concat!("../../../example-kernels/", $example, "/kernels/", $file)))),+]
    };
}

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("templates/", $file))
    };
}

/// The kernel of an example crate.
struct Example {
    op: &'static str,
    backend: Backend,
    dtype: DType,
    kernels: &'static [(&'static str, &'static str)],
}

/// What can be started from; the operators on offer are those of this table.
const EXAMPLES: &[Example] = &[
    Example {
        op: "cross_entropy",
        backend: Backend::Cuda,
        dtype: DType::Bf16,
        kernels: kernels!(
            "cross-entropy-cuda",
            "cross_entropy.h",
            "cross_entropy.cu",
            "cross_entropy.launch.toml",
            "cross_entropy.bindings.rs"
        ),
    },
    Example {
        op: "decode_attention",
        backend: Backend::Cuda,
        dtype: DType::Bf16,
        kernels: kernels!(
            "decode-attention-cuda",
            "decode_attention.h",
            "decode_attention.cu",
            "decode_attention.launch.toml",
            "decode_attention.bindings.rs"
        ),
    },
    Example {
        op: "grouped_matmul",
        backend: Backend::Cpu,
        dtype: DType::F32,
        kernels: kernels!("grouped-matmul-cpu", "grouped_matmul.h", "grouped_matmul.c", "grouped_matmul.bindings.rs"),
    },
    Example {
        op: "grouped_matmul",
        backend: Backend::Cuda,
        dtype: DType::Bf16,
        kernels: kernels!(
            "grouped-matmul-cuda",
            "grouped_matmul.h",
            "grouped_matmul.cu",
            "grouped_matmul.launch.toml",
            "grouped_matmul.bindings.rs"
        ),
    },
    Example {
        op: "matmul",
        backend: Backend::Cpu,
        dtype: DType::F32,
        kernels: kernels!("matmul-cpu", "matmul.h", "matmul.c", "matmul.bindings.rs"),
    },
    Example {
        op: "matmul",
        backend: Backend::Cuda,
        dtype: DType::Bf16,
        kernels: kernels!("matmul-cuda", "matmul.h", "matmul.cu", "matmul.launch.toml", "matmul.bindings.rs"),
    },
    Example {
        op: "rmsnorm",
        backend: Backend::Cpu,
        dtype: DType::F32,
        kernels: kernels!("rmsnorm-cpu", "rmsnorm.h", "rmsnorm.c", "rmsnorm.bindings.rs"),
    },
    Example {
        op: "rmsnorm",
        backend: Backend::Cuda,
        dtype: DType::Bf16,
        kernels: kernels!("rmsnorm-cuda", "rmsnorm.h", "rmsnorm.cu", "rmsnorm.launch.toml", "rmsnorm.bindings.rs"),
    },
    Example {
        op: "softmax",
        backend: Backend::Cpu,
        dtype: DType::F32,
        kernels: kernels!("softmax-cpu", "softmax.h", "softmax.c", "softmax.bindings.rs"),
    },
    Example {
        op: "softmax",
        backend: Backend::Cuda,
        dtype: DType::F32,
        kernels: kernels!("softmax-cuda", "softmax.h", "softmax.cu", "softmax.launch.toml", "softmax.bindings.rs"),
    },
];

/// Shapes to start with: small enough that the first `cargo bench` ends soon, from decode to prefill.
const SHAPES: &[(&str, &[&str])] = &[
    (
        "grouped_matmul",
        &[
            r#"rows = 256, groups = 8, k = 128, n = 128, routing = "uniform""#,
            r#"rows = 256, groups = 8, k = 128, n = 128, routing = "top2-capacity-1.0""#,
            r#"rows = 256, groups = 8, k = 128, n = 128, routing = "top1-capacity-1.25""#,
            r#"rows = 256, groups = 8, k = 128, n = 128, routing = "skewed""#,
            r#"rows = 256, groups = 8, k = 128, n = 128, routing = "empty""#,
            r#"rows = 256, groups = 8, k = 128, n = 128, routing = "ragged""#,
            r#"rows = 512, groups = 16, k = 128, n = 256, routing = "ragged""#,
        ],
    ),
    (
        "decode_attention",
        &[
            "b = 1, h = 8, h_kv = 2, s = 1, t = 1024, d = 128",
            "b = 4, h = 8, h_kv = 8, s = 1, t = 512, d = 128",
            "b = 2, h = 8, h_kv = 8, s = 16, t = 512, d = 128",
            "b = 1, h = 4, h_kv = 4, s = 3, t = 333, d = 64",
        ],
    ),
    (
        "matmul",
        &[
            "m = 64, n = 64, k = 64",
            "m = 256, n = 256, k = 256",
            "m = 16, n = 1024, k = 512",
            "m = 384, n = 384, k = 384",
        ],
    ),
    ("", &["rows = 1, cols = 8192", "rows = 64, cols = 1024", "rows = 512, cols = 768", "rows = 1024, cols = 4096"]),
];

const OWN_SHAPES: &[&str] = &["n = 1000", "n = 65536", "n = 4194304"];

/// The backends on which an operator can be started.
pub fn backends(op: &str) -> impl Iterator<Item = Backend> {
    EXAMPLES.iter().filter(move |example| example.op == op).map(|example| example.backend)
}

/// A kernel to start from.
#[derive(Debug)]
pub struct Starter {
    op: String,
    backend: Backend,
    dtype: DType,
    shapes: &'static [&'static str],
    lib: &'static str,
    kernels: Vec<(String, &'static str)>,
}

impl Starter {
    /// A standard operator.
    ///
    /// # Errors
    /// When there is none of that name, or not for that backend.
    pub fn standard(op: &str, backend: Backend) -> Result<Self> {
        if operator::standard(op).is_none() {
            return Err(unknown(op));
        }
        let example =
            EXAMPLES.iter().find(|example| example.op == op && example.backend == backend).ok_or_else(|| {
                let known: Vec<&str> = backends(op).map(Backend::name).collect();
                let error = Error::new(Exit::Usage, format!("no {op} to start from for {}", backend.name()));
                match known.is_empty() {
                    true => error.hint("--list-ops names what there is"),
                    false => error.hint(format!("there is one for: {}", known.join(", "))),
                }
            })?;
        let shapes =
            SHAPES.iter().find(|(name, _)| *name == op || name.is_empty()).map_or(OWN_SHAPES, |(_, shapes)| shapes);
        let kernels = example.kernels.iter().map(|(file, text)| ((*file).to_owned(), *text)).collect();
        let dtype = example.dtype;
        Ok(Self { op: op.to_owned(), backend, dtype, shapes, lib: template!("lib.rs.in"), kernels })
    }

    /// A small vector operator with its mathematics in the crate, to be replaced by one's own.
    ///
    /// # Errors
    /// When the name is impossible or that of a standard operator.
    pub fn own(op: &str, backend: Backend) -> Result<Self> {
        if !name::is_c_identifier(op) {
            return Err(Error::new(Exit::Usage, format!("`{op}` is not a C identifier"))
                .hint("the entry point is a C function of that name; say another with --op"));
        }
        if operator::standard(op).is_some() {
            return Err(Error::new(Exit::Usage, format!("`{op}` is a standard operator")).hint("leave out --own"));
        }
        // The header comes first: the bindings hold its digest.
        let mut kernels = vec![(format!("{op}.h"), template!("own.h.in"))];
        let bindings = format!("{op}.bindings.rs");
        match backend {
            Backend::Cpu => {
                kernels.push((format!("{op}.c"), template!("own.c.in")));
                kernels.push((bindings, template!("own_native.bindings.rs.in")));
            }
            Backend::Cuda => {
                kernels.push((format!("{op}.cu"), template!("own.cu.in")));
                kernels.push((format!("{op}.launch.toml"), template!("own.launch.toml.in")));
                kernels.push((bindings, template!("own_device.bindings.rs.in")));
            }
            Backend::Hip => return Err(Error::new(Exit::Usage, "no kernel to start from for hip")),
        }
        let (shapes, lib) = (OWN_SHAPES, template!("own_lib.rs.in"));
        Ok(Self { op: op.to_owned(), backend, dtype: DType::F32, shapes, lib, kernels })
    }

    /// Every file of the crate. A crate that is its own root also gets what a workspace would give it.
    pub fn files(&self, name: &str, harness: &Harness, is_root: bool) -> Vec<NewFile> {
        let shapes: String = self.shapes.iter().map(|shape| format!("    {{ {shape} }},\n")).collect();
        // f32 is what a manifest means that says nothing.
        let dtype = match self.dtype {
            DType::F32 => String::new(),
            other => format!("dtype = \"{}\"\n", other.name()),
        };
        let fill = |text: &str| {
            text.replace("{{name}}", name)
                .replace("{{crate}}", &name.replace('-', "_"))
                .replace("{{op}}", &self.op)
                .replace("{{OP}}", &self.op.to_uppercase())
                .replace("{{backend}}", self.backend.name())
                .replace("{{dtype}}", &dtype)
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
    use kopt_schema::manifest::Language;

    use super::*;

    #[test]
    fn every_starter_has_what_its_manifest_names_and_nothing_left_to_fill_in() {
        let version = "version = \"1\"".to_owned();
        let harness = Harness { harness: version.clone(), build: version, found: None };
        let standard = EXAMPLES.iter().map(|example| Starter::standard(example.op, example.backend).unwrap());
        let own = [Backend::Cpu, Backend::Cuda].map(|backend| Starter::own("scale", backend).unwrap());
        for starter in standard.chain(own) {
            let files = starter.files("my-kernel", &harness, true);
            let text = |wanted: &str| &files.iter().find(|(path, _)| path == wanted).unwrap().1;
            assert!(files.iter().all(|(_, text)| !text.contains("{{")), "{starter:?}");
            let manifest = kopt_schema::manifest::parse("Cargo.toml", text("Cargo.toml"), None).unwrap().unwrap();
            assert!(manifest.sources.iter().chain([&manifest.header]).all(|source| !text(source).is_empty()));
            assert!(text("tests/correctness.rs").contains("(my_kernel)"));
            // Its library has nothing to run by itself, and a toolchain without rustdoc should do.
            assert!(text("Cargo.toml").contains("[lib]\nbench = false\ndoctest = false\n"), "{starter:?}");
        }
    }

    #[test]
    fn every_example_in_c_or_cuda_can_be_started_from() {
        let examples = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("example-kernels");
        let folders = examples.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path());
        let mut found = 0;
        for folder in folders.filter(|folder| folder.join("Cargo.toml").exists()) {
            let manifest = kopt_build::manifest::load(&folder, None, &folder).unwrap().unwrap();
            if matches!(manifest.language, Language::C | Language::Cuda) {
                let is_it = |one: &Example| one.op == manifest.op && one.backend == manifest.backend;
                assert!(EXAMPLES.iter().any(is_it), "{folder}");
                found += 1;
            }
        }
        assert_eq!(found, EXAMPLES.len());
    }

    #[test]
    fn a_misspelt_operator_gets_the_nearest() {
        let hint = |error: Error| error.failure().hint.unwrap();
        assert_eq!(hint(Starter::standard("sofmtax", Backend::Cpu).unwrap_err()), "did you mean `softmax`?");
        assert_eq!(hint(Starter::standard("rmsnorm", Backend::Hip).unwrap_err()), "there is one for: cpu, cuda");
        assert_eq!(hint(Starter::own("softmax", Backend::Cpu).unwrap_err()), "leave out --own");
        assert!(Starter::own("a-b", Backend::Cpu).is_err());
    }
}
