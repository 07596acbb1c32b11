//! `libamdhip64`, found and loaded at run time, and its functions as its headers declare them (HIP 6.0 and later).
//!
//! Structs and numbers were compared with the headers; no call has been made to an AMD device.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};

use camino::{Utf8Path, Utf8PathBuf};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::super::super::BackendError;
use crate::runner::environment;

/// Releases whose libraries are looked for by name, the newest first.
const RELEASES: [&str; 4] = [".7", ".6", ".5", ""];

/// Where AMD's packages put libraries.
const USUAL: &str = "/opt/rocm/lib";

/// `hipMemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Location {
    pub kind: c_int,
    pub id: c_int,
}

/// `hipMemAllocationProp`. That of HIP 5.2 and before has another order.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Property {
    pub kind: c_int,
    pub handle: c_int,
    pub location: Location,
    pub windows: *mut c_void,
    pub compression: c_uchar,
    pub remote: c_uchar,
    pub usage: u16,
}

/// `hipMemAccessDesc`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Rights {
    pub location: Location,
    pub flags: c_int,
}

/// Functions that answer with an error's number, and a table of them as a library has them.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($name:ident($($argument:ty),*),)* }) => {
        $(#[$about])*
        #[allow(non_snake_case, reason = "the library's names")]
        #[derive(Debug)]
        pub(super) struct $table { $(pub $name: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl $table {
            #[cfg(test)]
            pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Finds every function; the name of the first that is not there.
            pub(super) fn of(library: &Library) -> Result<Self, &'static str> {
                // SAFETY: the signatures are those of the library's headers, and it is never unloaded.
                unsafe { Ok(Self { $($name: symbol(library, stringify!($name))?,)* }) }
            }
        }
    };
}
pub(super) use functions;

functions! {
    /// The functions of the runtime that are used here.
    Functions {
        hipInit(c_uint),
        hipRuntimeGetVersion(*mut c_int),
        hipGetDeviceCount(*mut c_int),
        hipDeviceGet(*mut c_int, c_int),
        hipSetDevice(c_int),
        hipDeviceGetName(*mut c_char, c_int, c_int),
        hipDeviceGetAttribute(*mut c_int, c_int, c_int),
        hipStreamCreateWithFlags(*mut *mut c_void, c_uint),
        hipStreamSynchronize(*mut c_void),
        hipEventCreateWithFlags(*mut *mut c_void, c_uint),
        hipEventRecord(*mut c_void, *mut c_void),
        hipEventElapsedTime(*mut f32, *mut c_void, *mut c_void),
        hipModuleLoadData(*mut *mut c_void, *const c_void),
        hipModuleGetFunction(*mut *mut c_void, *mut c_void, *const c_char),
        hipModuleLaunchKernel(
            *mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void, *mut *mut c_void,
            *mut *mut c_void
        ),
        hipMalloc(*mut *mut c_void, usize),
        hipFree(*mut c_void),
        hipMemsetD8Async(*mut c_void, c_uchar, usize, *mut c_void),
        hipMemcpyDtoDAsync(*mut c_void, *mut c_void, usize, *mut c_void),
        hipMemcpyHtoDAsync(*mut c_void, *mut c_void, usize, *mut c_void),
        hipMemcpyDtoHAsync(*mut c_void, *mut c_void, usize, *mut c_void),
        hipMemGetAllocationGranularity(*mut usize, *const Property, c_int),
        hipMemCreate(*mut *mut c_void, usize, *const Property, c_ulonglong),
        hipMemExportToShareableHandle(*mut c_void, *mut c_void, c_int, c_ulonglong),
        hipMemImportFromShareableHandle(*mut *mut c_void, *mut c_void, c_int),
        hipMemRelease(*mut c_void),
        hipMemAddressReserve(*mut *mut c_void, usize, usize, *mut c_void, c_ulonglong),
        hipMemAddressFree(*mut c_void, usize),
        hipMemMap(*mut c_void, usize, usize, *mut c_void, c_ulonglong),
        hipMemSetAccess(*mut c_void, usize, *const Rights, usize),
        hipMemUnmap(*mut c_void, usize),
    }
}

/// `hipModuleLaunchCooperativeKernel`.
pub(super) type Cooperative = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// A function that names an error.
pub(super) type Words = unsafe extern "C" fn(c_int) -> *const c_char;

/// # Safety
/// The symbol is of this type, a pointer to a function.
pub(super) unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T, &'static str> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    let address = address(library, name)?;
    // SAFETY: the caller's promise, and both are of one size.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

/// Where a symbol is: the same code for all of them.
fn address(library: &Library, name: &'static str) -> Result<*mut c_void, &'static str> {
    // SAFETY: an address that nobody uses here.
    let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
    symbol.map(|symbol| *symbol).map_err(|_| name)
}

/// Loads a library of ROCm from the first place that has it: the folder that `ROCM_PATH` names, where the system looks for
/// libraries, and AMD's usual folder.
pub(super) fn find(name: &str) -> Result<Library, BackendError> {
    let folders = [environment::rocm().map(|home| home.join("lib")), None, Some(Utf8PathBuf::from(USUAL))];
    let named = |folder: &Option<Utf8PathBuf>, release: &str| {
        let file = format!("{name}.so{release}");
        folder.as_ref().map_or_else(|| Utf8PathBuf::from(&file), |folder| folder.join(&file))
    };
    let places = folders.iter().flat_map(|folder| RELEASES.map(|release| named(folder, release)));
    places.filter_map(|place| open(&place).ok()).next().ok_or_else(|| {
        let looked = "looked for in ROCM_PATH, among the system's libraries and in /opt/rocm/lib";
        BackendError::NoDevice(format!("the HIP runtime ({name}) is not installed; {looked}"))
    })
}

/// Loads a library.
pub(super) fn open(path: &Utf8Path) -> Result<Library, libloading::Error> {
    // SAFETY: a library of ROCm, from where the system or its user has put it; its constructors are the driver's own.
    unsafe { Library::open(Some(path.as_std_path()), RTLD_NOW | RTLD_LOCAL) }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn structs_are_as_the_headers_have_them() {
        assert_eq!((size_of::<Property>(), offset_of!(Property, location)), (32, 8));
        assert_eq!((offset_of!(Property, windows), offset_of!(Property, usage)), (16, 26));
        assert_eq!((size_of::<Rights>(), offset_of!(Rights, flags)), (12, 8));
    }

    #[test]
    fn a_library_that_is_not_there_is_no_device() {
        let error = find("libno_such_runtime").unwrap_err();
        assert!(matches!(&error, BackendError::NoDevice(why) if why.contains("libno_such_runtime")), "{error}");
    }
}
