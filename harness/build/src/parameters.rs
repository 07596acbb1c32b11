//! What kernels take, read from the PTX they were assembled from, against what a launch plan passes them.
//!
//! A driver is given addresses, and counts and measures nothing: it copies from each as many bytes as the kernel's own
//! declaration asks for. A kernel that takes more than it is given, or something else, reads what happens to lie there, and its
//! trials fail with numbers that say nothing of the plan.

use kopt_schema::plan::{ArgsTable, LaunchTable, PlanTable};
use kopt_schema::training::EntryArgs;

/// Bytes of the address of a buffer.
const POINTER: usize = 8;

/// Bytes of a tensor map.
const TENSOR_MAP: usize = 128;

/// A kernel, and the bytes of each of its parameters; none where that is not understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel<'a> {
    pub name: &'a str,
    pub parameters: Vec<Option<usize>>,
}

/// The kernels of a module, as its PTX declares them.
pub(crate) fn kernels(ptx: &str) -> Vec<Kernel<'_>> {
    ptx.split(".entry").skip(1).filter_map(kernel).collect()
}

/// What follows `.entry`: ` softmax_rows(` and the parameters, or a name alone where there are none.
fn kernel(text: &str) -> Option<Kernel<'_>> {
    let text = text.strip_prefix(char::is_whitespace)?.trim_start();
    let (name, rest) = text.split_at(text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$')))?);
    let parameters = match rest.trim_start().strip_prefix('(') {
        Some(list) => list.split_once(')')?.0,
        None => "",
    };
    let parameters = parameters.split(',').map(str::trim).filter(|one| !one.is_empty()).map(bytes).collect();
    (!name.is_empty()).then_some(Kernel { name, parameters })
}

/// `.param .u64 softmax_rows_param_0`, `.param .align 8 .b8 softmax_rows_param_0[32]`.
fn bytes(parameter: &str) -> Option<usize> {
    let one = parameter.strip_prefix(".param")?.split_whitespace().find_map(element)?;
    match parameter.split_once('[') {
        None => Some(one),
        Some((_, count)) => count.strip_suffix(']')?.trim().parse::<usize>().ok()?.checked_mul(one),
    }
}

fn element(word: &str) -> Option<usize> {
    match word {
        ".b8" | ".u8" | ".s8" => Some(1),
        ".b16" | ".u16" | ".s16" | ".f16" => Some(2),
        ".b32" | ".u32" | ".s32" | ".f32" => Some(4),
        ".b64" | ".u64" | ".s64" | ".f64" => Some(8),
        _ => None,
    }
}

