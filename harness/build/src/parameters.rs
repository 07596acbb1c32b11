//! What kernels take, read from the PTX they were assembled from, against what a launch plan passes them.
//!
//! A driver is given addresses, and counts and measures nothing: it copies from each as many bytes as the kernel's own
//! declaration asks for. A kernel that takes more than it is given, or something else, reads what happens to lie there, and its
//! trials fail with numbers that say nothing of the plan.
//!
//! A kernel may take less in one case: an `int` for a size gets the lower half of it, which up to 31 bits is all of it.

use kopt_schema::manifest::Shape;
use kopt_schema::plan::{ArgsTable, LaunchTable, PlanTable};
use kopt_schema::training::{EntryArgs, FieldArgsKind};

/// Bytes of the address of a buffer.
const POINTER: usize = 8;

/// Bytes of a tensor map.
const TENSOR_MAP: usize = 128;

/// Bytes of an `int`.
const INT: usize = 4;

/// A kernel and its parameters; none for one that is not understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel<'a> {
    pub name: &'a str,
    pub parameters: Vec<Option<Parameter>>,
}

/// A parameter as PTX declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub bytes: usize,
    /// It may be an integer: it is no struct, and not declared as a floating-point number.
    pub is_integer: bool,
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
    let parameters = parameters.split(',').map(str::trim).filter(|one| !one.is_empty()).map(parameter).collect();
    (!name.is_empty()).then_some(Kernel { name, parameters })
}

/// `.param .u64 softmax_rows_param_0`, `.param .align 8 .b8 softmax_rows_param_0[32]`.
fn parameter(text: &str) -> Option<Parameter> {
    let one = text.strip_prefix(".param")?.split_whitespace().find_map(element)?;
    let Some((_, count)) = text.split_once('[') else { return Some(one) };
    let count: usize = count.strip_suffix(']')?.trim().parse().ok()?;
    Some(Parameter { bytes: count.checked_mul(one.bytes)?, is_integer: false })
}

fn element(word: &str) -> Option<Parameter> {
    let (bytes, is_integer) = match word {
        ".b8" | ".u8" | ".s8" => (1, true),
        ".b16" | ".u16" | ".s16" => (2, true),
        ".b32" | ".u32" | ".s32" => (4, true),
        ".b64" | ".u64" | ".s64" => (8, true),
        ".f16" => (2, false),
        ".f32" => (4, false),
        ".f64" => (8, false),
        _ => return None,
    };
    Some(Parameter { bytes, is_integer })
}

/// The first launch of a plan that passes something else than its kernel takes, in words. `forward` is the entry of launches
/// that name none; what is not known of an entry is held against nobody. `shapes` are all that are listed, whatever `when` says.
pub(crate) fn disagreement(
    plan: &PlanTable,
    forward: &str,
    entries: &[EntryArgs],
    shapes: &[Shape],
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
            let hint = match (&launch.args, takes) {
                (Some(ArgsTable::Fields(_)), _) => String::new(),
                (_, 0) => format!(" (`{symbol}_args` by value); `args = []` passes none"),
                _ => format!(" (`{symbol}_args` by value); `args` lists more"),
            };
            return Some(format!("kernel `{name}` takes {takes} parameters, the plan passes {gives}{hint}"));
        }
        kernel.parameters.iter().zip(&passed).enumerate().find_map(|(index, (takes, gives))| {
            let (takes, number) = ((*takes)?, index + 1);
            let wrong = unfit(takes, gives, shapes)?;
            Some(format!("parameter {number} of kernel `{name}` has {} bytes, {wrong}", takes.bytes))
        })
    })
}

/// Why a parameter cannot take what it is passed.
fn unfit(takes: Parameter, gives: &Passed, shapes: &[Shape]) -> Option<String> {
    let Passed { name, bytes, is_size } = gives;
    if takes.bytes == *bytes {
        return None;
    }
    if *is_size && takes.is_integer && takes.bytes == INT {
        let large = shapes.iter().find(|shape| i32::try_from(shape.size(name)).is_err())?;
        return Some(format!("`{name}` of shape {} is {}: take an int64_t", large.name, large.size(name)));
    }
    Some(format!("`{name}` that the plan passes has {bytes}"))
}

/// Something that a launch passes.
struct Passed {
    name: String,
    bytes: usize,
    /// It is an integer, and the size of a shape that has its name.
    is_size: bool,
}

