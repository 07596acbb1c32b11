//! A kernel as a function of this process, called on the caller's own memory: what the training step fills an op with.
//!
//! The object is taken only if its digest is the one recorded when it was compiled, and is loaded as the runner's CPU
//! backend loads it. A process that holds a slot runs foreign code: it should have no other purpose, and whoever started it
//! trusts neither what it prints nor that it answers. Only the CPU so far; another backend would hold its own buffers and
//! copy, behind the same calls.

#![allow(unsafe_code, reason = "loads and calls foreign code")]

use std::fmt::Write as _;

use camino::Utf8Path;
use kopt_schema::FORMAT_VERSION;
use kopt_schema::candidate::{Candidate, PREPARED};
use kopt_schema::json::Json as _;
use kopt_schema::manifest::{Backend, Class};
use kopt_schema::training::{EntryArgs, FieldArgsKind, Filling};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use sha2::{Digest as _, Sha256};

type Function = unsafe extern "C" fn(*const u8) -> i32;

/// Why a kernel cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// It cannot be loaded.
    #[error("{0}")]
    Load(String),
    /// A field of its args struct is not one of the operator's, or of another kind.
    #[error("{0}")]
    Argument(String),
    /// It returned this instead of 0.
    #[error("`{0}` returned {1}, not 0")]
    Returned(String, i32),
}

/// An argument of a call.
#[derive(Debug)]
pub enum Argument<'a> {
    /// A buffer that is read.
    Read(&'a [f32]),
    /// A buffer of indices that is read.
    Indices(&'a [i32]),
    /// A buffer that is written.
    Write(&'a mut [f32]),
    /// A size.
    Size(usize),
    /// A scalar.
    Scalar(f32),
}

impl Argument<'_> {
    fn kind(&self) -> FieldArgsKind {
        match self {
            Self::Read(_) | Self::Indices(_) => FieldArgsKind::Read,
            Self::Write(_) => FieldArgsKind::Write,
            Self::Size(_) => FieldArgsKind::Size,
            Self::Scalar(_) => FieldArgsKind::Scalar,
        }
    }

    fn bytes(&mut self) -> ([u8; 8], usize) {
        let address = |address: usize| ((address as u64).to_ne_bytes(), 8);
        match self {
            Self::Read(buffer) => address(buffer.as_ptr().expose_provenance()),
            Self::Indices(buffer) => address(buffer.as_ptr().expose_provenance()),
            Self::Write(buffer) => address(buffer.as_mut_ptr().expose_provenance()),
            Self::Size(size) => ((*size as i64).to_ne_bytes(), 8),
            Self::Scalar(scalar) => {
                let mut bytes = [0; 8];
                bytes[..4].copy_from_slice(&scalar.to_ne_bytes());
                (bytes, 4)
            }
        }
    }
}

/// A loaded kernel.
pub struct Slot {
    entries: Vec<(EntryArgs, Function)>,
    // Functions point into it: it is dropped after them.
    _library: Library,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|(entry, _)| &entry.symbol)).finish()
    }
}

