//! The args structs of a kernel's header, in Rust: by bindgen, or from the checked-in `kernels/<op>.bindings.rs` where
//! libclang is missing. The checked-in file starts with the digest of the header it was made from; a stale one is an
//! error without libclang and a warning with it.

use camino::Utf8Path;
use kopt_schema::manifest::{Class, Manifest};
use kopt_schema::training::{EntryArgs, FieldArgsKind};

use crate::digest;
use crate::error::BuildError;
use crate::script::bindings_file;

/// The Rust text and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bindings {
    /// Structs and, for class `native`, functions.
    pub text: String,
    /// One per `<entry>_args` struct, in the header's order.
    pub entries: Vec<EntryStruct>,
    /// A warning, where the checked-in file no longer fits the header.
    pub stale: Option<String>,
}

/// An args struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryStruct {
    /// The entry: the struct's name without `_args`.
    pub symbol: String,
    /// The struct's name.
    pub type_name: String,
    /// Its fields.
    pub fields: Vec<FieldStruct>,
}

/// A field of an args struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldStruct {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: FieldType,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// A buffer, writable unless the pointer is to const.
    Pointer {
        /// Whether the kernel may write through it.
        writable: bool,
    },
    /// A size.
    Int64,
    /// A scalar.
    Float32,
}

impl Bindings {
    /// The args structs as they lie in memory.
    ///
    /// # Errors
    /// When one is packed or aligned in a way of its own.
    pub fn layouts(&self) -> Result<Vec<EntryArgs>, String> {
        if self.text.contains("repr(C, packed") || self.text.contains("repr(C, align") {
            return Err("an args struct is packed or aligned in a way of its own".to_owned());
        }
        let kind = |kind: FieldType| match kind {
            FieldType::Pointer { writable: true } => FieldArgsKind::Write,
            FieldType::Pointer { writable: false } => FieldArgsKind::Read,
            FieldType::Int64 => FieldArgsKind::Size,
            FieldType::Float32 => FieldArgsKind::Scalar,
        };
        let layout = |entry: &EntryStruct| {
            let fields: Vec<_> = entry.fields.iter().map(|field| (field.name.as_str(), kind(field.kind))).collect();
            EntryArgs::laid_out(&entry.symbol, &fields)
        };
        Ok(self.entries.iter().map(layout).collect())
    }
}

const DIGEST_LINE: &str = "// header digest: ";

/// The bindings of a crate; with `write`, the checked-in file is renewed.
///
/// # Errors
/// When the header holds what cannot be passed, or libclang is missing and the checked-in file is missing or stale.
pub fn load(folder: &Utf8Path, manifest: &Manifest, write: bool) -> Result<Bindings, BuildError> {
    let header = folder.join(&manifest.header);
    let wanted = digest::of_file(&header)?;
    let file = bindings_file(folder, manifest);
    let checked_in = std::fs::read_to_string(&file).ok();
    let fresh = checked_in.as_deref().is_some_and(|text| header_digest(text) == Some(&wanted));
    let bad = |reason: String| BuildError::Bindings { file: file.clone(), reason };
    let (text, stale) = match generate(&header, manifest, &wanted) {
        Ok(text) => {
            if write && checked_in.as_deref() != Some(&text) {
                std::fs::write(&file, &text).map_err(BuildError::file(&file))?;
            }
            let stale = (!write && checked_in.is_some() && !fresh)
                .then(|| format!("{file} is older than the header; renew it with `cargo kopt bindings`"));
            (text, stale)
        }
        Err(Unavailable::NoLibclang(reason)) if write => return Err(bad(format!("cannot be made: {reason}"))),
        Err(Unavailable::NoLibclang(reason)) => match checked_in {
            Some(text) if fresh => (text, None),
            Some(_) => return Err(bad(format!("made from another version of {}, and {reason}", manifest.header))),
            None => return Err(bad(format!("does not exist, and {reason}"))),
        },
        Err(Unavailable::Header(reason)) => return Err(BuildError::Header { header: manifest.header.clone(), reason }),
    };
    let entries =
        read_entries(&text).map_err(|reason| BuildError::Header { header: manifest.header.clone(), reason })?;
    if !entries.iter().any(|entry| entry.symbol == manifest.op) {
        let reason = format!("declares no struct `{}_args`", manifest.op);
        return Err(BuildError::Header { header: manifest.header.clone(), reason });
    }
    Ok(Bindings { text, entries, stale })
}

/// Renews the checked-in file; true if it changed.
///
/// # Errors
/// As [`load`].
pub fn write(folder: &Utf8Path, manifest: &Manifest) -> Result<bool, BuildError> {
    let before = std::fs::read_to_string(bindings_file(folder, manifest)).ok();
    let bindings = load(folder, manifest, true)?;
    Ok(before.as_deref() != Some(&bindings.text))
}

