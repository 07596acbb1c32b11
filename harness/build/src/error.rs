//! Why a kernel could not be built.

use camino::Utf8PathBuf;
use kopt_schema::Diagnostic;

/// Whose doing it is that a command failed, as far as its end tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The machine's: it could not be run, or was killed, and by nobody here.
    Machine,
    /// The version's: it was code of its own, or it came to a limit.
    Version,
    /// Only what it said can tell.
    Unclear,
}

/// Why a kernel could not be built. A missing GPU compiler is not an error: see [`crate::compile::Built`].
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The manifest or the launch plan is wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Manifest(Vec<Diagnostic>),
    /// No C compiler.
    #[error("no C compiler: {0}\nhint: install gcc or clang, or name one in the variable CC")]
    NoCompiler(String),
    /// The manifest asks for the device that is here, and there is none.
    #[error("no device: {0}")]
    NoDevice(String),
    /// The compiler refused a source.
    #[error("{source_file} does not compile\n{command}\n{output}")]
    Compile {
        /// The source, relative to the crate.
        source_file: String,
        /// The command.
        command: String,
        /// What the compiler said.
        output: String,
        /// Whose doing it is.
        blame: Blame,
    },
    /// A source includes a file outside the crate and its declared include roots.
    #[error(
        "{source_file} includes `{included}`, outside the crate and its include roots\nhint: declare the folder in `include_roots`"
    )]
    Include {
        /// The source, relative to the crate.
        source_file: String,
        /// The file.
        included: String,
    },
    /// Something beside a source that a compiler or `cargo package` makes another thing of it by.
    #[error(
        "{file} lies beside {source_file}: what is built from a package would not be what is judged here\nhint: take it out of the folder of the sources"
    )]
    Beside {
        /// The source, relative to the crate.
        source_file: String,
        /// The file, relative to the crate.
        file: Utf8PathBuf,
    },
    /// The checked-in bindings do not fit the header and libclang is missing.
    #[error(
        "{file}: {reason}\nhint: where libclang is installed, run `cargo kopt bindings` or `KOPT_BINDINGS=write cargo build`; Debian's package is libclang-dev"
    )]
    Bindings {
        /// The checked-in file.
        file: Utf8PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Half of a preparation.
    #[error(
        "the object exports `{has}` and not `{lacks}`\nhint: a kernel that prepares its weights exports both, one that does not neither"
    )]
    Prepare {
        /// The function that is there.
        has: String,
        /// The one that is not.
        lacks: String,
    },
    /// The header is no valid description of arguments.
    #[error("{header}: {reason}")]
    Header {
        /// The header, relative to the crate.
        header: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: Utf8PathBuf,
        /// The system's word.
        error: std::io::Error,
    },
}

impl BuildError {
    /// For `map_err` on file operations.
    pub(crate) fn file(path: impl Into<Utf8PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}
