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
    match (difference(&base, &head), added(&base, &head).first()) {
        (Some(difference), _) => Err(differ(&difference)),
        (None, Some(entry)) => Err(differ(&format!("only HEAD has `{}`", entry.type_name))),
        (None, None) => Ok(()),
    }
}

/// The same of two crates, of which the second may have more entries; their names. Whoever knows the first can call the second.
///
/// # Errors
/// Names the first difference.
pub fn includes(head: &Kernel, base: &Kernel) -> Result<Vec<String>> {
    facts(base, head)?;
    let of = |kernel: &Kernel| {
        bindings::load(&kernel.member.folder, &kernel.manifest, false)
            .map_err(|error| Error::setup("cannot read the interface").cause(error.to_string()))
    };
    let (base, head) = (of(base)?, of(head)?);
    match difference(&base, &head) {
        Some(difference) => Err(differ(&difference)),
        None => Ok(added(&base, &head).into_iter().map(|entry| entry.symbol.clone()).collect()),
    }
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

/// The first difference between the args structs that the base has, in words. Offsets follow from types, order and packing.
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
    None
}

/// Entries that only the head has.
fn added<'a>(base: &Bindings, head: &'a Bindings) -> Vec<&'a EntryStruct> {
    let is_new = |entry: &&EntryStruct| base.entries.iter().all(|other| other.symbol != entry.symbol);
    head.entries.iter().filter(is_new).collect()
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
        assert_eq!((against(&more), added(&base, &more)[0].symbol.as_str()), (None, "g"));
        assert!(added(&more, &base).is_empty());
        assert_eq!(difference(&more, &base).unwrap(), "only BASE has `g_args`");
    }
}
