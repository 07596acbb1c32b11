//! What a kernel crate's build script found and made, as constants of the crate.

use kopt_schema::json::Json as _;
use kopt_schema::manifest::Manifest;

/// A kernel crate.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// The package's name.
    pub name: &'static str,
    /// The resolved manifest, as JSON.
    pub manifest: &'static str,
    /// The `candidate.json` that the build script wrote.
    pub candidate: &'static str,
    /// Digest of the object that the crate was built with.
    pub digest: &'static str,
    /// The args structs of the header.
    pub entries: &'static [EntryLayout],
}

/// An args struct.
#[derive(Debug, Clone, Copy)]
pub struct EntryLayout {
    /// The entry's symbol.
    pub symbol: &'static str,
    /// Size of the struct.
    pub size: usize,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A field of an args struct.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its offset.
    pub offset: usize,
    /// What it holds.
    pub kind: FieldKind,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A buffer.
    Pointer {
        /// Whether the kernel may write through it.
        writable: bool,
    },
    /// A size.
    Int64,
    /// A scalar.
    Float32,
}

impl Package {
    /// The resolved manifest.
    ///
    /// # Panics
    /// When the build script's text does not parse: it was written by the same version of the same type.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest::from_json(self.manifest.as_bytes())
            .unwrap_or_else(|error| panic!("manifest of {}: {error}", self.name))
    }

    /// The operator's name.
    #[must_use]
    pub fn op(&self) -> String {
        self.manifest().op
    }
}
