//! HIP's run-time compiler, for the judge's kernels: code objects are of one architecture, and which the device has is known
//! there only. It has not compiled for a device yet.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use libloading::os::unix::Library;

use super::super::super::BackendError;
use super::library::{self, Words, functions, symbol};

/// The kernels, in the part of C++ that CUDA and HIP share.
pub(super) const SOURCE: &str = include_str!("../table.cu");

/// Products and sums each rounded, as on the host.
const OPTIONS: [&CStr; 1] = [c"-ffp-contract=off"];

functions! {
    /// The functions of the compiler that are used here.
    Functions {
        hiprtcCreateProgram(
            *mut *mut c_void, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
        ),
        hiprtcCompileProgram(*mut c_void, c_int, *const *const c_char),
        hiprtcGetProgramLogSize(*mut c_void, *mut usize),
        hiprtcGetProgramLog(*mut c_void, *mut c_char),
        hiprtcGetCodeSize(*mut c_void, *mut usize),
        hiprtcGetCode(*mut c_void, *mut c_char),
        hiprtcDestroyProgram(*mut *mut c_void),
    }
}

/// The compiler, of the runtime's library or of one beside it.
pub(super) struct Compiler {
    functions: Functions,
    words: Words,
    /// Where the functions are, if not in the runtime's.
    _library: Option<Library>,
}

impl Compiler {
    pub(super) fn new(runtime: &Library) -> Result<Self, BackendError> {
        let of = |library: &Library| -> Result<(Functions, Words), &'static str> {
            // SAFETY: its type is the header's, and the library stays loaded.
            Ok((Functions::of(library)?, unsafe { symbol(library, "hiprtcGetErrorString") }?))
        };
        if let Ok((functions, words)) = of(runtime) {
            return Ok(Self { functions, words, _library: None });
        }
        let library = library::find("libhiprtc")?;
        let lacks = |name| BackendError::Failed(format!("HIP's run-time compiler lacks {name}"));
        let (functions, words) = of(&library).map_err(lacks)?;
        Ok(Self { functions, words, _library: Some(library) })
    }

    /// A code object of [`SOURCE`], for the device that is current.
    pub(super) fn compile(&self) -> Result<Vec<u8>, BackendError> {
        let source = CString::new(SOURCE).map_err(|error| BackendError::Failed(error.to_string()))?;
        let mut program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: both texts end with a zero byte and stay until the program is gone; there are no headers.
        let code = unsafe {
            (self.functions.hiprtcCreateProgram)(&mut program, source.as_ptr(), c"table.cu".as_ptr(), 0, none, none)
        };
        self.checked("hiprtcCreateProgram", code, String::new)?;
        let image = self.image(program);
        // SAFETY: the program is this frame's own, and not used again.
        let code = unsafe { (self.functions.hiprtcDestroyProgram)(&mut program) };
        let image = image?;
        self.checked("hiprtcDestroyProgram", code, String::new)?;
        Ok(image)
    }

    fn image(&self, program: *mut c_void) -> Result<Vec<u8>, BackendError> {
        let options = OPTIONS.map(CStr::as_ptr);
        // SAFETY: the program is the caller's own, and the options are texts that end with a zero byte.
        let code = unsafe { (self.functions.hiprtcCompileProgram)(program, 1, options.as_ptr()) };
        self.checked("hiprtcCompileProgram", code, || self.log(program))?;
        let mut len = 0;
        // SAFETY: one number is written to a variable of this frame.
        let code = unsafe { (self.functions.hiprtcGetCodeSize)(program, &mut len) };
        self.checked("hiprtcGetCodeSize", code, String::new)?;
        let mut image = vec![0u8; len];
        // SAFETY: the buffer is as long as the compiler said.
        let code = unsafe { (self.functions.hiprtcGetCode)(program, image.as_mut_ptr().cast()) };
        self.checked("hiprtcGetCode", code, String::new)?;
        Ok(image)
    }

    /// What the compiler said, as far as it can be had.
    fn log(&self, program: *mut c_void) -> String {
        let mut len = 0;
        // SAFETY: as above.
        if unsafe { (self.functions.hiprtcGetProgramLogSize)(program, &mut len) } != 0 {
            return String::new();
        }
        let mut log = vec![0u8; len];
        // SAFETY: as above.
        let code = unsafe { (self.functions.hiprtcGetProgramLog)(program, log.as_mut_ptr().cast()) };
        if code == 0 {
            format!("\n{}", String::from_utf8_lossy(&log).trim_end_matches('\0').trim_end())
        } else {
            String::new()
        }
    }

    fn checked(&self, call: &str, code: c_int, log: impl FnOnce() -> String) -> Result<(), BackendError> {
        if code == 0 {
            return Ok(());
        }
        let name = super::words(self.words, code);
        Err(BackendError::Failed(format!("the judge's kernels, HIP, {call}: {name}{}", log())))
    }
}
