//! From the tables as written to a [`Manifest`]: defaults, inheritance, and everything that can be wrong in the text.

use serde::Deserialize;

use super::document::Document;
use super::table::{Check, KernelTable, WorkspaceTable};
use super::{Backend, CheckSettings, Class, Language, Manifest};
use crate::diagnostic::{Diagnostic, Step};
use crate::dtype::DType;

/// Seconds of a time limit at most: a day.
pub(super) const LONGEST_S: f64 = 86_400.0;

/// The `Cargo.toml` has no `[package.metadata.kopt]`: an ordinary crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAKernel;

/// Reads the kernel table of a package. `workspace` is the file and text of the workspace's root manifest.
///
/// # Errors
/// Everything that is wrong, in the order of the file. A crate without the table is `Ok(Err(NotAKernel))`.
pub fn parse(
    file: &str,
    text: &str,
    workspace: Option<(&str, &str)>,
) -> Result<Result<Manifest, NotAKernel>, Vec<Diagnostic>> {
    #[derive(Deserialize)]
    struct Root {
        package: Option<Section<KernelTable>>,
    }
    #[derive(Deserialize)]
    struct WorkspaceRoot {
        workspace: Option<Section<WorkspaceTable>>,
    }
    #[derive(Deserialize)]
    struct Section<T> {
        metadata: Option<Metadata<T>>,
    }
    #[derive(Deserialize)]
    struct Metadata<T> {
        kopt: Option<T>,
    }
    let document = Document { file, text };
    let workspace = workspace.map(|(file, text)| Document { file, text });
    let root: Root = document.read()?;
    let Some(table) = root.package.and_then(|package| package.metadata).and_then(|metadata| metadata.kopt) else {
        return Ok(Err(NotAKernel));
    };
    let defaults = match workspace {
        Some(document) => {
            let root: WorkspaceRoot = document.read()?;
            root.workspace.and_then(|workspace| workspace.metadata).and_then(|metadata| metadata.kopt)
        }
        None => None,
    };
    let mut resolver = Resolver { document, workspace, findings: Vec::new() };
    let manifest = resolver.manifest(table, defaults.unwrap_or_default());
    if resolver.findings.is_empty() { Ok(Ok(manifest)) } else { Err(resolver.findings) }
}

pub(super) struct Resolver<'a> {
    document: Document<'a>,
    workspace: Option<Document<'a>>,
    findings: Vec<Diagnostic>,
}