/// Whether the checked-in file is there and fits the header. Needs no libclang.
///
/// # Errors
/// When the header cannot be read.
pub fn check(folder: &Utf8Path, manifest: &Manifest) -> Result<bool, BuildError> {
    let wanted = digest::of_file(&folder.join(&manifest.header))?;
    let text = std::fs::read_to_string(bindings_file(folder, manifest)).unwrap_or_default();
    Ok(header_digest(&text) == Some(&wanted))
}

fn header_digest(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix(DIGEST_LINE))
}

enum Unavailable {
    NoLibclang(String),
    Header(String),
}

fn generate(header: &Utf8Path, manifest: &Manifest, header_digest: &str) -> Result<String, Unavailable> {
    // bindgen panics when it cannot load libclang; asked first, the loader returns an error.
    clang_sys::load().map_err(|error| {
        let reason = error.lines().next().unwrap_or_default();
        Unavailable::NoLibclang(format!("libclang is not to be had ({reason})"))
    })?;
    // Outside a build script bindgen cannot ask which compiler will read its text, and assumes an older one.
    let reader = bindgen::RustTarget::stable(85, 0).map_err(|error| Unavailable::Header(error.to_string()))?;
    let mut builder = bindgen::Builder::default()
        .rust_target(reader)
        .header(header.as_str())
        .allowlist_type(".*_args")
        .layout_tests(false)
        .derive_debug(false)
        .generate_comments(false)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .formatter(bindgen::Formatter::Prettyplease);
    if manifest.class == Class::Native {
        builder = builder.allowlist_function(format!("{0}|{0}_.*", manifest.op));
    }
    let text = builder.generate().map_err(|error| Unavailable::Header(error.to_string()))?.to_string();
    // The first line names bindgen's version, which would differ from machine to machine.
    let body = text.lines().skip_while(|line| line.starts_with("/*") || line.is_empty()).collect::<Vec<_>>().join("\n");
    Ok(format!(
        "// Made by `cargo kopt bindings` from {}. Do not edit.\n{DIGEST_LINE}{header_digest}\n{body}\n",
        manifest.header
    ))
}

fn read_entries(text: &str) -> Result<Vec<EntryStruct>, String> {
    let file = syn::parse_file(text).map_err(|error| format!("the bindings do not parse: {error}"))?;
    let structs = file.items.iter().filter_map(|item| match item {
        syn::Item::Struct(item) => Some(item),
        _ => None,
    });
    let mut entries = Vec::new();
    for item in structs {
        let type_name = item.ident.to_string();
        let Some(symbol) = type_name.strip_suffix("_args") else { continue };
        let mut fields = Vec::new();
        for field in &item.fields {
            let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            let kind = field_type(&field.ty).ok_or_else(|| {
                format!("field `{name}` of `{type_name}`: only pointers, int64_t and float can be passed")
            })?;
            fields.push(FieldStruct { name, kind });
        }
        entries.push(EntryStruct { symbol: symbol.to_owned(), type_name, fields });
    }
    Ok(entries)
}

fn field_type(ty: &syn::Type) -> Option<FieldType> {
    match ty {
        syn::Type::Ptr(pointer) => Some(FieldType::Pointer { writable: pointer.mutability.is_some() }),
        syn::Type::Path(path) => match path.path.segments.last()?.ident.to_string().as_str() {
            "i64" => Some(FieldType::Int64),
            "f32" => Some(FieldType::Float32),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "#[repr(C)]\npub struct softmax_args { pub x: *const f32, pub y: *mut f32, pub rows: i64, pub eps: f32 }\n";

    #[test]
    fn fields_keep_their_order_and_kind() {
        let entries = read_entries(TEXT).unwrap();
        assert_eq!(entries[0].symbol, "softmax");
        let kinds: Vec<_> = entries[0].fields.iter().map(|field| (field.name.as_str(), field.kind)).collect();
        let expected = [
            ("x", FieldType::Pointer { writable: false }),
            ("y", FieldType::Pointer { writable: true }),
            ("rows", FieldType::Int64),
            ("eps", FieldType::Float32),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn layouts_are_those_of_c_and_a_packed_struct_has_none() {
        let bindings =
            |text: &str| Bindings { text: text.to_owned(), entries: read_entries(text).unwrap(), stale: None };
        let layouts = bindings(TEXT).layouts().unwrap();
        let offsets: Vec<usize> = layouts[0].fields.iter().map(|field| field.offset).collect();
        assert_eq!((offsets, layouts[0].size), (vec![0, 8, 16, 24], 32));
        assert!(bindings(&TEXT.replace("repr(C)", "repr(C, packed)")).layouts().is_err());
    }

    #[test]
    fn a_field_that_cannot_be_passed_is_named() {
        let error = read_entries(&TEXT.replace("rows: i64", "rows: i32")).unwrap_err();
        assert!(error.contains("`rows` of `softmax_args`"), "{error}");
    }
}
