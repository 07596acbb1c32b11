//! What a candidate was compiled into, loaded: device code, whose kernels a launch plan names, or a launcher, whose entries
//! queue their work themselves.

use std::ffi::{CString, c_int, c_void};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::super::BackendError;
use super::driver::{Driver, Function, Meaning};

/// An entry of a launcher: the args struct, whose pointers are the device's, and the stream. 0 where all was queued.
pub(super) type Entry = unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int;

/// A loaded object.
#[derive(Debug)]
pub(super) enum Object {
    /// Kernels by their names.
    Device(Vec<(String, Function)>),
    /// Entries by their names, and the library that they are in.
    Launcher { entries: Vec<(String, Entry)>, _library: Library },
}

impl Object {
    /// Device code of the file `path`, and the kernels of these names.
    pub(super) fn device(driver: &dyn Driver, path: &str, symbols: &[String]) -> Result<Self, BackendError> {
        let (image, object) = (std::fs::read(path)?, driver.object());
        // SAFETY: the image is whole (its digest was compared), and the driver copies what it needs.
        let module = unsafe { driver.module(image.as_ptr().cast()) }
            .map_err(|refused| BackendError::Failed(format!("the {object} does not load here: {refused}")))?;
        let function = |symbol: &String| {
            let name = CString::new(symbol.as_str()).map_err(|error| BackendError::Failed(error.to_string()))?;
            // SAFETY: the module is loaded, and stays so.
            let function = unsafe { driver.function(module, name) }.map_err(|refused| match refused.meaning {
                Meaning::NotFound => {
                    BackendError::Failed(format!("the {object} has no kernel `{symbol}`; is it extern \"C\"?"))
                }
                _ => refused.into(),
            })?;
            Ok((symbol.clone(), function))
        };
        symbols.iter().map(function).collect::<Result<_, BackendError>>().map(Self::Device)
    }

    /// A launcher, and the entries of these names.
    pub(super) fn launcher(path: &str, symbols: &[String]) -> Result<Self, BackendError> {
        // SAFETY: loading runs the object's constructors, in this process whose only purpose is to run it.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| BackendError::Failed(format!("the object does not load: {error}")))?;
        let entry = |symbol: &String| {
            // SAFETY: kopt-build asks for a function of this name and type, and the header declares the struct.
            let entry = unsafe { library.get::<Entry>(symbol.as_bytes()) }
                .map_err(|_| BackendError::Failed(format!("the object has no function `{symbol}`")))?;
            Ok((symbol.clone(), *entry))
        };
        let entries = symbols.iter().map(entry).collect::<Result<_, BackendError>>()?;
        Ok(Self::Launcher { entries, _library: library })
    }

    /// A kernel of device code.
    pub(super) fn function(&self, name: &str) -> Result<Function, BackendError> {
        let Self::Device(functions) = self else { return Err(missing(name)) };
        functions.iter().find(|(known, _)| known == name).map(|(_, found)| *found).ok_or_else(|| missing(name))
    }

    /// The entry, where this is a launcher.
    pub(super) fn entry(&self, name: &str) -> Option<Result<Entry, BackendError>> {
        let Self::Launcher { entries, .. } = self else { return None };
        let found = entries.iter().find(|(known, _)| known == name).map(|(_, found)| *found);
        Some(found.ok_or_else(|| missing(name)))
    }
}

fn missing(name: &str) -> BackendError {
    BackendError::Failed(format!("`{name}` was not loaded"))
}