impl Resolver<'_> {
    pub(super) fn wrong(&mut self, path: &[Step], message: impl Into<String>, hint: impl Into<Option<String>>) {
        self.wrong_in(self.document, "package", path, message, hint);
    }

    /// The same of what the workspace gives.
    pub(super) fn wrong_in_workspace(&mut self, path: &[Step], message: String, hint: String) {
        // Without one nothing is inherited.
        if let Some(document) = self.workspace {
            self.wrong_in(document, "workspace", path, message, hint);
        }
    }

    fn wrong_in(
        &mut self,
        document: Document<'_>,
        section: &str,
        path: &[Step],
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        let mut whole: Vec<Step> = [section, "metadata", "kopt"].map(Step::from).into();
        whole.extend_from_slice(path);
        let mut finding = Diagnostic::at_path(document.file, document.text, &whole, message);
        finding.hint = hint.into();
        self.findings.push(finding);
    }

    fn manifest(&mut self, table: KernelTable, defaults: WorkspaceTable) -> Manifest {
        let op = table.op;
        if !is_identifier(&op) {
            let hint = "use letters, digits and `_`: entry points are C functions of that name".to_owned();
            self.wrong(&["op".into()], format!("`{op}` is not a C identifier"), hint);
        }
        let backend = table.backend;
        let languages = backend.languages();
        let language = table.language.unwrap_or(backend.language());
        if !languages.contains(&language) {
            let message = format!("backend {} is not written in this language", backend.name());
            self.wrong(
                &["language".into()],
                message,
                format!("it is one of {}", languages.map(Language::name).join(", ")),
            );
        }
        let class = table.class.unwrap_or(if backend == Backend::Cpu { Class::Native } else { Class::Device });
        if (backend == Backend::Cpu) != (class == Class::Native) {
            let message = format!("backend {} has no class {}", backend.name(), class.name());
            self.wrong(&["class".into()], message, "cpu: native; cuda and hip: device or launcher".to_owned());
        }
        if language == Language::Triton && class == Class::Launcher {
            self.wrong(&["class".into()], "what Triton makes is of class device", None);
        }
        let generator = table.generator.unwrap_or_default();
        if language != Language::Triton && !generator.is_empty() {
            self.wrong(&["generator".into()], "only language triton has a generator", None);
        }
        let launch = match (class, table.launch) {
            (Class::Device, given) => Some(given.unwrap_or_else(|| format!("kernels/{op}.launch.toml"))),
            (_, None) => None,
            (_, Some(_)) => {
                self.wrong(&["launch".into()], format!("class {} takes no launch plan", class.name()), None);
                None
            }
        };
        let header = table.header.unwrap_or_else(|| format!("kernels/{op}.h"));
        let mut sources = table.sources.unwrap_or_else(|| vec![format!("kernels/{op}.{}", language.extension())]);
        for (index, source) in sources.iter().enumerate() {
            if !is_inside(source) {
                let hint = "sources are relative to the crate and inside it".to_owned();
                self.wrong(&["sources".into(), index.into()], format!("`{source}` leaves the crate"), hint);
            }
        }
        if !is_inside(&header) {
            self.wrong(&["header".into()], format!("`{header}` leaves the crate"), None);
        }
        let knobs_header = (!table.knobs.is_empty()).then(|| format!("kernels/{op}_knobs.h"));
        for own in launch.iter().chain(&knobs_header) {
            if !sources.contains(own) {
                sources.push(own.clone());
            }
        }
        let shapes = self.shapes(&op, &table.shapes);
        for (name, knob) in &table.knobs {
            if !is_identifier(name) {
                self.wrong(&["knobs".into(), name.as_str().into()], "a knob's name is a C identifier", None);
            }
            if !knob.values.contains(&knob.default) {
                let message = format!("the default {} is not among the values", knob.default);
                self.wrong(&["knobs".into(), name.as_str().into(), "default".into()], message, None);
            }
        }
        self.constraints(&table.constraints, &shapes, table.knobs.keys());
        let settings = self.check(table.check.as_ref(), defaults.check.as_ref());
        let transfer = table.transfer.and_then(|table| self.transfer(table));
        let dtype = table.dtype.or(defaults.dtype).unwrap_or(DType::F32);
        if dtype == DType::I32 {
            let hint = "f32, bf16 or f16; integer buffers are declared by the operator".to_owned();
            self.wrong(&["dtype".into()], "kernels compute in a floating-point type", hint);
        }
        let arch = self.arch(backend, language, table.arch, defaults.arch);
        Manifest {
            op,
            backend,
            language,
            class,
            dtype,
            sources,
            header,
            launch,
            arch,
            generator,
            flags: table.flags.or(defaults.flags).unwrap_or_default(),
            include_roots: table.include_roots.unwrap_or_default(),
            shapes,
            knobs: table.knobs,
            constraints: table.constraints,
            check: settings,
            allow: table.policy.and_then(|policy| policy.allow).unwrap_or_default(),
            transfer,
        }
    }

    fn check(&mut self, own: Option<&Check>, inherited: Option<&Check>) -> CheckSettings {
        let seeds = own.and_then(|c| c.seeds).or_else(|| inherited.and_then(|c| c.seeds)).unwrap_or(3);
        let timeout_s = own.and_then(|c| c.timeout_s).or_else(|| inherited.and_then(|c| c.timeout_s)).unwrap_or(20.0);
        if seeds == 0 {
            self.wrong(&["check".into(), "seeds".into()], "a trial needs at least one seed", None);
        }
        if !(timeout_s > 0.0 && timeout_s <= LONGEST_S) {
            self.wrong(&["check".into(), "timeout_s".into()], "a time limit is above zero, and a day at most", None);
        }
        CheckSettings { seeds, timeout_s }
    }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_inside(path: &str) -> bool {
    let path = std::path::Path::new(path);
    path.is_relative() && path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::TransferSettings;

    const GOOD: &str = r#"
[package]
name = "softmax-cpu"
[package.metadata.kopt]
op = "softmax"
backend = "cpu"
shapes = [
  { rows = 4, cols = 8 },
  { name = "wide", cols = 8000, rows = 4 },
]
"#;

    fn parse_text(text: &str) -> Result<Manifest, Vec<Diagnostic>> {
        parse("Cargo.toml", text, None).map(|kernel| kernel.unwrap())
    }

    #[test]
    fn defaults_are_filled_in() {
        let manifest = parse_text(GOOD).unwrap();
        assert_eq!(manifest.sources, ["kernels/softmax.c"]);
        assert_eq!(manifest.header, "kernels/softmax.h");
        assert_eq!((manifest.class, manifest.language, manifest.dtype), (Class::Native, Language::C, DType::F32));
        assert_eq!(manifest.shapes[0].name, "4x8");
        assert_eq!(manifest.shapes[1].name, "wide");
        assert_eq!(manifest.shapes[1].size("cols"), 8000);
        assert_eq!(manifest.transfer, None);
    }

    #[test]
    fn a_kernel_is_trained_with_in_a_slot_or_by_a_script_with_a_limit_and_a_tolerance() {
        let with = |table: &str| {
            let text = GOOD.replacen("backend = \"cpu\"", &format!("backend = \"cpu\"\n{table}"), 1);
            parse_text(&text).unwrap().transfer.unwrap()
        };
        assert_eq!(with("transfer.slot = \"softmax\""), TransferSettings::Slot("softmax".to_owned()));
        let TransferSettings::Script(script) = with("transfer.command = \"python train.py\"") else {
            panic!("a command is a script")
        };
        assert_eq!((script.command.as_str(), script.timeout_s), ("python train.py", 600.0));
        assert_eq!(script.loss_tolerance, 1e-3);
    }

    #[test]
    fn a_device_kernel_has_a_launch_plan_among_its_sources() {
        let manifest = parse_text(&GOOD.replace("\"cpu\"", "\"cuda\"")).unwrap();
        assert_eq!(manifest.launch.as_deref(), Some("kernels/softmax.launch.toml"));
        assert_eq!(manifest.sources, ["kernels/softmax.cu", "kernels/softmax.launch.toml"]);
        assert_eq!(manifest.arch, ["sm_90"]);
    }

    #[test]
    fn triton_is_a_language_of_both_gpus_and_its_source_is_python() {
        let triton = |backend: &str, more: &str| {
            let table = format!("backend = \"{backend}\"\nlanguage = \"triton\"{more}");
            parse_text(&GOOD.replace("backend = \"cpu\"", &table))
        };
        let manifest = triton("cuda", "").unwrap();
        assert_eq!((manifest.class, manifest.arch.as_slice()), (Class::Device, &["sm_90".to_owned()][..]));
        assert_eq!(manifest.compiled().collect::<Vec<_>>(), ["kernels/softmax.py"]);
        assert_eq!(triton("hip", "").unwrap().arch, ["gfx942"]);
        let own = triton("cuda", "\ngenerator = [\"kernels/make.py\"]").unwrap();
        assert_eq!(own.generator, ["kernels/make.py"]);
        assert!(triton("cpu", "").unwrap_err()[0].message.contains("not written in this language"));
        assert!(triton("cuda", "\nclass = \"launcher\"").unwrap_err()[0].message.contains("class device"));
        let plain = GOOD.replace("op =", "generator = [\"make\"]\nop =");
        assert!(parse_text(&plain).unwrap_err()[0].message.contains("only language triton"));
    }

    #[test]
    fn the_workspace_gives_defaults_and_the_package_overrides_them() {
        let workspace = "[workspace.metadata.kopt]\nflags = [\"-funroll-loops\"]\ndtype = \"bf16\"\ncheck.seeds = 5\n";
        let own = format!("{GOOD}\ndtype = \"f16\"\n");
        let manifest = parse("a/Cargo.toml", &own, Some(("Cargo.toml", workspace))).unwrap().unwrap();
        assert_eq!(manifest.flags, ["-funroll-loops"]);
        assert_eq!(manifest.dtype, DType::F16);
        assert_eq!(manifest.check.seeds, 5);
    }

    #[test]
    fn a_crate_without_the_table_is_no_kernel() {
        assert_eq!(parse("Cargo.toml", "[package]\nname = \"x\"\n", None), Ok(Err(NotAKernel)));
    }

    /// What is wrong, the line it is on, and what the message must say.
    #[test]
    fn every_mistake_names_its_place_and_the_nearest_spelling() {
        let cases = [
            ("shapes = [", "shpaes = [", 7, "unknown key `shpaes`", "did you mean `shapes`?"),
            ("backend = \"cpu\"", "backend = \"cdua\"", 6, "unknown variant `cdua`", "did you mean `cuda`?"),
            ("backend = \"cpu\"", "backend = 3", 6, "wanted string", ""),
            ("rows = 4, cols = 8 }", "rosw = 4, cols = 8 }", 8, "no parameter `rosw`", "did you mean `rows`?"),
            ("rows = 4, cols = 8 }", "rows = 4 }", 8, "needs `cols`", ""),
            ("rows = 4, cols = 8 }", "rows = -4, cols = 8 }", 8, "not negative", ""),
            ("rows = 4, cols = 8 }", "rows = 4.5, cols = 8 }", 8, "a size (an integer) or a word", ""),
            ("rows = 4, cols = 8 }", "rows = 4, cols = 8000 }", 9, "the same shape as", ""),
            ("{ rows = 4, cols = 8 }", "{ name = \"wide\", rows = 4, cols = 8 }", 9, "given before", ""),
            ("op = \"softmax\"", "op = \"soft-max\"", 5, "not a C identifier", "letters"),
            ("backend = \"cpu\"", "backend = \"cpu\"\nsources = [\"../x.c\"]", 7, "leaves the crate", "inside"),
            ("backend = \"cpu\"", "backend = \"cpu\"\nclass = \"device\"", 7, "has no class device", "native"),
            ("backend = \"cpu\"", "backend = \"cpu\"\nlanguage = \"cuda\"", 7, "not written in", "c, c++"),
            ("backend = \"cpu\"", "backend = \"cpu\"\nknobs.T = { values = [1], default = 2 }", 7, "not among", ""),
            ("backend = \"cpu\"", "backend = \"cpu\"\nconstraints = [\"rowz > 1\"]", 7, "did you mean `rows`", ""),
            ("backend = \"cpu\"", "backend = \"cpu\"\ncheck.seeds = 0", 7, "at least one seed", ""),
            ("backend = \"cpu\"", "backend = \"cpu\"\ntransfer.command = \" \"", 7, "is a command", "train.py"),
            ("backend = \"cpu\"", "backend = \"cpu\"\ntransfer = {}", 7, "neither a slot nor a command", "slot = "),
            (
                "backend = \"cpu\"",
                "backend = \"cpu\"\ntransfer = { slot = \"softmax\", command = \"x\" }",
                7,
                "not both",
                "take one away",
            ),
            ("backend = \"cpu\"", "backend = \"cpu\"\ntransfer.slot = \"rmsnrom\"", 7, "no slot", "`rmsnorm`?"),
            (
                "backend = \"cpu\"",
                "backend = \"cpu\"\ntransfer = { slot = \"softmax\", timeout_s = 3.0 }",
                7,
                "of a command",
                "",
            ),
            (
                "backend = \"cpu\"",
                "backend = \"cpu\"\ntransfer.comand = \"x\"",
                7,
                "unknown key `comand`",
                "did you mean `command`?",
            ),
            (
                "backend = \"cpu\"",
                "backend = \"cpu\"\ntransfer = { command = \"x\", timeout_s = 0 }",
                7,
                "above zero",
                "",
            ),
            (
                "backend = \"cpu\"",
                "backend = \"cpu\"\ntransfer = { command = \"x\", loss_tolerance = 1.0 }",
                7,
                "less than 1",
                "0.001",
            ),
            ("backend = \"cpu\"", "backend = \"cpu\"\ndtype = \"i32\"", 7, "floating-point type", "bf16"),
            ("backend = \"cpu\"", "backend = \"cpu\"\nconstraints = [\"rows\"]", 7, "is a condition", ""),
        ];
        for (from, to, line, message, hint) in cases {
            let findings = parse_text(&GOOD.replacen(from, to, 1)).unwrap_err();
            let first = &findings[0];
            assert!(first.message.contains(message), "{to}: {first}");
            assert_eq!(first.position.map(|(line, _)| line), Some(line), "{to}: {first}");
            assert!(first.hint.as_deref().unwrap_or("").contains(hint), "{to}: {first}");
            assert!(first.key.is_some(), "{to}: {first}");
        }
    }

    #[test]
    fn no_shapes_is_an_error() {
        let findings = parse_text("[package.metadata.kopt]\nop = \"softmax\"\nbackend = \"cpu\"\n").unwrap_err();
        assert!(findings[0].message.contains("at least one shape"));
    }
}
