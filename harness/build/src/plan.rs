//! A launch plan, held against what it may name and against what its launches can be.
//!
//! Whoever compiles a version for a match asks here, and so does a build script: what is wrong with a plan is wrong with the
//! version that brings it, and is told in a build's words. Found by a judge it would be a set-up that is wrong, which is
//! nobody's fault and which a campaign can do nothing about.
//!
//! No compiler is needed for that: a plan is read as it is written, before anything is compiled. One of Triton is whole only
//! afterwards, and read once more then; and what kernels of CUDA take is known only then.

use camino::Utf8Path;
use kopt_schema::diagnostic::{Diagnostic, Step};
use kopt_schema::expression::Value;
use kopt_schema::manifest::{Backend, Language, Manifest, ShapeValue};
use kopt_schema::plan::{self, Launch, PlanContext, PlanTable};

use crate::bindings::{Bindings, EntryStruct};
use crate::compile::{self, Built};
use crate::error::BuildError;
use crate::parameters;

/// Blocks of a grid along its second and its third size at most. Along the first a plan ends where they do.
const MOST_BLOCKS: u32 = 65_535;

/// Threads of a block along its third size at most.
const MOST_DEEP: u32 = 64;

/// What the plan of a crate is held against.
pub(crate) struct Subject<'a> {
    pub folder: &'a Utf8Path,
    pub manifest: &'a Manifest,
    pub bindings: &'a Bindings,
}