/// The first launch of a plan that passes something else than its kernel takes, in words. `forward` is the entry of launches
/// that name none; what is not known of an entry is held against nobody.
pub(crate) fn disagreement(
    plan: &PlanTable,
    forward: &str,
    entries: &[EntryArgs],
    kernels: &[Kernel<'_>],
) -> Option<String> {
    plan.launch.iter().find_map(|launch| {
        let name = &launch.kernel;
        let Some(kernel) = kernels.iter().find(|kernel| kernel.name == *name) else {
            let near = kopt_schema::nearest(name, kernels.iter().map(|kernel| kernel.name));
            let hint = near.map_or_else(|| "is it extern \"C\"?".to_owned(), |near| format!("did you mean `{near}`?"));
            return Some(format!("no source has a kernel `{name}`; {hint}"));
        };
        let symbol = launch.entry.as_deref().unwrap_or(forward);
        let passed = passed(plan, launch, entries.iter().find(|entry| entry.symbol == symbol)?)?;
        let (takes, gives) = (kernel.parameters.len(), passed.len());
        if takes != gives {
            let hint = match &launch.args {
                Some(ArgsTable::Fields(_)) => String::new(),
                _ => format!(" (`{symbol}_args` by value); `args` lists more"),
            };
            return Some(format!("kernel `{name}` takes {takes} parameters, the plan passes {gives}{hint}"));
        }
        kernel.parameters.iter().zip(&passed).enumerate().find_map(|(index, (takes, (what, gives)))| {
            let (takes, number) = (takes.filter(|takes| takes != gives)?, index + 1);
            let text = format!("parameter {number} of kernel `{name}` has {takes} bytes");
            Some(format!("{text}, {what} that the plan passes has {gives}"))
        })
    })
}

/// What a launch passes, each with its bytes.
fn passed(plan: &PlanTable, launch: &LaunchTable, entry: &EntryArgs) -> Option<Vec<(String, usize)>> {
    let Some(ArgsTable::Fields(names)) = &launch.args else {
        return Some(vec![(format!("`{}_args`", entry.symbol), entry.size)]);
    };
    let bytes = |name: &String| {
        if plan.tensor_map.iter().any(|map| map.name == *name) {
            return Some(TENSOR_MAP);
        }
        if plan.workspace.iter().any(|buffer| buffer.name == *name) {
            return Some(POINTER);
        }
        entry.fields.iter().find(|field| field.name == *name).map(|field| field.kind.size())
    };
    names.iter().map(|name| Some((format!("`{name}`"), bytes(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use kopt_schema::training::FieldArgsKind::{Read, Scalar, Size, Write};

    use super::*;

    /// As nvcc writes it, shortened.
    const PTX: &str = r#"
.version 9.0
.target sm_90
.address_size 64
	// .globl	softmax_rows

.visible .entry softmax_rows(
	.param .align 8 .b8 softmax_rows_param_0[32]
)
{
	ret;
}
	// .globl	softmax_tiles
.visible .entry softmax_tiles(
	.param .align 64 .b8 softmax_tiles_param_0[128],
	.param .u64 .ptr .global .align 16 softmax_tiles_param_1,
	.param .u32 softmax_tiles_param_2,
	.param .f32 softmax_tiles_param_3,
	.param .texref softmax_tiles_param_4
)
.maxntid 256, 1, 1
{
	ret;
}
.visible .entry nothing()
{
	ret;
}
.weak .entry _Z5boundIfEvPT_(.param .u64 a, .param .align 2 .b8 b[6])
{
	ret;
}
.visible .entry five(
	.param .align 64 .b8 five_param_0[128],
	.param .u64 five_param_1,
	.param .u64 five_param_2,
	.param .u64 five_param_3,
	.param .f32 five_param_4
)
{
	ret;
}
	.file	1 "/some.entry/softmax.cu"
"#;

    #[test]
    fn kernels_and_their_parameters_are_read_from_ptx() {
        let found = kernels(PTX);
        let wanted: [(&str, &[Option<usize>]); 5] = [
            ("softmax_rows", &[Some(32)]),
            ("softmax_tiles", &[Some(128), Some(8), Some(4), Some(4), None]),
            ("nothing", &[]),
            ("_Z5boundIfEvPT_", &[Some(8), Some(6)]),
            ("five", &[Some(128), Some(8), Some(8), Some(8), Some(4)]),
        ];
        let found: Vec<(&str, &[Option<usize>])> =
            found.iter().map(|kernel| (kernel.name, kernel.parameters.as_slice())).collect();
        assert_eq!(found, wanted);
        assert!(kernels("").is_empty());
        assert_eq!(kernels(".visible .entry alone\n{ ret; }"), [Kernel { name: "alone", parameters: Vec::new() }]);
    }

    /// What is wrong with a launch of these kernels.
    fn wrong(kernel: &str, args: &str) -> Option<String> {
        let text = format!(
            "[[launch]]\nkernel = \"{kernel}\"\ngrid = [1]\nblock = [32]\n{args}\n\
             [[workspace]]\nname = \"partial\"\nbytes = 8\n\
             [[tensor_map]]\nname = \"x_tiles\"\nbuffer = \"x\"\nsizes = [4]\nbox = [4]\n"
        );
        let plan: PlanTable = toml::from_str(&text).unwrap();
        let entry = EntryArgs::laid_out("softmax", &[("x", Read), ("y", Write), ("rows", Size), ("scale", Scalar)]);
        disagreement(&plan, "softmax", &[entry], &kernels(PTX))
    }

    #[test]
    fn what_a_plan_passes_is_what_the_kernel_takes() {
        assert_eq!(wrong("softmax_rows", ""), None);
        assert_eq!(wrong("softmax_rows", "args = \"struct\""), None);
        assert_eq!(wrong("nothing", "args = []"), None);
        assert_eq!(wrong("five", "args = [\"x_tiles\", \"y\", \"partial\", \"rows\", \"scale\"]"), None);
        // The last one is of a kind that nobody here knows.
        assert_eq!(wrong("softmax_tiles", "args = [\"x_tiles\", \"y\", \"scale\", \"scale\", \"rows\"]"), None);
        // Of an entry that is not known nothing is said.
        assert_eq!(wrong("nothing", "entry = \"other\"\nargs = [\"x\"]"), None);
    }

    #[test]
    fn a_plan_that_passes_something_else_is_told_which_parameter_and_both_sizes() {
        let cases = [
            ("softmax_row", "", "no source has a kernel `softmax_row`; did you mean `softmax_rows`?"),
            ("elsewhere", "", "no source has a kernel `elsewhere`; is it extern \"C\"?"),
            ("softmax_rows", "args = [\"x\", \"y\"]", "kernel `softmax_rows` takes 1 parameters, the plan passes 2"),
            (
                "softmax_rows",
                "args = [\"x\"]",
                "parameter 1 of kernel `softmax_rows` has 32 bytes, `x` that the plan passes has 8",
            ),
            (
                "softmax_tiles",
                "",
                "kernel `softmax_tiles` takes 5 parameters, the plan passes 1 (`softmax_args` by value); \
                 `args` lists more",
            ),
            (
                "softmax_tiles",
                "args = [\"x_tiles\", \"y\", \"rows\", \"scale\", \"rows\"]",
                "parameter 3 of kernel `softmax_tiles` has 4 bytes, `rows` that the plan passes has 8",
            ),
            (
                "softmax_tiles",
                "args = [\"x\", \"y\", \"scale\", \"scale\", \"rows\"]",
                "parameter 1 of kernel `softmax_tiles` has 128 bytes, `x` that the plan passes has 8",
            ),
        ];
        for (kernel, args, told) in cases {
            assert_eq!(wrong(kernel, args).as_deref(), Some(told), "{kernel} {args}");
        }
    }
}
