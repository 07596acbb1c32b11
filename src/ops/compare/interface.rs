//! Whether two versions can be called alike: the judge, built from the base, calls both by the base's interface.

use kopt_build::bindings::{self, Bindings, EntryStruct, FieldType};

use super::sides::{Side, Sides};
use crate::error::{Error, Result};
use crate::manifest::Kernel;

/// Both versions are kernels of the same interface.
///
/// # Errors
/// Names the first difference.
pub fn agree(sides: &Sides) -> Result<()> {
    facts(&sides.base.kernel, &sides.head.kernel)?;
    let (base, head) = (bindings_of(&sides.base)?, bindings_of(&sides.head)?);
    difference(&base, &head).map_or(Ok(()), |difference| Err(differ(&difference)))
}

/// The same of two crates.
///
/// # Errors
/// Names the first difference.
pub fn same(base: &Kernel, head: &Kernel) -> Result<()> {
    facts(base, head)?;
    let of = |kernel: &Kernel| {
        bindings::load(&kernel.member.folder, &kernel.manifest, false)
            .map_err(|error| Error::setup("cannot read the interface").cause(error.to_string()))
    };
    difference(&of(base)?, &of(head)?).map_or(Ok(()), |difference| Err(differ(&difference)))
}

fn facts(base: &Kernel, head: &Kernel) -> Result<()> {
    let (base, head) = (&base.manifest, &head.manifest);
    let facts = [
        ("op", base.op.clone(), head.op.clone()),
        ("backend", base.backend.name().to_owned(), head.backend.name().to_owned()),
        ("class", base.class.name().to_owned(), head.class.name().to_owned()),
        ("dtype", base.dtype.name().to_owned(), head.dtype.name().to_owned()),
    ];
    for (what, base, head) in facts {
        if base != head {
            return Err(differ(&format!("`{what}` is {base} in BASE and {head} in HEAD")));
        }
    }
    Ok(())
}

fn differ(difference: &str) -> Error {
    Error::setup(format!("the two versions have different interfaces: {difference}"))
        .hint("only versions that are called alike can be compared; one with another interface is another kernel")
}

fn bindings_of(side: &Side) -> Result<Bindings> {
    bindings::load(&side.kernel.member.folder, &side.kernel.manifest, false).map_err(|error| {
        let text = error.to_string();
        let wrong = Error::setup(format!("{}, {}: cannot read the interface", side.word, side.shown()));
        match text.rsplit_once("\nhint: ") {
            Some((said, hint)) => wrong.cause(said).hint(hint),
            None => wrong.cause(text),
        }
    })
}

/// The first difference between the args structs, in words. Offsets follow from types, order and packing.
fn difference(base: &Bindings, head: &Bindings) -> Option<String> {
    for entry in &base.entries {
        let name = &entry.type_name;
        let Some(other) = head.entries.iter().find(|other| other.symbol == entry.symbol) else {
            return Some(format!("only BASE has `{name}`"));
        };
        if let Some(found) = fields(entry, other) {
            return Some(format!("`{name}`: {found}"));
        }
        if representation(&base.text, name) != representation(&head.text, name) {
            return Some(format!("`{name}` is packed or aligned differently"));
        }
    }
    let added = head.entries.iter().find(|entry| base.entries.iter().all(|other| other.symbol != entry.symbol));
    added.map(|entry| format!("only HEAD has `{}`", entry.type_name))
}

fn fields(base: &EntryStruct, head: &EntryStruct) -> Option<String> {
    let pairs = base.fields.iter().zip(&head.fields);
    for (number, (old, new)) in pairs.enumerate() {
        if old.name != new.name {
            return Some(format!("field {} is `{}` in BASE and `{}` in HEAD", number + 1, old.name, new.name));
        }
        if old.kind != new.kind {
            let (old_type, new_type) = (type_name(old.kind), type_name(new.kind));
            return Some(format!("`{}` is {old_type} in BASE and {new_type} in HEAD", old.name));
        }
    }
    let (old, new) = (base.fields.len(), head.fields.len());
    match old.cmp(&new) {
        std::cmp::Ordering::Less => Some(format!("only HEAD has field `{}`", head.fields[old].name)),
        std::cmp::Ordering::Greater => Some(format!("only BASE has field `{}`", base.fields[new].name)),
        std::cmp::Ordering::Equal => None,
    }
}

const fn type_name(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Pointer { writable: true } => "a pointer to write through",
        FieldType::Pointer { writable: false } => "a pointer to const",
        FieldType::Int64 => "int64_t",
        FieldType::Float32 => "float",
    }
}

/// The `#[repr(…)]` before a struct.
fn representation<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let before = text.split(&format!("pub struct {name} ")).next()?;
    before.lines().rev().map(str::trim).take_while(|line| line.starts_with('#')).find(|line| line.starts_with("#[repr"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kopt_build::bindings::FieldStruct;

    fn bindings(repr: &str, fields: &[(&str, FieldType)]) -> Bindings {
        let fields = fields.iter().map(|(name, kind)| FieldStruct { name: (*name).to_owned(), kind: *kind }).collect();
        let entry = EntryStruct { symbol: "f".to_owned(), type_name: "f_args".to_owned(), fields };
        let text =
            format!("#[repr(C)]\npub struct g_args {{}}\n#[repr({repr})]\n#[derive(Copy)]\npub struct f_args {{\n}}\n");
        Bindings { text, entries: vec![entry], stale: None }
    }

    #[test]
    fn the_first_difference_is_named() {
        let pointer = FieldType::Pointer { writable: false };
        let base = bindings("C", &[("x", pointer), ("rows", FieldType::Int64)]);
        let against = |head: &Bindings| difference(&base, head);
        assert_eq!(against(&base), None);
        let cases = [
            (vec![("x", pointer), ("cols", FieldType::Int64)], "field 2 is `rows` in BASE and `cols` in HEAD"),
            (vec![("x", pointer), ("rows", FieldType::Float32)], "`rows` is int64_t in BASE and float in HEAD"),
            (
                vec![("x", FieldType::Pointer { writable: true })],
                "`x` is a pointer to const in BASE and a pointer to write",
            ),
            (vec![("x", pointer)], "only BASE has field `rows`"),
            (
                vec![("x", pointer), ("rows", FieldType::Int64), ("eps", FieldType::Float32)],
                "only HEAD has field `eps`",
            ),
        ];
        for (fields, told) in cases {
            let found = against(&bindings("C", &fields)).unwrap();
            assert!(found.starts_with("`f_args`: ") && found.contains(told), "{found}");
        }
        let packed = bindings("C, packed", &[("x", pointer), ("rows", FieldType::Int64)]);
        assert_eq!(against(&packed).unwrap(), "`f_args` is packed or aligned differently");
        let mut more = base.clone();
        more.entries.push(EntryStruct { symbol: "g".to_owned(), type_name: "g_args".to_owned(), fields: Vec::new() });
        assert_eq!(against(&more).unwrap(), "only HEAD has `g_args`");
        assert_eq!(difference(&more, &base).unwrap(), "only BASE has `g_args`");
    }
}
