//! Class `device`: a cubin has no host code, so that what is left is its memory, the names it needs, and its instructions.
//! There is no public decoder of device code; the PTX that the cubin was assembled from is read instead, in which inline
//! assembly stands as it was written.

use kopt_schema::audit::{Audit, Stateless};
use kopt_schema::manifest::Class;
use object::elf;

use super::collector::Place;
use super::elf::{Image, Symbol};
use super::{Collector, Subject, not_audited, rules};

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
    // Where a text ends that has one in it, readers may differ.
    if ptx.contains('\\') {
        found.add("device-undecodable", "a backslash in the PTX", Place::default);
    }
    for statement in bare(ptx).split([';', '{', '}']) {
        function = function_of(statement).map(str::to_owned).or(function);
        let statement = after_what_stands_before(statement, &mut line);
        count += usize::from(instruction(statement, function.as_deref(), line.as_deref(), found));
    }
    count
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
fn after_what_stands_before<'a>(statement: &'a str, line: &mut Option<String>) -> &'a str {
    let mut rest = statement.trim_start();
    loop {
        // Two colons are part of a name: `L2::evict_last`.
        let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%'));
        let is_label = after.starts_with(':') && !after.starts_with("::");
        let next = if rest.starts_with('@') {
            rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest)
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
fn function_of(text: &str) -> Option<&str> {
    let rest = text.split_once(".entry ").or_else(|| text.split_once(".func "))?.1.trim();
    let rest = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')')?.1.trim(),
        None => rest,
    };
    let name = rest.split(['(', ' ']).next()?;
    (!name.is_empty()).then_some(name)
}

/// Whether a statement is an instruction; which rules name it.
fn instruction(bare: &str, function: Option<&str>, line: Option<&str>, found: &mut Collector<'_>) -> bool {
    let is_instruction = bare.starts_with(|c: char| c.is_ascii_lowercase());
    let opcode = bare.split_whitespace().next().unwrap_or(bare);
    // Modifiers may stand apart from what they modify.
    let whole: String = bare.split_whitespace().collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '$' | '.');
    // Wherever such a register stands, it is read.
    let operands: Vec<&str> = bare.split(|c: char| !is_part(c)).filter(|one| !one.is_empty()).collect();
    for rule in rules::all() {
        let named = operands.iter().copied().find(|operand| rules::matches(&rule.operands, operand));
        let what = if is_instruction && rules::matches(&rule.opcodes, &whole) { Some(opcode) } else { named };
        if let Some(what) = what {
            found.add(rule.id, what, || Place {
                symbol: function.map(str::to_owned),
                instruction: Some(bare.split_whitespace().collect::<Vec<_>>().join(" ")),
                source: line.map(|line| format!("line {line}")),
                ..Place::section("PTX")
            });
        }
    }
    is_instruction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_may_end_at_different_places_is_refused() {
        let refused = |ptx: &str| {
            let mut found = Collector::new(&[]);
            code(ptx, &mut found);
            let audit = found.finish(Class::Device, Stateless::Proven, String::new());
            audit.findings.iter().any(|finding| finding.rule == "device-undecodable")
        };
        assert!(refused(".pragma \"a\\\"\"; mov.u64 %rd1, %clock64;"));
        assert!(!refused(".file 1 \"kernels/softmax.cu\"\n.pragma \"nounroll\"; mov.u32 %r1, %tid.x;"));
    }
}
