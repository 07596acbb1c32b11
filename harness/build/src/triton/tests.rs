//! Plans and PTX as texts; kernels where Triton is installed.

use camino::Utf8Path;

use super::*;
use crate::compile;

fn kernel(name: &str) -> Kernel {
    let told = format!(
        "{{\"name\": {name:?}, \"file\": \"{name}.ptx\", \"warps\": 4, \"warp_size\": 32, \"shared\": 512, \
         \"arguments\": [\"x\", \"y\", \"cols\"], \"aligned\": {{\"x\": 16}}, \"scratch\": [0, 64]}}"
    );
    serde_json::from_str(&told).unwrap()
}

#[test]
fn a_plan_is_completed_with_what_triton_decides() {
    let mut aligned = kernel("rows");
    aligned.divisible = [("cols".to_owned(), 16)].into();
    let written = "[[launch]]\nkernel = \"rows\"\nwhen = \"rows > 4\"\ngrid = [\"rows\", 2]\n\n[[launch]]\nkernel = \"any\"\ngrid = [\"rows\"]\n";
    let completed = plan::complete(&[aligned, kernel("any")], written).unwrap();
    let plan: toml::Table = toml::from_str(&completed).unwrap();
    let launch = |index: usize| plan["launch"][index].as_table().unwrap();
    assert_eq!(launch(0)["when"].as_str(), Some("(rows > 4) && cols % 16 == 0"));
    assert_eq!(launch(0)["block"].as_array().unwrap(), &[toml::Value::Integer(128)]);
    assert_eq!(launch(0)["shared"].as_integer(), Some(512));
    assert!(!launch(1).contains_key("when"));
    let arguments: Vec<&str> = launch(1)["args"].as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
    assert_eq!(arguments, ["x", "y", "cols", "triton_scratch_2", "triton_scratch_3"]);
    let bytes = |index: usize| &plan["workspace"][index]["bytes"];
    assert_eq!((bytes(0).as_integer(), bytes(1).as_str()), (Some(0), Some("64 * (rows) * (2)")));
}

#[test]
fn a_plan_that_says_what_triton_decides_or_names_no_kernel_is_refused() {
    let with = |line: &str| plan::complete(&[kernel("rows")], &format!("[[launch]]\n{line}\n")).unwrap_err();
    assert!(with("kernel = \"rows\"\nblock = [32]").contains("`block` of `rows` is decided by Triton"));
    assert!(with("kernel = \"rosw\"").contains("did you mean `rows`?"));
    let far = Kernel { aligned: [("x".to_owned(), 512)].into(), ..kernel("rows") };
    assert!(plan::complete(&[far], "[[launch]]\nkernel = \"rows\"\n").unwrap_err().contains("multiple of 512"));
    // More bytes than can be counted.
    let vast = Kernel { scratch: vec![u64::MAX / 2], cluster: 4, ..kernel("rows") };
    assert!(plan::complete(&[vast], "[[launch]]\nkernel = \"rows\"\n").unwrap_err().contains("for each of 4 blocks"));
}

#[test]
fn what_a_generator_left_is_read_only_where_it_is_a_file_of_its_own() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    std::fs::write(folder.join("one.ptx"), "code").unwrap();
    assert_eq!(made(folder, "elsewhere/one.ptx", "x.py").unwrap(), b"code", "by its name alone");
    std::os::unix::fs::symlink(folder.join("one.ptx"), folder.join("link.ptx")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.join("endless.ptx")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe.ptx").as_std_path(), Mode::RWXU).unwrap();
    let file = File::create(folder.join("vast.ptx")).unwrap();
    file.set_len(LARGEST + 1).unwrap();
    for (name, told) in [
        ("link.ptx", "the generator made `link.ptx` a link"),
        ("endless.ptx", "a link"),
        ("pipe.ptx", "something else than a file"),
        ("..", "something else than a file"),
        ("vast.ptx", "no kernel is so large"),
        ("none.ptx", "No such file"),
    ] {
        let error = made(folder, name, "x.py").unwrap_err().to_string();
        assert!(error.contains(told), "{name}: {error}");
    }
}