impl Slot {
    /// Loads a kernel.
    ///
    /// # Errors
    /// When it is none for this process, is not the object that was compiled, or lacks an entry.
    pub fn load(filling: &Filling) -> Result<Self, SlotError> {
        let file = Utf8Path::new(&filling.candidate);
        let wrong = |message: String| SlotError::Load(format!("{file}: {message}"));
        if filling.backend != Backend::Cpu {
            return Err(wrong(format!("a slot takes a kernel for cpu, not for {}", filling.backend.name())));
        }
        let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
        let candidate = Candidate::from_json(&text).map_err(|error| wrong(error.to_string()))?;
        if candidate.format > FORMAT_VERSION {
            return Err(wrong(format!("format {} is newer than {FORMAT_VERSION}", candidate.format)));
        }
        if candidate.class != Class::Native {
            return Err(wrong(format!("a slot takes class native, not {}", candidate.class.name())));
        }
        if candidate.prepares {
            return Err(wrong("a slot takes no kernel that prepares its weights yet".to_owned()));
        }
        let Some(object) = &candidate.object else {
            return Err(wrong(candidate.missing.unwrap_or_else(|| "not compiled".to_owned())));
        };
        let object = file.with_file_name(object);
        let bytes = std::fs::read(&object).map_err(|error| wrong(format!("{object}: {error}")))?;
        let found = Sha256::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        if found != candidate.digest {
            return Err(wrong(format!("{object} is not the object that was compiled (digest {found})")));
        }
        // SAFETY: loading runs the object's constructors, in a process whose only purpose is to run it.
        let library = unsafe { Library::open(Some(object.as_str()), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| wrong(format!("the object does not load: {error}")))?;
        let mut entries = Vec::new();
        for entry in &filling.entries {
            let fits = entry.fields.iter().all(|field| field.offset + field.kind.size() <= entry.size);
            if !fits {
                return Err(wrong(format!("`{}_args` is smaller than its fields", entry.symbol)));
            }
            // SAFETY: the header that declares the entry gives it this type for every kernel.
            let function = unsafe { library.get::<Function>(entry.symbol.as_bytes()) }
                .map_err(|_| wrong(format!("the object has no function `{}`", entry.symbol)))?;
            entries.push((entry.clone(), *function));
        }
        Ok(Self { entries, _library: library })
    }

    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(entry, _)| entry.symbol.as_str())
    }

    /// Calls the entry `symbol` with these arguments, by the names of the struct's fields.
    ///
    /// # Errors
    /// When there is no such entry, a field is not among the arguments or is of another kind, or the entry returns an error.
    pub fn call(&self, symbol: &str, arguments: &mut [(&str, Argument<'_>)]) -> Result<(), SlotError> {
        let found = self.entries.iter().find(|(entry, _)| entry.symbol == symbol);
        let Some((entry, function)) = found else {
            return Err(SlotError::Argument(format!("the kernel has no entry `{symbol}`")));
        };
        // 64-bit words, so that the struct is aligned for every field it may have.
        let mut words = vec![0u64; entry.size.div_ceil(8)];
        // What a kernel that prepares nothing is given as prepared is null.
        for field in entry.fields.iter().filter(|field| field.name != PREPARED) {
            let name = &field.name;
            let argument = arguments.iter_mut().find(|(given, _)| given == name).map(|(_, argument)| argument);
            let Some(argument) = argument.filter(|argument| argument.kind() == field.kind) else {
                let what =
                    format!("field `{name}` of `{symbol}_args` is none that the operator passes, or of another kind");
                return Err(SlotError::Argument(what));
            };
            let (bytes, len) = argument.bytes();
            put(&mut words, field.offset, &bytes[..len]);
        }
        // SAFETY: the struct has the size and layout of the header that the object was compiled with, and its pointers are
        // to buffers that are borrowed for the length of this call, those to be written mutably. That the code stays inside
        // of them is what correctness trials have shown; no argument can be made here for foreign code.
        match unsafe { function(words.as_ptr().cast()) } {
            0 => Ok(()),
            status => Err(SlotError::Returned(symbol.to_owned(), status)),
        }
    }
}

/// Puts bytes at an offset of a struct made of words.
fn put(words: &mut [u64], offset: usize, bytes: &[u8]) {
    for (index, byte) in bytes.iter().enumerate() {
        let at = offset + index;
        let mut word = words[at / 8].to_ne_bytes();
        word[at % 8] = *byte;
        words[at / 8] = u64::from_ne_bytes(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_four_bytes_share_a_word() {
        let mut words = vec![0u64; 2];
        put(&mut words, 8, &1.5f32.to_ne_bytes());
        put(&mut words, 12, &(-2.0f32).to_ne_bytes());
        let bytes = words[1].to_ne_bytes();
        assert_eq!(f32::from_ne_bytes(bytes[..4].try_into().unwrap()), 1.5);
        assert_eq!(f32::from_ne_bytes(bytes[4..].try_into().unwrap()), -2.0);
    }

    #[test]
    fn what_is_no_candidate_is_named() {
        let filling = Filling {
            op: "softmax".to_owned(),
            backend: Backend::Cpu,
            candidate: "nowhere/candidate.json".to_owned(),
            entries: Vec::new(),
        };
        let error = Slot::load(&filling).unwrap_err().to_string();
        assert!(error.starts_with("nowhere/candidate.json: "), "{error}");
        let error = Slot::load(&Filling { backend: Backend::Cuda, ..filling }).unwrap_err().to_string();
        assert!(error.contains("not for cuda"), "{error}");
    }
}
