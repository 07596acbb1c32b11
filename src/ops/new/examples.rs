//! The baseline kernels of the example crates, which new crates start from.

use kopt_schema::DType;
use kopt_schema::manifest::{Backend, Language};

/// The files of an example crate's `kernels/`.
macro_rules! kernels {
    ($example:literal, $($file:literal),+) => {
        &[$(($file, include_str!(concat!("../../../example-kernels/", $example, "/kernels/", $file)))),+]
    };
}

/// The kernel of an example crate.
#[derive(Debug)]
pub struct Example {
    pub op: &'static str,
    pub backend: Backend,
    pub language: Language,
    pub dtype: DType,
    /// Names and texts.
    pub kernels: &'static [(&'static str, &'static str)],
}

/// What can be started from; the operators on offer are those of this table. One in C is one in C++, too, and one in Triton one
/// for both GPUs.
pub const EXAMPLES: &[Example] = &[
    Example {
        op: "cross_entropy",
        backend: Backend::Cuda,
        language: Language::Cuda,
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
        language: Language::Cuda,
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
        language: Language::C,
        dtype: DType::F32,
        kernels: kernels!("grouped-matmul-cpu", "grouped_matmul.h", "grouped_matmul.c", "grouped_matmul.bindings.rs"),
    },
    Example {
        op: "grouped_matmul",
        backend: Backend::Cuda,
        language: Language::Cuda,
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
        language: Language::C,
        dtype: DType::F32,
        kernels: kernels!("matmul-cpu", "matmul.h", "matmul.c", "matmul.bindings.rs"),
    },
    Example {
        op: "matmul",
        backend: Backend::Cuda,
        language: Language::Cuda,
        dtype: DType::Bf16,
        kernels: kernels!("matmul-cuda", "matmul.h", "matmul.cu", "matmul.launch.toml", "matmul.bindings.rs"),
    },
    Example {
        op: "rmsnorm",
        backend: Backend::Cpu,
        language: Language::C,
        dtype: DType::F32,
        kernels: kernels!("rmsnorm-cpu", "rmsnorm.h", "rmsnorm.c", "rmsnorm.bindings.rs"),
    },
    Example {
        op: "rmsnorm",
        backend: Backend::Cuda,
        language: Language::Cuda,
        dtype: DType::Bf16,
        kernels: kernels!("rmsnorm-cuda", "rmsnorm.h", "rmsnorm.cu", "rmsnorm.launch.toml", "rmsnorm.bindings.rs"),
    },
    Example {
        op: "rmsnorm",
        backend: Backend::Hip,
        language: Language::Hip,
        dtype: DType::Bf16,
        kernels: kernels!("rmsnorm-hip", "rmsnorm.h", "rmsnorm.hip", "rmsnorm.launch.toml", "rmsnorm.bindings.rs"),
    },
    Example {
        op: "softmax",
        backend: Backend::Cpu,
        language: Language::C,
        dtype: DType::F32,
        kernels: kernels!("softmax-cpu", "softmax.h", "softmax.c", "softmax.bindings.rs"),
    },
    Example {
        op: "softmax",
        backend: Backend::Cuda,
        language: Language::Cuda,
        dtype: DType::F32,
        kernels: kernels!("softmax-cuda", "softmax.h", "softmax.cu", "softmax.launch.toml", "softmax.bindings.rs"),
    },
    Example {
        op: "softmax",
        backend: Backend::Hip,
        language: Language::Hip,
        dtype: DType::F32,
        kernels: kernels!("softmax-hip", "softmax.h", "softmax.hip", "softmax.launch.toml", "softmax.bindings.rs"),
    },
    Example {
        op: "softmax",
        backend: Backend::Cuda,
        language: Language::Triton,
        dtype: DType::F32,
        kernels: kernels!("softmax-triton", "softmax.h", "softmax.py", "softmax.launch.toml", "softmax.bindings.rs"),
    },
];

/// Shapes to start with: small enough that the first `cargo bench` ends soon, from decode to prefill.
pub const SHAPES: &[(&str, &[&str])] = &[
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

/// What an operator can be started in, in the order of the table.
pub fn offers(op: &str) -> impl Iterator<Item = (Backend, Language)> {
    EXAMPLES.iter().filter(move |example| example.op == op).flat_map(|example| {
        let own = (example.backend, example.language);
        match example.language {
            Language::C => vec![own, (example.backend, Language::Cpp)],
            Language::Triton => vec![own, (Backend::Hip, Language::Triton)],
            _ => vec![own],
        }
    })
}

/// The example that an operator is started from.
pub fn find(op: &str, backend: Backend, language: Language) -> Option<&'static Example> {
    let source = if language == Language::Cpp { Language::C } else { language };
    EXAMPLES.iter().find(|example| {
        example.op == op && example.language == source && offers(op).any(|offer| offer == (backend, language))
    })
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;

    #[test]
    fn every_example_can_be_started_from() {
        let examples = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("example-kernels");
        let folders = examples.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path());
        let mut found = 0;
        for folder in folders.filter(|folder| folder.join("Cargo.toml").exists()) {
            let manifest = kopt_build::manifest::load(&folder, None, &folder).unwrap().unwrap();
            let example = find(&manifest.op, manifest.backend, manifest.language);
            assert_eq!(example.map(|example| example.dtype), Some(manifest.dtype), "{folder}");
            found += 1;
        }
        assert_eq!(found, EXAMPLES.len());
    }
}
