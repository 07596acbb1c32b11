//! Class `device`: a cubin has no host code, so that what is left is its memory, the names it needs, and its instructions.
//! There is no public decoder of device code; the PTX that the cubin was assembled from is read instead, in which inline
//! assembly stands as it was written.
//!
//! Such code is *proven* stateless where nothing that outlives a launch can be reached but its arguments, and *presumed* so where
//! something could be that no rule refuses: a table of the compiler in writable memory, local memory, which nobody
//! clears, the generic address of a constant.

use kopt_schema::audit::{Audit, Stateless};
use kopt_schema::manifest::Class;
use object::elf;

use super::collector::Place;
use super::elf::{Image, Symbol};
use super::{Collector, Subject, not_audited, rules, tables};

/// Tables of the compiler's mathematical library that lie in writable memory, by name and SHA-256 of their contents.
const TABLES: [(&str, &str); 3] = [
    ("__cudart_i2opi_f", "af58a7804afd16e4e7a715bd29412e82374ac0eb2196ae5f00fbd5835af8006d"),
    ("__cudart_i2opi_d", "7ede62875c004cc8c2847b487cb377f75c153593f45bab10b272128e31690cde"),
    ("__cudart_sin_cos_coeffs", "bf6a9587812432cf5649f28013165faa5a19d2ad0f66fd69cbf13096c2ea4263"),
];

pub(super) fn audit(subject: &Subject<'_>) -> Audit {
    let image = match Image::parse(subject.object) {
        Ok(image) if image.machine == elf::EM_CUDA.0 => image,
        Ok(_) => return not_audited(subject.class, "the audit reads device code for CUDA only"),
        Err(error) => return not_audited(subject.class, &format!("the object cannot be read: {error}")),
    };
    let mut found = Collector::new(subject.allow);
    globals(&image, &mut found);
    imports(&image, &mut found);
    let Some(ptx) = subject.ptx else {
        let scope = "sections and symbols of the cubin; its instructions were not audited: there is no PTX".to_owned();
        return found.finish(subject.class, Stateless::NotAudited, scope);
    };
    let instructions = code(ptx, &mut found);
    let scope = format!("sections and symbols of the cubin, {instructions} instructions of its PTX");
    let clean = if found.has_allowed() { Stateless::Presumed } else { Stateless::Proven };
    found.finish(subject.class, clean, scope)
}

/// Variables of the module. Constants and shared memory are none.
fn globals(image: &Image<'_>, found: &mut Collector<'_>) {
    let is_shared = |name: &str| name.starts_with(".nv.shared") || name.starts_with(".nv.constant");
    for (number, section) in image.sections.iter().enumerate() {
        if !section.is_writable() || section.size == 0 || is_shared(&section.name) {
            continue;
        }
        let variables: Vec<&Symbol> = image
            .symbols
            .iter()
            .filter(|one| one.section == number && one.size > 0 && one.kind == elf::STT_OBJECT.0)
            .collect();
        let place = |symbol: &Symbol| Place {
            symbol: Some(symbol.name.clone()),
            offset: Some(symbol.address),
            ..Place::section(&section.name)
        };
        let mut named = 0;
        for symbol in variables {
            named += symbol.size;
            let from = usize::try_from(symbol.address).unwrap_or(usize::MAX);
            let contents = section.data.get(from..from.saturating_add(usize::try_from(symbol.size).unwrap_or(0)));
            let digest = contents.map(kopt_build::digest_of_bytes);
            let known = TABLES.iter().any(|(name, known)| *name == symbol.name && digest.as_deref() == Some(known));
            match known {
                true => found.allow("device-global", &symbol.name, "a table of the compiler's mathematical library"),
                false => found.add("device-global", &symbol.name, || place(symbol)),
            }
        }
        // Gaps of alignment are no variables, and a section without any is one as a whole.
        if named == 0 {
            found.add("device-global", &section.name, || Place::section(&section.name));
        }
    }
}

