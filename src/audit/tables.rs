//! Tables of the compiler's mathematical library lie in writable memory of a module, and are let pass by name and contents. A
//! kernel could define one of that name and contents itself, and write to it: here every use of a table's address is
//! followed through the PTX. It may be moved, computed with and loaded from; whatever else is done with it is a misuse.
//!
//! Without regard to the order of instructions: a register that holds such an address once holds it everywhere in its
//! function. The library's own functions walk a table with a pointer of its own, and pass.

use std::collections::HashSet;

use super::device::{after_what_stands_before, function_of};

/// Instructions that read what an address points to. What they read is no address of a table.
const LOADS: [&str; 4] = ["ld", "ldu", "prefetch", "prefetchu"];

/// Instructions whose result may be an address, if an operand is.
const DERIVES: [&str; 33] = [
    "mov", "cvta", "cvt", "add", "addc", "sub", "subc", "mul", "mul24", "mad", "mad24", "madc", "fma", "sad", "shl",
    "shr", "shf", "and", "or", "xor", "not", "neg", "abs", "min", "max", "lop3", "bfe", "bfi", "prmt", "selp", "slct",
    "setp", "set",
];

/// Something that is done with a table and is no load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misuse {
    pub table: String,
    pub function: Option<String>,
    pub statement: String,
}

/// A statement, and the function that it is in.
struct Statement<'a> {
    function: Option<String>,
    text: &'a str,
}

/// Misuses of `tables` in a PTX without comments and texts.
pub(super) fn misuses(bare: &str, tables: &[&str]) -> Vec<Misuse> {
    let used: Vec<&str> = tables.iter().copied().filter(|table| bare.contains(table)).collect();
    if used.is_empty() {
        return Vec::new();
    }
    let statements = statements(bare);
    used.iter().flat_map(|table| misuses_of(table, &statements)).collect()
}

fn misuses_of(table: &str, statements: &[Statement<'_>]) -> Vec<Misuse> {
    let mut held: HashSet<(Option<&str>, &str)> = HashSet::new();
    let mut wrong = Vec::new();
    loop {
        let known = held.len();
        wrong.clear();
        for Statement { function, text } in statements {
            let function = function.as_deref();
            let holds = |word: &str| word == table || held.contains(&(function, word));
            let misused = || Misuse {
                table: table.to_owned(),
                function: function.map(str::to_owned),
                statement: text.split_whitespace().collect::<Vec<_>>().join(" "),
            };
            if text.starts_with('.') {
                // Its definition; the address in the contents of another variable would be lost from sight.
                let contents = text.split_once('=').map_or("", |(_, contents)| contents);
                if words(contents).any(|word| word == table) {
                    wrong.push(misused());
                }
                continue;
            }
            let (opcode, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            let name = opcode.split('.').next().unwrap_or(opcode);
            if LOADS.contains(&name) {
                continue;
            }
            let (result, sources) = split_result(operands);
            match DERIVES.contains(&name) {
                true if words(sources).any(holds) => held.extend(words(result).map(|word| (function, word))),
                false if words(text).any(holds) => wrong.push(misused()),
                _ => {}
            }
        }
        if held.len() == known {
            return wrong;
        }
    }
}

/// What ends with a semicolon, without what stands before the instruction: the head of its function, braces, labels,
/// predicates, places.
fn statements(bare: &str) -> Vec<Statement<'_>> {
    let (mut function, mut line) = (None, None);
    let mut statements = Vec::new();
    for whole in bare.split(';') {
        let mut text = whole;
        if let Some(name) = function_of(whole) {
            function = Some(name.to_owned());
            text = whole.split_once('{').map_or(whole, |(_, inside)| inside);
        }
        loop {
            let next = after_what_stands_before(text, &mut line).trim_start_matches(['{', '}']).trim_start();
            if next.len() == text.len() {
                break;
            }
            text = next;
        }
        statements.push(Statement { function: function.clone(), text });
    }
    statements
}

/// The first operand, which may be a group in braces, and the others.
fn split_result(operands: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    for (at, letter) in operands.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return (&operands[..at], &operands[at..]),
            _ => {}
        }
    }
    (operands, "")
}