/// As Triton writes it, shortened.
fn written(name: &str, folder: &str) -> String {
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n\n\t// .globl\t{name}\n\
         .extern .shared .align 16 .b8 global_smem[];\n\n.visible .entry {name}(\n\t.param .u64 .ptr .global .align 16 {name}_param_0,\n\
         \t.param .u64 .ptr .global .align 1 {name}_param_1,\n\t.param .u64 {name}_param_2,\n\t.param .u64 .ptr .global .align 1 {name}_param_3,\n\
         \t.param .u64 .ptr .global .align 1 {name}_param_4\n)\n.reqntid 128\n{{\n\t.loc\t1 5 0\n$L__tmp0:\n\tret;\n}}\n\
         \t.file\t1 \"{folder}/kernels/softmax.py\"\n\t.section\t.debug_abbrev\n\t{{\n.b8 1\n\t}}\n\t.section\t.debug_info\n\t{{\n.b32 $L__tmp0\n\t}}\n"
    )
}

#[test]
fn kernels_share_a_module_and_its_shared_memory() {
    let (names, folder) = (["one", "two"], Utf8Path::new("/somewhere"));
    let texts = names.map(|name| written(name, "/somewhere"));
    let module = ptx::joined(&names.map(kernel), &texts, folder).unwrap();
    assert_eq!(ptx::architecture(&module), Some("sm_90a"));
    for (text, count) in [(".version", 1), ("global_smem", 1), (".visible .entry", 2), (".section", 0), (".loc", 0)] {
        assert_eq!(module.matches(text).count(), count, "{text} in\n{module}");
    }
    // One kernel keeps its lines, and does not say where the crate lies.
    let alone = ptx::joined(&[kernel("one")], &texts[..1], folder).unwrap();
    assert!(alone.contains(".loc\t1 5 0") && alone.contains("\"./kernels/softmax.py\""), "{alone}");
    let other = Kernel { arguments: vec!["x".to_owned()], ..kernel("one") };
    assert!(
        ptx::joined(&[other], &texts[..1], folder).unwrap_err().contains("takes 5 arguments, the generator names 3")
    );
}

#[test]
fn an_instruction_that_passes_for_a_place_or_a_declaration_is_refused() {
    let with = |line: &str| {
        let text = written("one", "/somewhere").replace("\tret;", &format!("{line}\n\tret;"));
        ptx::joined(&[kernel("one")], &[text], Utf8Path::new("/somewhere"))
    };
    let fine = [
        "\t.loc\t1 12 20                         // softmax.py:12:20",
        "\t.loc\t2 293 36, function_name $L__info_string0, inlined_at 1 18 30",
        "\t.local .align 8 .b8 \t__local_depot0[16];",
        "\tld.local.u32 %r1, [%rd1];",
    ];
    for line in fine {
        assert!(with(line).is_ok(), "{line}");
    }
    let hiding = [
        "\t.loc 1 5 0 mov.u64 %rd1, %globaltimer;",
        "\t.loc 1 5 0 mov.u64 %rd1,\n %clock64;",
        "\t.local .b8 x[4]; mov.u32 %r1, %clock;",
        "/* */ .loc 1 5 0\n",
    ];
    for line in hiding {
        assert!(with(line).unwrap_err().contains("not written as Triton writes it"), "{line}");
    }
}

#[test]
fn targets_are_named_as_triton_does() {
    assert_eq!(target(Backend::Cuda, "sm_90a"), "cuda:90");
    assert_eq!(target(Backend::Cuda, "sm_100"), "cuda:100");
    assert_eq!(target(Backend::Hip, "gfx942"), "hip:gfx942");
}

const SOURCE: &str = r#"
import triton
import triton.language as tl
import kopt

@triton.jit
def scale(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * FACTOR, mask=at < n)

def described(factor, divisible):
    return {
        "function": scale,
        "signature": {"x": "*fp32", "y": "*fp32", "n": "i64"},
        "constants": {"FACTOR": factor, "BLOCK": kopt.knobs.get("BLOCK", 256)},
        "divisible": {"x": 16, "y": 16, **divisible},
        "options": {"num_warps": 2},
    }

KERNELS = {"scale_any": described(2, {}), "scale_16": described(2, {"n": 16})}
"#;