/// Names that are found when the module is loaded.
fn imports(image: &Image<'_>, found: &mut Collector<'_>) {
    let fine = rules::find("device-import").map_or(&[][..], |rule| &rule.allow);
    for symbol in image.symbols.iter().filter(|symbol| !symbol.is_defined && !symbol.name.is_empty()) {
        if rules::matches(fine, &symbol.name) {
            continue;
        }
        let about = |rule: &&rules::Rule| rule.class == Class::Device && rules::matches(&rule.imports, &symbol.name);
        let id = rules::all().iter().find(about).map_or("device-import", |rule| rule.id);
        found.add(id, &symbol.name, || Place { symbol: Some(symbol.name.clone()), ..Place::default() });
    }
}

/// The instructions of the PTX; their number. Inline assembly may break lines, comment, label and name places as it likes: what
/// counts is what stands between two semicolons.
fn code(ptx: &str, found: &mut Collector<'_>) -> usize {
    let (mut function, mut line, mut count) = (None, None, 0);
    let bare = bare(ptx);
    unreadable(ptx, &bare, found);
    for statement in bare.split([';', '{', '}']) {
        function = function_of(statement).map(str::to_owned).or(function);
        let statement = after_what_stands_before(statement, &mut line);
        count += usize::from(instruction(statement, function.as_deref(), line.as_deref(), found));
        outlasting(statement, function.as_deref(), found);
    }
    for misuse in tables::misuses(&bare, &TABLES.map(|(name, _)| name)) {
        found.add("device-global", misuse.table, || Place {
            symbol: misuse.function,
            instruction: Some(misuse.statement),
            ..Place::section("PTX")
        });
    }
    count
}

/// What the assembler may read otherwise than the audit does.
fn unreadable(ptx: &str, bare: &str, found: &mut Collector<'_>) {
    // Where a text ends that has one in it, readers may differ.
    if ptx.contains('\\') {
        found.add("device-undecodable", "a backslash in the PTX", Place::default);
    }
    if bare.contains('#') {
        found.add("device-undecodable", "a line for a preprocessor in the PTX", Place::default);
    }
    // Compilers write such lines for debuggers.
    if bare.match_indices("@@").any(|(at, _)| !bare[at..].starts_with("@@DWARF")) {
        found.add("device-undecodable", "a directive of `@@` in the PTX", Place::default);
    }
}

/// Memory that a statement reaches and that outlives a launch, although no rule refuses it.
fn outlasting(statement: &str, function: Option<&str>, found: &mut Collector<'_>) {
    let whose = || function.map_or_else(String::new, |name| format!(" of {name}"));
    let declares = statement.starts_with('.') && squeezed(statement).contains(".local");
    let begins = |with: &str| beginnings(statement).any(|text| squeezed(text).starts_with(with));
    if declares || begins("alloca.") {
        let why = "nobody clears it between launches: what is read before it is written may be an earlier one's";
        found.allow("device-global", format!("local memory{}", whose()), why);
    }
    if begins("cvta.const") {
        let why = "it is a pointer as any other, by which the constant might be written";
        found.allow("device-global", format!("the generic address of a constant{}", whose()), why);
    }
}

/// The text without comments and without what stands in quotes.
fn bare(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"']) {
        bare.push_str(&rest[..at]);
        let from = &rest[at..];
        let end = match (from.as_bytes()[0], from.as_bytes().get(1)) {
            (b'"', _) => from[1..].find('"').map(|end| end + 2),
            (_, Some(b'/')) => from.find('\n'),
            (_, Some(b'*')) => from[2..].find("*/").map(|end| end + 4),
            _ => {
                bare.push('/');
                rest = &from[1..];
                continue;
            }
        };
        rest = &from[end.unwrap_or(from.len())..];
        bare.push(' ');
    }
    bare + rest
}

/// An instruction without what may stand before it: labels and predicates (`$again: @%p1 bra`), and places, which no semicolon
/// ends (`.loc 1 5 0, function_name f, inlined_at 1 9 0`, `.file 1`). The line is that of the last place.
pub(super) fn after_what_stands_before<'a>(statement: &'a str, line: &mut Option<String>) -> &'a str {
    let mut rest = statement.trim_start();
    loop {
        // Two colons are part of a name: `L2::evict_last`.
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
        let after = rest.trim_start_matches(is_name).trim_start();
        let is_label = after.starts_with(':') && !after.starts_with("::");
        let next = if let Some(predicate) = rest.strip_prefix('@') {
            // `@!%p1`, however it is spaced.
            predicate.trim_start_matches(|c: char| c == '!' || c.is_whitespace()).trim_start_matches(is_name)
        } else if is_label {
            &after[1..]
        } else if let Some(place) = word(rest, ".loc") {
            let (number, rest) = after_place(place);
            *line = number.map(str::to_owned);
            rest
        } else if let Some(place) = word(rest, ".file") {
            after_place(place).1
        } else {
            return rest;
        };
        rest = next.trim_start();
    }
}