impl Subject<'_> {
    /// The plan as it is written in `file`.
    pub(crate) fn written(&self, file: &str, text: &str) -> Result<(), BuildError> {
        if self.manifest.language != Language::Triton {
            return self.check(file, text);
        }
        // Threads are Triton's to say, and what it says is not known yet.
        let is_open = |key: Option<&str>| key.is_some_and(|key| key.ends_with("].block"));
        let mut findings = plan::parse(file, text, &self.context()).err().unwrap_or_default();
        findings.retain(|finding| !is_open(finding.key.as_deref()));
        if findings.is_empty() { Ok(()) } else { Err(BuildError::Manifest(findings)) }
    }

    /// What was made of it by compiling, and of the kernels that it names. Without a compiler there is nothing to look at.
    pub(crate) fn compiled(&self, file: &str, built: &Built) -> Result<(), BuildError> {
        let (Some(object), Some(text)) = (&built.candidate.object, &built.candidate.plan) else { return Ok(()) };
        match self.manifest.language {
            Language::Triton => self.completed(file, text),
            Language::Cuda => self.passes(file, text, &built.file.with_file_name(object).with_extension("ptx")),
            // Its compiler has said which kernels there are, and nobody what they take.
            _ => Ok(()),
        }
    }

    /// The plan as Triton has completed it.
    fn completed(&self, file: &str, text: &str) -> Result<(), BuildError> {
        self.check(&format!("{file}, completed"), text).map_err(|error| match error {
            // Lines of a text that nobody has: the key is what leads to the place.
            BuildError::Manifest(mut findings) => {
                findings.iter_mut().for_each(|finding| finding.position = None);
                BuildError::Manifest(findings)
            }
            error => error,
        })
    }

    /// What the plan passes, against what the kernels take. Where their PTX was not kept nothing is known of that.
    fn passes(&self, file: &str, text: &str, ptx: &Utf8Path) -> Result<(), BuildError> {
        let (Ok(ptx), Ok(plan)) = (std::fs::read_to_string(ptx), toml::from_str::<PlanTable>(text)) else {
            return Ok(());
        };
        let entries = self.bindings.layouts().unwrap_or_default();
        let (forward, shapes) = (&self.manifest.op, &self.manifest.shapes);
        match parameters::disagreement(&plan, forward, &entries, shapes, &parameters::kernels(&ptx)) {
            Some(reason) => Err(BuildError::Header { header: file.to_owned(), reason }),
            None => Ok(()),
        }
    }

    /// The plan, against the entries, fields, sizes and knobs it may name, and against every listed shape.
    fn check(&self, file: &str, text: &str) -> Result<(), BuildError> {
        let context = self.context();
        let plan = plan::parse(file, text, &context).map_err(BuildError::Manifest)?;
        let lacking = self.lacking(file, text);
        if !lacking.is_empty() {
            return Err(BuildError::Manifest(lacking));
        }
        let knobs = compile::knob_values(self.folder, self.manifest)?;
        for shape in &self.manifest.shapes {
            let mut scope = shape.scope();
            scope.extend(knobs.iter().map(|(name, value)| (name.clone(), Value::Int(*value))));
            scope.insert("dtype".to_owned(), Value::Text(self.manifest.dtype.name().to_owned()));
            for (entry, _) in &context.entries {
                let wrong = |reason| BuildError::Header { header: format!("{file}, shape {}", shape.name), reason };
                let launches = plan.resolve(entry, &scope).map_err(wrong)?;
                if launches.is_empty() && !shape.parameters.iter().any(|(_, v)| *v == ShapeValue::Size(0)) {
                    return Err(wrong(format!("no launch of entry `{entry}` applies")));
                }
                // What other devices take varies.
                let refused = launches.iter().find_map(refused).filter(|_| self.manifest.backend == Backend::Cuda);
                if let Some(reason) = refused {
                    return Err(wrong(reason));
                }
                plan.workspace(&scope).map_err(wrong)?;
                // Only the operator knows what its buffers hold: what rests on that is checked where it is known.
                plan.tensor_maps(&launches, &scope, &|_| Ok(None)).map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// What the plan asks for and devices of its backend have not.
    fn lacking(&self, file: &str, text: &str) -> Vec<Diagnostic> {
        let table = match self.manifest.backend {
            Backend::Hip => toml::from_str::<PlanTable>(text).ok(),
            _ => None,
        };
        let Some(table) = table else { return Vec::new() };
        let clusters = table.launch.iter().enumerate().filter(|(_, launch)| !launch.cluster.is_empty());
        let clusters = clusters.map(|(index, launch)| {
            let path = [Step::from("launch"), index.into(), "cluster".into()];
            let message = format!("`{}`: devices of hip have no clusters", launch.kernel);
            Diagnostic::at_path(file, text, &path, message)
        });
        let maps = table.tensor_map.iter().enumerate().map(|(index, map)| {
            let path = [Step::from("tensor_map"), index.into(), "name".into()];
            let message = format!("`{}`: devices of hip have no tensor maps", map.name);
            Diagnostic::at_path(file, text, &path, message)
        });
        clusters.chain(maps).collect()
    }

    fn context(&self) -> PlanContext {
        let fields = |entry: &EntryStruct| entry.fields.iter().map(|field| field.name.clone()).collect();
        let entries = self.bindings.entries.iter().map(|entry| (entry.symbol.clone(), fields(entry))).collect();
        PlanContext::of(self.manifest, entries)
    }
}

/// What no device of CUDA takes, of whatever generation. A driver refuses it with one word for everything.
fn refused(launch: &Launch) -> Option<String> {
    let Launch { kernel, grid, block, cluster, .. } = launch;
    if grid.iter().skip(1).any(|blocks| *blocks > MOST_BLOCKS) {
        let hint = format!("only the first size may be above {MOST_BLOCKS}");
        return Some(format!("`grid` of `{kernel}`: {grid:?} is more blocks than a device takes; {hint}"));
    }
    if block[2] > MOST_DEEP {
        let hint = format!("the third size is {MOST_DEEP} at most");
        return Some(format!("`block` of `{kernel}`: {block:?} is more threads than a device takes; {hint}"));
    }
    let cluster = (*cluster)?;
    let divides = grid.iter().zip(cluster).all(|(blocks, of_cluster)| blocks.is_multiple_of(of_cluster));
    (!divides).then(|| format!("`cluster` of `{kernel}`: {cluster:?} does not divide the grid, which is {grid:?}"))
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;
    use crate::compile::compile_recipe;
    use crate::digest;
    use crate::recipe::Recipe;

    const HEADER: &str = "#include <stdint.h>\n\
        typedef struct softmax_args { const float *x; float *y; int64_t rows; int64_t cols; } softmax_args;\n";
    const BINDINGS: &str = "#[repr(C)]\n\
        pub struct softmax_args { pub x: *const f32, pub y: *mut f32, pub rows: i64, pub cols: i64 }\n";
    const PLAN: &str = "[[launch]]\nkernel = \"softmax_rows\"\ngrid = [\"rows\"]\nblock = [256]\n";

    /// A crate whose compiler is not here.
    struct Ground {
        scratch: tempfile::TempDir,
        manifest: Manifest,
    }

    impl Ground {
        fn new(table: &str) -> Self {
            let scratch = tempfile::tempdir().unwrap();
            std::fs::create_dir(scratch.path().join("kernels")).unwrap();
            let text = format!(
                "[package.metadata.kopt]\nop = \"softmax\"\n{table}\nshapes = [{{ name = \"small\", rows = 3, cols = 70000 }}]\n"
            );
            let manifest = kopt_schema::manifest::parse("Cargo.toml", &text, None).unwrap().unwrap();
            let ground = Self { scratch, manifest };
            ground.write("softmax.h", HEADER);
            // For where libclang is not installed.
            let digest = digest::of_bytes(HEADER.as_bytes());
            ground.write("softmax.bindings.rs", &format!("// header digest: {digest}\n{BINDINGS}"));
            ground
        }

        fn write(&self, file: &str, text: &str) {
            std::fs::write(self.folder().join("kernels").join(file), text).unwrap();
        }

        fn folder(&self) -> Utf8PathBuf {
            Utf8PathBuf::from_path_buf(self.scratch.path().to_owned()).unwrap()
        }

        /// What is wrong with a plan.
        fn refused(&self, plan: &str) -> Option<BuildError> {
            self.write("softmax.launch.toml", plan);
            self.wrong()
        }

        /// What is wrong with the plan that lies there.
        fn wrong(&self) -> Option<BuildError> {
            let recipe = Recipe { compiler: Err("no compiler is here".to_owned()), flags: Vec::new() };
            let folder = self.folder();
            match compile_recipe(&folder, &self.manifest, &recipe, &folder.join("out")) {
                Ok(built) => {
                    assert!(built.candidate.missing.is_some() && built.candidate.object.is_none());
                    None
                }
                Err(error) => Some(error),
            }
        }
    }

    #[test]
    fn a_typo_in_a_plan_is_found_where_nothing_can_be_compiled() {
        let ground = Ground::new("backend = \"cuda\"");
        assert!(ground.refused(PLAN).is_none());
        let error = ground.refused(&PLAN.replace("rows\"]", "rosw\"]")).unwrap();
        let text = error.to_string();
        assert!(matches!(error, BuildError::Manifest(_)), "{text}");
        assert!(text.starts_with("kernels/softmax.launch.toml:3:10: `launch[0].grid[0]`"), "{text}");
        assert!(text.contains("did you mean `rows`?"), "{text}");
        let never = ground.refused(&format!("{PLAN}when = \"rows > 3\"\n")).unwrap().to_string();
        assert_eq!(never, "kernels/softmax.launch.toml, shape small: no launch of entry `softmax` applies");
    }

    #[test]
    fn a_plan_that_is_no_text_is_wrong_as_any_other() {
        for table in ["backend = \"cuda\"", "backend = \"cuda\"\nlanguage = \"triton\""] {
            let ground = Ground::new(table);
            std::fs::write(ground.folder().join("kernels/softmax.launch.toml"), b"# \xe9t\xe9\n").unwrap();
            let error = ground.wrong().unwrap();
            assert!(matches!(error, BuildError::Header { .. }), "{error:?}");
            let told = "kernels/softmax.launch.toml: is no text in UTF-8, which a launch plan is";
            assert_eq!(error.to_string(), told);
        }
    }

    #[test]
    fn a_plan_of_triton_is_read_as_it_is_written_and_without_what_triton_decides() {
        let ground = Ground::new("backend = \"cuda\"\nlanguage = \"triton\"");
        let plan = PLAN.replace("block = [256]\n", "");
        assert!(ground.refused(&plan).is_none());
        let text = ground.refused(&plan.replace("rows\"]", "rosw\"]")).unwrap().to_string();
        assert!(text.starts_with("kernels/softmax.launch.toml:3:10: `launch[0].grid[0]`"), "{text}");
    }

    #[test]
    fn what_is_wrong_in_a_completed_plan_is_told_by_its_key_alone() {
        let ground = Ground::new("backend = \"cuda\"\nlanguage = \"triton\"");
        let folder = ground.folder();
        ground.write("softmax.launch.toml", PLAN);
        let recipe = Recipe { compiler: Err("no compiler is here".to_owned()), flags: Vec::new() };
        let mut built = compile_recipe(&folder, &ground.manifest, &recipe, &folder.join("out")).unwrap();
        built.candidate.object = Some("softmax.o".to_owned());
        built.candidate.plan = Some(format!("{PLAN}args = [\"x\", \"z\"]\n"));
        let bindings = crate::bindings::load(&folder, &ground.manifest, false).unwrap();
        let subject = Subject { folder: &folder, manifest: &ground.manifest, bindings: &bindings };
        let text = subject.compiled("kernels/softmax.launch.toml", &built).unwrap_err().to_string();
        assert!(text.starts_with("kernels/softmax.launch.toml, completed: `launch[0].args[1]`: no field"), "{text}");
        assert!(!text.contains('|'), "{text}");
    }
    #[test]
    fn a_launch_that_no_device_takes_is_told_with_its_numbers_and_the_shape() {
        let ground = Ground::new("backend = \"cuda\"");
        let hip = Ground::new("backend = \"hip\"");
        let cases = [
            ("[\"rows\"]", "[1, \"cols\"]", "`grid` of `softmax_rows`: [1, 70000, 1] is more blocks than a device"),
            ("[\"rows\"]", "[1, 1, \"cols\"]", "only the first size may be above 65535"),
            ("[256]", "[2, 2, 128]", "`block` of `softmax_rows`: [2, 2, 128] is more threads than a device takes"),
            ("[256]", "[256]\ncluster = [2]", "`softmax_rows`: [2, 1, 1] does not divide the grid, which is [3, 1, 1]"),
        ];
        for (from, to, told) in cases {
            let plan = PLAN.replace(from, to);
            let text = ground.refused(&plan).unwrap().to_string();
            assert!(text.starts_with("kernels/softmax.launch.toml, shape small: ") && text.contains(told), "{text}");
        }
        for fine in [
            PLAN.replace("[\"rows\"]", "[\"cols * 30_000\", 65_535]"),
            PLAN.replace("[256]", "[4, 4, 64]"),
            PLAN.replace("[256]", "[256]\ncluster = [3]"),
        ] {
            assert!(ground.refused(&fine).is_none(), "{fine}");
        }
        // Of those nobody knows better than they do.
        assert!(hip.refused(&PLAN.replace("[256]", "[2, 2, 128]")).is_none());
    }

    #[test]
    fn what_devices_of_hip_have_not_is_told_where_it_is_asked_for() {
        let hip = Ground::new("backend = \"hip\"");
        let clusters = hip.refused(&PLAN.replace("[256]", "[256]\ncluster = [3]")).unwrap().to_string();
        let told =
            "kernels/softmax.launch.toml:5:11: `launch[0].cluster`: `softmax_rows`: devices of hip have no clusters";
        assert!(clusters.starts_with(told), "{clusters}");
        let map = "[[tensor_map]]\nname = \"x_tiles\"\nbuffer = \"x\"\nsizes = [\"cols\"]\nbox = [32]\n";
        let maps = hip.refused(&format!("{PLAN}{map}")).unwrap().to_string();
        let told =
            "kernels/softmax.launch.toml:6:8: `tensor_map[0].name`: `x_tiles`: devices of hip have no tensor maps";
        assert!(maps.starts_with(told), "{maps}");
        assert!(Ground::new("backend = \"cuda\"").refused(&format!("{PLAN}{map}")).is_none());
    }
}