/// A crate with a source and a plan; nothing, if there is no Triton.
fn built(source: &str, plan: &str, more: &str) -> Option<Result<(compile::Built, String), BuildError>> {
    if let Err(why) = toolchain::triton() {
        eprintln!("skipped: {why}");
        return None;
    }
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    std::fs::create_dir(folder.join("kernels")).unwrap();
    for (name, text) in [("scale.py", source), ("scale.h", ""), ("scale.launch.toml", plan)] {
        std::fs::write(folder.join("kernels").join(name), text).unwrap();
    }
    std::fs::write(folder.join("beside.txt"), "7").unwrap();
    let text =
        format!("[package.metadata.kopt]\nop = \"scale\"\nlanguage = \"triton\"\nshapes = [{{ n = 4 }}]\n{more}\n");
    let manifest = kopt_schema::manifest::parse("Cargo.toml", &text, None).unwrap().unwrap();
    let out = folder.join("out");
    Some(compile::compile(folder, &manifest, &out).map(|built| {
        let ptx = built.candidate.object.as_deref().map(|object| out.join(object).with_extension("ptx"));
        let text = ptx.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        (built, text)
    }))
}

const PLAN: &str = "[[launch]]\nkernel = \"scale_16\"\ngrid = [\"ceil_div(n, 256)\"]\n\n[[launch]]\nkernel = \"scale_any\"\nwhen = \"n % 16 != 0\"\ngrid = [\"ceil_div(n, 256)\"]\n";

#[test]
fn two_kernels_of_one_function_become_one_cubin_with_their_resources() {
    let Some(built) = built(SOURCE, PLAN, "backend = \"cuda\"\narch = [\"sm_90a\"]") else { return };
    let (built, ptx) = built.unwrap();
    let names: Vec<&str> = built.candidate.resources.iter().map(|one| one.function.as_str()).collect();
    assert_eq!(names, ["scale_16", "scale_any"], "{}", built.remarks);
    assert!(built.candidate.resources.iter().all(|one| one.registers > 0));
    assert!(ptx.contains(".target sm_90a"));
    let plan = built.candidate.plan.unwrap();
    assert!(plan.contains("n % 16 == 0") && plan.contains("block = [64]"), "{plan}");
}

#[test]
fn a_code_object_is_made_for_hip() {
    let one = SOURCE.replace("\"scale_16\": described(2, {\"n\": 16})", "");
    let plan = "[[launch]]\nkernel = \"scale_any\"\ngrid = [\"ceil_div(n, 256)\"]\n";
    let Some(built) = built(&one, plan, "backend = \"hip\"") else { return };
    let built = built.unwrap().0;
    assert!(built.candidate.object.as_deref().is_some_and(|object| object.ends_with(".hsaco")));
    assert!(built.candidate.plan.unwrap().contains("block = [128]"), "two waves of 64");
    let Some(built) = self::built(SOURCE, PLAN, "backend = \"hip\"") else { return };
    assert!(built.unwrap_err().to_string().contains("one kernel of Triton"));
}

#[test]
fn a_source_runs_inside_walls() {
    let reads = format!("open('beside.txt').read()\n{SOURCE}");
    let Some(outcome) = built(&reads, PLAN, "backend = \"cuda\"") else { return };
    if let Ok((built, _)) = &outcome {
        let lacking = built.candidate.unconfined.as_ref().expect("it read what is none of its business");
        eprintln!("skipped in part: {lacking}");
        return;
    }
    assert!(outcome.unwrap_err().to_string().contains("beside.txt"));
    let asks = format!("import os\nassert 'CARGO_MANIFEST_DIR' not in os.environ\n{SOURCE}");
    assert!(built(&asks, PLAN, "backend = \"cuda\"").unwrap().is_ok());
    let writes = format!("open('kernels/scale.h', 'w')\n{SOURCE}");
    assert!(built(&writes, PLAN, "backend = \"cuda\"").unwrap().is_err());
}

#[test]
fn what_a_generator_of_the_crate_says_is_checked() {
    let lying = "import sys\nprint('{\"kernels\": []}')\n";
    let more = "backend = \"cuda\"\ngenerator = [\"kernels/scale.py\"]\nsources = [\"kernels/other.py\"]";
    let Some(outcome) = built(lying, PLAN, more) else { return };
    assert!(outcome.unwrap_err().to_string().contains("lists no kernel `scale_16`"));
    let silent = built("pass\n", PLAN, more).unwrap().unwrap_err().to_string();
    assert!(silent.contains("describes no kernels"), "{silent}");
}
