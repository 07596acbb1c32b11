//! What device functions take, read from what compilers say of them: ptxas with `-v`, clang with
//! `-Rpass-analysis=kernel-resource-usage`.

use kopt_schema::candidate::Resources;

/// Every function that is told of, by name: compilers have orders of their own.
pub(crate) fn reported(said: &str) -> Vec<Resources> {
    let mut functions: Vec<Resources> = Vec::new();
    for line in said.lines() {
        if let Some(name) = quoted(line, "Compiling entry function '").or_else(|| told(line, "Function Name:")) {
            functions.push(Resources { function: name.to_owned(), ..Resources::default() });
        } else if let Some(last) = functions.last_mut() {
            of_ptxas(line, last);
            of_clang(line, last);
        }
    }
    functions.sort_by(|one, other| one.function.cmp(&other.function));
    functions
}

/// `0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads` and `Used 24 registers, used 1 barriers, 4096 bytes smem`.
/// A function that is not inlined is told of apart from the kernel: what is largest counts.
fn of_ptxas(line: &str, to: &mut Resources) {
    if let Some(stack) = before(line, " bytes stack frame") {
        to.stack = to.stack.max(stack);
        to.spills = to.spills.max(before(line, " bytes spill stores").unwrap_or(0));
    }
    if let (Some(registers), true) = (before(line, " registers"), line.contains("Used ")) {
        to.registers = u32::try_from(registers).unwrap_or(u32::MAX);
        to.shared = before(line, " bytes smem").unwrap_or(0);
    }
}

/// `remark: kernels/softmax.hip:9:0:     VGPRs: 9 [-Rpass-analysis=kernel-resource-usage]`, one line each.
fn of_clang(line: &str, to: &mut Resources) {
    let number = |what: &str| told(line, what).and_then(|text| text.parse::<u64>().ok());
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    if let Some(registers) = number(" VGPRs:") {
        to.registers = small(registers);
    } else if let Some(registers) = number(" SGPRs:") {
        to.scalar_registers = Some(small(registers));
    } else if let Some(bytes) = number("ScratchSize [bytes/lane]:") {
        to.stack = bytes;
    } else if let Some(registers) = number("VGPRs Spill:") {
        to.spills = 4 * registers;
    } else if let Some(bytes) = number("LDS Size [bytes/block]:") {
        to.shared = bytes;
    }
}

/// The number before some words.
fn before(line: &str, words: &str) -> Option<u64> {
    let number = line.split(words).next().filter(|head| head.len() < line.len())?;
    number.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The word after some words.
fn told<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    line.split_once(words)?.1.split_whitespace().next()
}

fn quoted<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    line.split_once(words)?.1.split('\'').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ptxas_says_is_kept_for_each_kernel() {
        let said = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'wide' for 'sm_90'\n\
            ptxas info    : Function properties for wide\n    \
                40 bytes stack frame, 36 bytes spill stores, 44 bytes spill loads\n\
            ptxas info    : Used 255 registers, used 1 barriers, 40 bytes cumulative stack size, 4096 bytes smem\n\
            ptxas info    : Compile time = 12.3 ms\n\
            ptxas info    : Compiling entry function 'narrow' for 'sm_90'\n\
            ptxas info    : Function properties for narrow\n    \
                0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 24 registers, used 0 barriers\n";
        let found = reported(said);
        assert_eq!(found.iter().map(|one| one.function.as_str()).collect::<Vec<_>>(), ["narrow", "wide"]);
        let figures = |one: &Resources| (one.registers, one.spills, one.stack, one.shared, one.scalar_registers);
        assert_eq!(figures(&found[1]), (255, 36, 40, 4096, None));
        assert_eq!(figures(&found[0]), (24, 0, 0, 0, None));
    }

    #[test]
    fn what_clang_says_is_kept_for_each_kernel() {
        let said = "kernels/k.hip:9:0: remark: Function Name: softmax_rows [-Rpass-analysis=kernel-resource-usage]\n\
            kernels/k.hip:9:0: remark:     SGPRs: 24 [-Rpass-analysis=kernel-resource-usage]\n\
            kernels/k.hip:9:0: remark:     VGPRs: 9 [-Rpass-analysis=kernel-resource-usage]\n\
            kernels/k.hip:9:0: remark:     AGPRs: 0 [-Rpass-analysis=kernel-resource-usage]\n\
            kernels/k.hip:9:0: remark:     ScratchSize [bytes/lane]: 16 [-Rpass-analysis=kernel-resource-usage]\n\
            kernels/k.hip:9:0: remark:     SGPRs Spill: 0 [-Rpass-analysis=kernel-resource-usage]\n\
            kernels/k.hip:9:0: remark:     VGPRs Spill: 3 [-Rpass-analysis=kernel-resource-usage]\n\
            kernels/k.hip:9:0: remark:     LDS Size [bytes/block]: 2048 [-Rpass-analysis=kernel-resource-usage]\n";
        let found = reported(said);
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.registers, one.scalar_registers), (9, Some(24)));
        assert_eq!((one.spills, one.stack, one.shared), (12, 16, 2048));
    }
}
