//! A stand-in for HIP's library, compiled from `harness/tests/hip` by the host's compiler: what tests of the HIP backend run
//! on. Each has a copy of its own, so that what one makes fail fails for it alone.

use std::ffi::{CString, c_char, c_int};
use std::process::Command;
use std::sync::OnceLock;

use camino::{Utf8Path, Utf8PathBuf};

use super::super::driver::Driver;
use super::Hip;
use super::library::{self, symbol};

/// The files, compiled once.
struct Built {
    folder: tempfile::TempDir,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = [("cc", "libamdhip64.c"), ("cc", "scale.c"), ("c++", "table.cpp")];
        for (compiler, source) in sources {
            let object = folder.path().join(source).with_extension("so");
            let mut command = Command::new(compiler);
            command.args(["-shared", "-fPIC", "-O2", "-ffp-contract=off", "-o"]).arg(object);
            command.arg(format!("-I{root}/src/runner/backend/gpu")).arg(root.join("tests/hip").join(source));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Built { folder }
    })
}

/// A runtime of one's own.
pub(crate) struct StandIn {
    pub driver: &'static Hip,
}

impl StandIn {
    pub(crate) fn new() -> Self {
        let own = tempfile::NamedTempFile::new().unwrap();
        std::fs::copy(built().folder.path().join("libamdhip64.so"), own.path()).unwrap();
        let library = library::open(Utf8Path::from_path(own.path()).unwrap()).unwrap();
        let driver = Box::leak(Box::new(Hip::of(library).unwrap()));
        let standin = Self { driver };
        let table = CString::new(object("table").as_str()).unwrap();
        // SAFETY: the stand-in's own function.
        unsafe { standin.function::<unsafe extern "C" fn(*const c_char)>("standin_table")(table.as_ptr()) };
        standin
    }

    pub(crate) fn driver(&self) -> &'static dyn Driver {
        self.driver
    }

    /// Every call of this function fails from now on.
    pub(super) fn fail(&self, name: &str, code: c_int) {
        let name = CString::new(name).unwrap();
        // SAFETY: as above.
        unsafe { self.function::<unsafe extern "C" fn(*const c_char, c_int)>("standin_fail")(name.as_ptr(), code) };
    }

    pub(super) fn calls(&self, name: &str) -> c_int {
        let name = CString::new(name).unwrap();
        // SAFETY: as above.
        unsafe { self.function::<unsafe extern "C" fn(*const c_char) -> c_int>("standin_calls")(name.as_ptr()) }
    }

    pub(super) fn devices(&self, number: c_int) {
        // SAFETY: as above.
        unsafe { self.function::<unsafe extern "C" fn(c_int)>("standin_devices")(number) };
    }

    pub(super) fn version(&self, number: c_int) {
        // SAFETY: as above.
        unsafe { self.function::<unsafe extern "C" fn(c_int)>("standin_version")(number) };
    }

    pub(super) fn memory(&self, bytes: usize) {
        // SAFETY: as above.
        unsafe { self.function::<unsafe extern "C" fn(usize)>("standin_memory")(bytes) };
    }

    /// What was not given back.
    pub(super) fn live(&self) -> c_int {
        // SAFETY: as above.
        unsafe { self.function::<unsafe extern "C" fn() -> c_int>("standin_live")() }
    }

    fn function<T: Copy>(&self, name: &'static str) -> T {
        // SAFETY: callers know the stand-in's types.
        unsafe { symbol(&self.driver.library, name) }.unwrap()
    }
}

/// What stands for a code object: `scale` or `table`.
pub(crate) fn object(name: &str) -> Utf8PathBuf {
    let path = built().folder.path().join(name).with_extension("so");
    Utf8PathBuf::from_path_buf(path).unwrap()
}
