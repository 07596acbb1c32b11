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

/// The instructions of the PTX; their number. Inline assembly may break lines, comment and label as it likes: what counts is
/// what stands between two semicolons.
fn code(ptx: &str, found: &mut Collector<'_>) -> usize {
    let (mut function, mut line, mut count) = (None, None, 0);
    let mut statement = String::new();
    for text in without_comments(ptx).lines().map(str::trim) {
        if let Some(place) = text.strip_prefix(".loc") {
            line = place.split_whitespace().nth(1).map(str::to_owned);
            continue;
        }
        for part in text.split_inclusive([';', '{', '}']) {
            statement.push_str(part.trim_end_matches([';', '{', '}']));
            statement.push(' ');
            if part.ends_with([';', '{', '}']) {
                function = function_of(&statement).map(str::to_owned).or(function);
                count += usize::from(instruction(statement.trim(), function.as_deref(), line.as_deref(), found));
                statement.clear();
            }
        }
    }
    count
}

fn without_comments(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        bare.push_str(&rest[..at]);
        let comment = &rest[at..];
        let end = match comment.as_bytes().get(1) {
            Some(b'/') => comment.find('\n'),
            Some(b'*') => comment.find("*/").map(|end| end + 2),
            _ => {
                bare.push('/');
                Some(1)
            }
        };
        rest = &comment[end.unwrap_or(comment.len())..];
        bare.push(' ');
    }
    bare + rest
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
fn instruction(statement: &str, function: Option<&str>, line: Option<&str>, found: &mut Collector<'_>) -> bool {
    let mut bare = statement;
    // Labels and predicates stand before an instruction: `$again: @%p1 bra`. Two colons are part of a name: `L2::evict_last`.
    loop {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
        let after = bare.trim_start_matches(is_name);
        bare = if bare.starts_with('@') {
            bare.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start())
        } else if after.starts_with(':') && !after.starts_with("::") {
            after[1..].trim_start()
        } else {
            break;
        };
    }
    if !bare.starts_with(|c: char| c.is_ascii_lowercase()) {
        return false;
    }
    let opcode = bare.split_whitespace().next().unwrap_or(bare);
    // Modifiers may stand apart from what they modify.
    let whole: String = bare.split_whitespace().collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '$' | '.');
    let operands: Vec<&str> = bare.split(|c: char| !is_part(c)).filter(|one| !one.is_empty()).collect();
    for rule in rules::all() {
        let named = operands.iter().copied().find(|operand| rules::matches(&rule.operands, operand));
        let what = if rules::matches(&rule.opcodes, &whole) { Some(opcode) } else { named };
        if let Some(what) = what {
            found.add(rule.id, what, || Place {
                symbol: function.map(str::to_owned),
                instruction: Some(bare.split_whitespace().collect::<Vec<_>>().join(" ")),
                source: line.map(|line| format!("line {line}")),
                ..Place::section("PTX")
            });
        }
    }
    true
}