/// All that a launch passes, in order.
fn passed(plan: &PlanTable, launch: &LaunchTable, entry: &EntryArgs) -> Option<Vec<Passed>> {
    let Some(ArgsTable::Fields(names)) = &launch.args else {
        return Some(vec![Passed { name: format!("{}_args", entry.symbol), bytes: entry.size, is_size: false }]);
    };
    let found = |name: &String| {
        if plan.tensor_map.iter().any(|map| map.name == *name) {
            return Some((TENSOR_MAP, false));
        }
        if plan.workspace.iter().any(|buffer| buffer.name == *name) {
            return Some((POINTER, false));
        }
        let field = entry.fields.iter().find(|field| field.name == *name)?;
        Some((field.kind.size(), field.kind == FieldArgsKind::Size))
    };
    let one = |name: &String| found(name).map(|(bytes, is_size)| Passed { name: name.clone(), bytes, is_size });
    names.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use kopt_schema::manifest::ShapeValue;
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
        let integer = |bytes| Some(Parameter { bytes, is_integer: true });
        let other = |bytes| Some(Parameter { bytes, is_integer: false });
        let wanted = [
            ("softmax_rows", vec![other(32)]),
            ("softmax_tiles", vec![other(128), integer(8), integer(4), other(4), None]),
            ("nothing", vec![]),
            ("_Z5boundIfEvPT_", vec![integer(8), other(6)]),
            ("five", vec![other(128), integer(8), integer(8), integer(8), other(4)]),
        ];
        let found: Vec<_> = found.into_iter().map(|kernel| (kernel.name, kernel.parameters)).collect();
        assert_eq!(found, wanted);
        assert!(kernels("").is_empty());
        assert_eq!(kernels(".visible .entry alone\n{ ret; }"), [Kernel { name: "alone", parameters: Vec::new() }]);
    }

    /// What is wrong with a launch of these kernels on so many rows.
    fn wrong_on(rows: i64, kernel: &str, args: &str) -> Option<String> {
        let text = format!(
            "[[launch]]\nkernel = \"{kernel}\"\ngrid = [1]\nblock = [32]\n{args}\n\
             [[workspace]]\nname = \"partial\"\nbytes = 8\n\
             [[tensor_map]]\nname = \"x_tiles\"\nbuffer = \"x\"\nsizes = [4]\nbox = [4]\n"
        );
        let plan: PlanTable = toml::from_str(&text).unwrap();
        let entry = EntryArgs::laid_out("softmax", &[("x", Read), ("y", Write), ("rows", Size), ("scale", Scalar)]);
        let shapes = [4, rows].map(|rows| Shape::unnamed(vec![("rows".to_owned(), ShapeValue::Size(rows))]));
        disagreement(&plan, "softmax", &[entry], &shapes, &kernels(PTX))
    }

    fn wrong(kernel: &str, args: &str) -> Option<String> {
        wrong_on(8, kernel, args)
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
    fn a_kernel_may_take_an_int_for_a_size_that_is_one_in_every_listed_shape() {
        let args = |third: &str| format!("args = [\"x_tiles\", \"y\", \"{third}\", \"scale\", \"rows\"]");
        assert_eq!(wrong("softmax_tiles", &args("rows")), None);
        assert_eq!(wrong_on((1 << 31) - 1, "softmax_tiles", &args("rows")), None);
        let third = |wrong: Option<String>| {
            let told = wrong?;
            Some(told.strip_prefix("parameter 3 of kernel `softmax_tiles` has 4 bytes, ")?.to_owned())
        };
        let large = third(wrong_on(1 << 31, "softmax_tiles", &args("rows")));
        assert_eq!(large.as_deref(), Some("`rows` of shape 2147483648 is 2147483648: take an int64_t"));
        // Half of an address is none.
        for pointer in ["x", "partial"] {
            let told = format!("`{pointer}` that the plan passes has 8");
            assert_eq!(third(wrong("softmax_tiles", &args(pointer))), Some(told));
        }
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
                "nothing",
                "",
                "kernel `nothing` takes 0 parameters, the plan passes 1 (`softmax_args` by value); `args = []` passes none",
            ),
            (
                "softmax_tiles",
                "args = [\"x_tiles\", \"y\", \"rows\", \"rows\", \"rows\"]",
                "parameter 4 of kernel `softmax_tiles` has 4 bytes, `rows` that the plan passes has 8",
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