/// A place's second number, and what follows it.
fn after_place(mut rest: &str) -> (Option<&str>, &str) {
    let mut numbers = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ',' | '+'));
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        rest = if digits > 0 {
            numbers.push(&rest[..digits]);
            &rest[digits..]
        } else if let Some(name) = word(rest, "function_name") {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
            name.trim_start().trim_start_matches(is_name)
        } else if let Some(place) = word(rest, "inlined_at") {
            place
        } else {
            return (numbers.get(1).copied(), rest);
        };
    }
}

/// What follows a word, if the text begins with it.
fn word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.strip_prefix(word).filter(|rest| rest.starts_with(char::is_whitespace))
}

/// `.visible .entry softmax(` and `.func (.param ...) name(`.
pub(super) fn function_of(text: &str) -> Option<&str> {
    let rest = text.split_once(".entry ").or_else(|| text.split_once(".func "))?.1.trim();
    let rest = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')')?.1.trim(),
        None => rest,
    };
    let name = rest.split(['(', ' ']).next()?;
    (!name.is_empty()).then_some(name)
}

/// Every place of a statement where an instruction may begin: at each word of small letters, whatever stands before it.
fn beginnings(statement: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
    let begins = move |at: usize| {
        let before = &statement[..at];
        !before.ends_with(is_name) && !before.ends_with("::")
    };
    let letters = statement.char_indices().filter(|(_, letter)| letter.is_ascii_lowercase());
    letters.filter(move |(at, _)| begins(*at)).map(|(at, _)| &statement[at..])
}