/// Names in a text; `%r1` of `%r1.x`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '$' | '.');
    let name = |word: &'_ str| word.split('.').next().map_or(0, str::len);
    text.split(move |c| !is_part(c)).map(move |word| &word[..name(word)]).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "__cudart_i2opi_f";

    /// What nvcc makes of `sinf`: the part that walks the table.
    const SINE: &str = "
.global .align 4 .b8 __cudart_i2opi_f[24] = {65, 144, 67, 60, 153, 149, 98, 219, 192, 221, 52, 245, 209, 87, 39, 252, 41, 21, 68, 78, 110, 131, 249, 162};
.visible .entry sin_kernel(
	.param .u64 sin_kernel_param_0
)
{
	.local .align 4 .b8 	__local_depot0[28];
	.reg .b64 	%rd<33>;
	mov.u64 	%SPL, __local_depot0;
	add.u64 	%rd1, %SPL, 0;
$L__BB0_3:
	mov.u64 	%rd32, 0;
	mov.u64 	%rd30, __cudart_i2opi_f;
	mov.u64 	%rd31, %rd1;

$L__BB0_4:
	.pragma \"nounroll\";
	ld.global.nc.u32 	%r26, [%rd30];
	mad.wide.u32 	%rd18, %r26, %r5, %rd32;
	shr.u64 	%rd32, %rd18, 32;
	st.local.u32 	[%rd31], %rd18;
	add.s64 	%rd31, %rd31, 4;
	add.s64 	%rd30, %rd30, 4;
	add.s32 	%r49, %r49, 1;
	setp.ne.s32 	%p4, %r49, 6;
	@%p4 bra 	$L__BB0_4;

	st.local.u32 	[%rd1+24], %rd32;
	st.global.f32 	[%rd29], %f37;
	ret;
}
";

    #[test]
    fn what_the_library_does_with_its_table_is_no_misuse() {
        assert_eq!(misuses(SINE, &[TABLE]), []);
        // As the library's other functions: a pair at once, from an address that is computed.
        let pair = "mov.u64 %rd9, __cudart_i2opi_f; add.s64 %rd10, %rd9, %rd8; ld.global.nc.v2.f64 {%fd1, %fd2}, [%rd10]; st.global.f64 [%rd1], %fd1;";
        assert_eq!(misuses(&format!(".func (.param .b64 r) f(.param .b64 x) {{ {pair} ret; }}"), &[TABLE]), []);
    }

    #[test]
    fn whatever_else_is_done_with_it_is_one() {
        let cases = [
            "st.global.u32 [__cudart_i2opi_f+4], %r1;",
            "@ %p1 st.global.u32 [__cudart_i2opi_f], %r1;",
            "L1 : { st.global.u32 [__cudart_i2opi_f], %r1; }",
            "atom.global.add.u32 %r1, [__cudart_i2opi_f], 1;",
            "red.global.add.u32 [__cudart_i2opi_f], 1;",
            "mov.u64 %rd1, __cudart_i2opi_f; add.s64 %rd2, %rd1, 8; st.global.u32 [%rd2], %r1;",
            "cvta.global.u64 %rd1, __cudart_i2opi_f; { .reg .u64 own; mov.u64 own, %rd1; st.u32 [own+4], %r1; }",
            // The other way round in the text, and in halves.
            "again: st.u64 [%rd3], %rd9; mov.b64 %rd3, {%r1, %r2}; mov.b64 {%r1, %r2}, %rd1; mov.u64 %rd1, __cudart_i2opi_f; bra again;",
            // Given away: to memory, to a function, to another thread, to another variable.
            "mov.u64 %rd1, __cudart_i2opi_f; st.shared.u64 [%r5], %rd1;",
            "mov.u64 %rd1, __cudart_i2opi_f; st.param.b64 [param0+0], %rd1; call.uni write, (param0);",
            "mov.u64 %rd1, __cudart_i2opi_f; mov.b64 {%r1, %r2}, %rd1; shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;",
            ".global .u64 kept = __cudart_i2opi_f;",
            "cp.async.bulk.global.shared::cta.bulk_group [__cudart_i2opi_f], [%r1], 16;",
        ];
        for case in cases {
            let misuses = misuses(&format!("{SINE}.visible .entry k() {{ {case} ret; }}"), &[TABLE]);
            assert_eq!(misuses.len(), 1, "{case}: {misuses:#?}");
            assert_eq!(misuses[0].function.as_deref(), Some("k"), "{case}");
        }
    }
}