/// A text without white space: modifiers may stand apart from what they modify.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Whether a statement is an instruction; which rules name it.
fn instruction(bare: &str, function: Option<&str>, line: Option<&str>, found: &mut Collector<'_>) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '$' | '.');
    // Wherever such a register stands, it is read.
    let operands: Vec<&str> = bare.split(|c: char| !is_part(c)).filter(|one| !one.is_empty()).collect();
    for rule in rules::all() {
        let named = || operands.iter().copied().find(|operand| rules::matches(&rule.operands, operand));
        let is_opcode = |text: &&str| !rule.opcodes.is_empty() && rules::matches(&rule.opcodes, &squeezed(text));
        let opcode = beginnings(bare).find(is_opcode).map(|text| text.split_whitespace().next().unwrap_or(text));
        if let Some(what) = opcode.or_else(named) {
            found.add(rule.id, what, || Place {
                symbol: function.map(str::to_owned),
                instruction: Some(bare.split_whitespace().collect::<Vec<_>>().join(" ")),
                source: line.map(|line| format!("line {line}")),
                ..Place::section("PTX")
            });
        }
    }
    bare.starts_with(|c: char| c.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ptx: &str) -> Audit {
        let mut found = Collector::new(&[]);
        code(ptx, &mut found);
        let clean = if found.has_allowed() { Stateless::Presumed } else { Stateless::Proven };
        found.finish(Class::Device, clean, String::new())
    }

    fn finds(ptx: &str, rule: &str) -> bool {
        read(ptx).findings.iter().any(|finding| finding.rule == rule)
    }

    #[test]
    fn what_readers_may_end_at_different_places_is_refused() {
        let refused = |ptx: &str| finds(ptx, "device-undecodable");
        assert!(refused(".pragma \"a\\\"\"; mov.u64 %rd1, %clock64;"));
        assert!(!refused(".file 1 \"kernels/softmax.cu\"\n.pragma \"nounroll\"; mov.u32 %r1, %tid.x;"));
    }

    #[test]
    fn what_an_assembler_may_replace_is_refused() {
        let refused = |ptx: &str| finds(ptx, "device-undecodable");
        assert!(refused("#define harmless discard\nharmless.global.L2 [%rd1], 128;"));
        assert!(refused("mov.u32 %r1, %tid.x;\n  # include \"other.ptx\"\n"));
        assert!(refused("@@ANYTHING mov.u32 %r1, %tid.x;"));
        assert!(!refused("@@DWARF .byte 0x01\n// # in a comment\n.file 1 \"a#b.cu\"\nmov.u32 %r1, %tid.x;"));
    }

    #[test]
    fn an_instruction_is_found_whatever_stands_before_it() {
        let discard = "discard.global.L2 [%rd1], 128;";
        let before = [
            "",
            "@%p1 ",
            "@ %p1 ",
            "@!%p1 ",
            "@ ! %p1\n",
            "L1: ",
            "L1 : ",
            "$again:",
            "L1 :\n@ %p1 ",
            "{ L1 : ",
            ".loc 1 5 0\n@ %p1 ",
            "L1 : .loc 1 5 0 ",
        ];
        for before in before {
            let audit = read(&format!(".visible .entry k()\n{{\n{before}{discard}\n}}"));
            let found: Vec<_> = audit.findings.iter().map(|one| (one.rule.as_str(), one.what.as_str())).collect();
            assert_eq!(found, [("device-cache-policy", "discard.global.L2")], "{before}");
        }
        assert!(finds("@ %p1 ld.global.L1::evict_last.f32 %f1, [%rd1];", "device-cache-hint"));
        assert!(finds("L1 : ld .global .L2::cache_hint .f32 %f1, [%rd1], %rd2;", "device-cache-hint"));
        // A name is no instruction.
        let named = ".visible .entry discard_evict_last(.param .u64 discard_evict_last_param_0)\n{ ld.param.u64 %rd1, [discard_evict_last_param_0]; }";
        assert_eq!(read(named).findings, []);
    }

    #[test]
    fn memory_that_nobody_clears_is_presumed_and_said() {
        let local =
            read(".visible .entry k() { .local .align 4 .b8 __local_depot0[28]; mov.u64 %SPL, __local_depot0; ret; }");
        assert_eq!(local.stateless, Stateless::Presumed);
        assert!(local.allowed[0].what.contains("local memory of k"), "{:?}", local.allowed);
        assert_eq!(read(".func f() { alloca.u64 %rd1, 16; }").stateless, Stateless::Presumed);
        let constant = ".const .align 4 .f32 table[4]; .visible .entry k() { mov.u64 %rd1, table; ld.const.f32 %f1, [%rd1]; CONST }";
        assert_eq!(read(&constant.replace("CONST", "")).stateless, Stateless::Proven);
        let pointed = read(&constant.replace("CONST", "@ %p1 cvta.const.u64 %rd2, %rd1;"));
        assert_eq!(pointed.stateless, Stateless::Presumed);
        assert!(pointed.allowed[0].what.contains("the generic address of a constant of k"), "{:?}", pointed.allowed);
    }

    #[test]
    fn a_table_of_the_compiler_that_is_written_is_a_variable() {
        let ptx = ".global .b8 __cudart_i2opi_f[24] = {1}; .visible .entry k() { mov.u64 %rd1, __cudart_i2opi_f; st.global.u32 [%rd1], 1; }";
        let audit = read(ptx);
        assert_eq!(audit.stateless, Stateless::Violated);
        assert_eq!(audit.findings[0].symbol.as_deref(), Some("k"), "{:?}", audit.findings);
        assert!(!finds(&ptx.replace("st.global.u32 [%rd1], 1", "ld.global.u32 %r1, [%rd1]"), "device-global"));
    }

    /// Device code of the harness itself, as nvcc wrote it.
    #[test]
    fn what_compilers_write_is_read_without_a_finding() {
        let product = read(include_str!("../../harness/src/runner/reference/product.ptx"));
        assert_eq!((product.stateless, product.findings), (Stateless::Proven, vec![]));
        let table = read(include_str!("../../harness/src/runner/backend/gpu/table.ptx"));
        assert_eq!((table.stateless, table.findings), (Stateless::Presumed, vec![]));
    }
}
