//! HIP's runtime, through `libamdhip64`, which is loaded at run time. The order of calls is that of CUDA's driver, which has
//! the same ones by other names; what HIP lacks or does otherwise is said where it is.
//!
//! It has run against a stand-in for the library only (`harness/tests/hip`), never on an AMD device.

mod compiler;
mod library;
#[cfg(test)]
pub(crate) mod standin;
#[cfg(test)]
mod tests;

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::OnceLock;

use kopt_schema::manifest;
use kopt_schema::plan::{Launch, TensorMap};
use libloading::os::unix::Library;

use self::compiler::Compiler;
use self::library::{Cooperative, Functions, Location, Property, Rights, Words, symbol};
use super::super::BackendError;
use super::driver::{
    self, Access, Context, Done, Driver, Encoded, Event, Function, Geometry, Graph, Handle, Meaning, Module, Piece,
    Refused, Replay, Stream,
};

/// Numbers of the headers.
const STREAM_NON_BLOCKING: u32 = 1;
const EVENT_DEFAULT: u32 = 0;
const ATTRIBUTE_L2_CACHE_SIZE: c_int = 19;
const ALLOCATION_PINNED: c_int = 1;
const HANDLE_FILE_DESCRIPTOR: c_int = 1;
const LOCATION_DEVICE: c_int = 1;
const GRANULARITY_RECOMMENDED: c_int = 1;
const ACCESS_READ: c_int = 1;
const ACCESS_READ_WRITE: c_int = 3;
const NOT_SUPPORTED: c_int = 801;

/// Structs of earlier runtimes are laid out otherwise.
const OLDEST: c_int = 60_000_000;

/// Since this one a descriptor is imported by its value; before, by its address.
const BY_VALUE: c_int = 70_100_000;

/// The largest last-level cache of a device so far (MI300X: 256 MiB), which the runtime does not tell of.
const LAST_LEVEL: usize = 256 << 20;

/// Queues a kernel all of whose blocks are on the device at once.
const COOPERATIVE: &str = "hipModuleLaunchCooperativeKernel";

/// HIP's runtime.
#[derive(Debug)]
pub(crate) struct Hip {
    functions: Functions,
    /// Not every runtime that is new enough for the rest has it.
    cooperative: Option<Cooperative>,
    name: Words,
    words: Words,
    library: Library,
    /// As the runtime tells it: 70100000 is 7.1.
    version: OnceLock<c_int>,
}

/// The runtime that is installed; loaded once.
pub(crate) fn load() -> Result<&'static dyn Driver, BackendError> {
    static RUNTIME: OnceLock<Hip> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Hip::of(library::find("libamdhip64")?)?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// A call of the runtime by its name, checked.
macro_rules! call {
    ($self:ident.$name:ident($($argument:expr),* $(,)?)) => {
        $self.checked(stringify!($name), ($self.functions.$name)($($argument),*))
    };
}

impl Hip {
    fn of(library: Library) -> Result<Self, BackendError> {
        let lacks = |name| BackendError::NoDevice(format!("the HIP runtime here is too old: it lacks {name}"));
        let functions = Functions::of(&library).map_err(lacks)?;
        // SAFETY: their types are the header's, and the library stays loaded.
        let (name, words) = unsafe { (symbol(&library, "hipGetErrorName"), symbol(&library, "hipGetErrorString")) };
        let (name, words) = (name.map_err(lacks)?, words.map_err(lacks)?);
        // SAFETY: as above.
        let cooperative = unsafe { symbol(&library, COOPERATIVE) }.ok();
        Ok(Self { functions, cooperative, name, words, library, version: OnceLock::new() })
    }

    fn checked(&self, call: &str, code: c_int) -> Done<()> {
        if code == 0 {
            return Ok(());
        }
        let meaning = match code {
            2 => Meaning::NoMemory,
            // No device, and an invalid one.
            100 | 101 => Meaning::NoDevice,
            700 => Meaning::IllegalAddress,
            // A launch that took too long, an assertion, and a launch that failed.
            702 | 710 | 719 => Meaning::Fault,
            500 => Meaning::NotFound,
            _ => Meaning::Other,
        };
        let error = format!("{} ({})", words(self.name, code), words(self.words, code));
        Err(Refused { driver: "HIP", call: call.to_owned(), error, meaning })
    }
}

/// What a library calls an error.
fn words(of: Words, code: c_int) -> String {
    // SAFETY: takes any number.
    let text = unsafe { of(code) };
    if text.is_null() {
        return format!("error {code}");
    }
    // SAFETY: a text of the library, which ends with a zero byte and stays.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn property(device: i32) -> Property {
    Property {
        kind: ALLOCATION_PINNED,
        handle: HANDLE_FILE_DESCRIPTOR,
        location: Location { kind: LOCATION_DEVICE, id: device },
        windows: std::ptr::null_mut(),
        compression: 0,
        remote: 0,
        usage: 0,
    }
}

fn pointer(address: u64) -> *mut c_void {
    address as usize as *mut c_void
}

impl Driver for Hip {
    fn backend(&self) -> manifest::Backend {
        manifest::Backend::Hip
    }

    fn object(&self) -> &'static str {
        "code object"
    }

    fn table(&self) -> Result<Vec<u8>, BackendError> {
        Compiler::new(&self.library)?.compile()
    }

    fn init(&self) -> Done<()> {
        // SAFETY: takes no flags yet.
        unsafe { call!(self.hipInit(0)) }?;
        let mut version = 0;
        // SAFETY: one number is written to a variable of this frame.
        unsafe { call!(self.hipRuntimeGetVersion(&mut version)) }?;
        if version < OLDEST {
            let error = format!("{version}, and 6.0 ({OLDEST}) or later is needed");
            let call = "hipRuntimeGetVersion".to_owned();
            return Err(Refused { driver: "HIP", call, error, meaning: Meaning::NoDevice });
        }
        let _ = self.version.set(version);
        Ok(())
    }

    fn count(&self) -> Done<i32> {
        let mut count = 0;
        // SAFETY: one number is written to a variable of this frame.
        unsafe { call!(self.hipGetDeviceCount(&mut count)) }?;
        Ok(count)
    }

    fn device(&self, ordinal: i32) -> Done<i32> {
        let mut device = 0;
        // SAFETY: as above.
        unsafe { call!(self.hipDeviceGet(&mut device, ordinal)) }?;
        Ok(device)
    }

    /// A device has one context, which needs no handle.
    fn context(&self, _device: i32) -> Done<Context> {
        Ok(Context(std::ptr::null_mut()))
    }

    unsafe fn make_current(&self, device: i32, _context: Context) -> Done<()> {
        // SAFETY: takes any number, and refuses what is no device.
        unsafe { call!(self.hipSetDevice(device)) }
    }

    fn name(&self, device: i32) -> Done<String> {
        let mut name = [0u8; 256];
        // SAFETY: the buffer is as long as is said.
        unsafe { call!(self.hipDeviceGetName(name.as_mut_ptr().cast(), 256, device)) }?;
        Ok(driver::text(&name))
    }

    fn cache(&self, device: i32) -> Done<usize> {
        let mut bytes = 0;
        // SAFETY: one number is written to a variable of this frame.
        unsafe { call!(self.hipDeviceGetAttribute(&mut bytes, ATTRIBUTE_L2_CACHE_SIZE, device)) }?;
        Ok(usize::try_from(bytes).unwrap_or(0).max(LAST_LEVEL))
    }

    /// No line persists on these devices.
    fn forbid_persisting(&self) {}

    /// As above.
    fn reset_persisting(&self) {}

    fn stream(&self) -> Done<Stream> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: one handle is written to a variable of this frame.
        unsafe { call!(self.hipStreamCreateWithFlags(&mut stream, STREAM_NON_BLOCKING)) }?;
        Ok(Stream(stream))
    }

    unsafe fn synchronize(&self, stream: Stream) -> Done<()> {
        // SAFETY: the caller's stream is one of `stream`.
        unsafe { call!(self.hipStreamSynchronize(stream.0)) }
    }

    fn event(&self) -> Done<Event> {
        let mut event = std::ptr::null_mut();
        // SAFETY: one handle is written to a variable of this frame.
        unsafe { call!(self.hipEventCreateWithFlags(&mut event, EVENT_DEFAULT)) }?;
        Ok(Event(event))
    }

    unsafe fn record(&self, event: Event, stream: Stream) -> Done<()> {
        // SAFETY: event and stream are the caller's own.
        unsafe { call!(self.hipEventRecord(event.0, stream.0)) }
    }

    unsafe fn elapsed(&self, start: Event, end: Event) -> Done<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: both events have been recorded and waited for.
        unsafe { call!(self.hipEventElapsedTime(&mut milliseconds, start.0, end.0)) }?;
        Ok(milliseconds)
    }

    unsafe fn module(&self, image: *const c_void) -> Done<Module> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the caller's image is whole.
        unsafe { call!(self.hipModuleLoadData(&mut module, image)) }?;
        Ok(Module(module))
    }

    unsafe fn function(&self, module: Module, name: CString) -> Done<Function> {
        let mut function = std::ptr::null_mut();
        // SAFETY: the caller's module is loaded, and the name ends with a zero byte.
        unsafe { call!(self.hipModuleGetFunction(&mut function, module.0, name.as_ptr())) }?;
        Ok(Function(function))
    }

    /// Shared memory need not be asked for: a launch that wants more than there is is refused.
    unsafe fn allow_shared(&self, _function: Function, _bytes: u32) -> Done<()> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        function: Function,
        geometry: &Geometry,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Done<()> {
        let Geometry { grid: [gx, gy, gz], block: [bx, by, bz], shared } = *geometry;
        let (parameters, extra) = (parameters.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the function is of a loaded module, and the parameters are its own; the runtime copies them before it
        // returns.
        unsafe {
            call!(self.hipModuleLaunchKernel(function.0, gx, gy, gz, bx, by, bz, shared, stream.0, parameters, extra))
        }
    }

    /// These devices have no clusters of blocks.
    unsafe fn launch_planned(
        &self,
        function: Function,
        launch: &Launch,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Done<()> {
        if launch.cluster.is_some() {
            return self.checked("hipModuleLaunchKernel", NOT_SUPPORTED).map_err(|refused| refused.at("clusters"));
        }
        let geometry = Geometry::from(launch);
        if !launch.cooperative {
            // SAFETY: the caller's promise.
            return unsafe { self.launch(function, &geometry, stream, parameters) };
        }
        let Some(cooperative) = self.cooperative else {
            return self.checked(COOPERATIVE, NOT_SUPPORTED).map_err(|refused| refused.at("not in this runtime"));
        };
        let Geometry { grid: [gx, gy, gz], block: [bx, by, bz], shared } = geometry;
        // SAFETY: as for `launch`.
        let code =
            unsafe { cooperative(function.0, gx, gy, gz, bx, by, bz, shared, stream.0, parameters.as_mut_ptr()) };
        self.checked(COOPERATIVE, code)
    }

    /// These devices have none.
    fn tensor_map(&self, map: &TensorMap, _address: u64) -> Done<Encoded> {
        let refused = self.checked("hipModuleLaunchKernel", NOT_SUPPORTED).map(|()| Encoded([0; 16]));
        refused.map_err(|refused| refused.at(&format!("tensor map `{}`", map.name)))
    }

    unsafe fn begin_recording(&self, _stream: Stream) -> Done<()> {
        self.checked("hipStreamBeginCapture", NOT_SUPPORTED).map_err(|refused| refused.at("launchers"))
    }

    unsafe fn end_recording(&self, _stream: Stream) -> Done<Graph> {
        self.checked("hipStreamEndCapture", NOT_SUPPORTED).map(|()| Graph(std::ptr::null_mut()))
    }

    unsafe fn pieces(&self, _graph: Graph) -> Done<Vec<Piece>> {
        self.checked("hipGraphGetNodes", NOT_SUPPORTED).map(|()| Vec::new())
    }

    unsafe fn replay(&self, _graph: Graph) -> Done<Replay> {
        self.checked("hipGraphInstantiate", NOT_SUPPORTED).map(|()| Replay(std::ptr::null_mut()))
    }

    unsafe fn queue(&self, _replay: Replay, _stream: Stream) -> Done<()> {
        self.checked("hipGraphLaunch", NOT_SUPPORTED)
    }

    fn alloc(&self, len: usize) -> Done<u64> {
        let mut address = std::ptr::null_mut();
        // SAFETY: one address is written to a variable of this frame.
        unsafe { call!(self.hipMalloc(&mut address, len)) }?;
        Ok(address as u64)
    }

    unsafe fn free(&self, address: u64) -> Done<()> {
        // SAFETY: the allocation is the caller's own, and what was queued on it has been waited for.
        unsafe { call!(self.hipFree(pointer(address))) }
    }

    unsafe fn set(&self, to: u64, value: u8, len: usize, stream: Stream) -> Done<()> {
        // SAFETY: the caller's allocation is this long.
        unsafe { call!(self.hipMemsetD8Async(pointer(to), value, len, stream.0)) }
    }

    unsafe fn copy(&self, to: u64, from: u64, len: usize, stream: Stream) -> Done<()> {
        // SAFETY: both of the caller's allocations are this long.
        unsafe { call!(self.hipMemcpyDtoDAsync(pointer(to), pointer(from), len, stream.0)) }
    }

    unsafe fn upload(&self, to: u64, bytes: &[u8], stream: Stream) -> Done<()> {
        // SAFETY: the caller's allocation is at least as long, and the bytes, which are only read, stay until the copy was
        // waited for.
        unsafe { call!(self.hipMemcpyHtoDAsync(pointer(to), bytes.as_ptr().cast_mut().cast(), bytes.len(), stream.0)) }
    }

    unsafe fn download(&self, from: u64, bytes: &mut [u8], stream: Stream) -> Done<()> {
        // SAFETY: as above, the other way round.
        unsafe { call!(self.hipMemcpyDtoHAsync(bytes.as_mut_ptr().cast(), pointer(from), bytes.len(), stream.0)) }
    }

    fn granularity(&self, device: i32) -> Done<usize> {
        let mut unit = 0;
        // SAFETY: one number is written to a variable of this frame.
        unsafe { call!(self.hipMemGetAllocationGranularity(&mut unit, &property(device), GRANULARITY_RECOMMENDED)) }?;
        Ok(unit)
    }

    fn create(&self, device: i32, len: usize) -> Done<Handle> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the length is a multiple of the granularity or the call refuses, and the description lives as long as
        // the call.
        unsafe { call!(self.hipMemCreate(&mut handle, len, &property(device), 0)) }?;
        Ok(Handle(handle as u64))
    }

    unsafe fn export(&self, handle: Handle) -> Done<OwnedFd> {
        let mut descriptor: c_int = -1;
        let place = std::ptr::from_mut(&mut descriptor).cast();
        // SAFETY: the handle was made to be exported as a descriptor, and a place for one number is passed.
        unsafe { call!(self.hipMemExportToShareableHandle(place, pointer(handle.0), HANDLE_FILE_DESCRIPTOR, 0)) }?;
        // SAFETY: the runtime opened it for this process, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    fn import(&self, descriptor: BorrowedFd<'_>) -> Done<Handle> {
        let mut number = descriptor.as_raw_fd();
        let given = match self.version.get() {
            Some(version) if *version < BY_VALUE => std::ptr::from_mut(&mut number).cast(),
            _ => pointer(u64::from(number.unsigned_abs())),
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the descriptor is open, and passed as this runtime takes it; the import keeps a reference of its own.
        unsafe { call!(self.hipMemImportFromShareableHandle(&mut handle, given, HANDLE_FILE_DESCRIPTOR)) }?;
        Ok(Handle(handle as u64))
    }

    unsafe fn release(&self, handle: Handle) -> Done<()> {
        // SAFETY: the handle is the caller's own, and not used again.
        unsafe { call!(self.hipMemRelease(pointer(handle.0))) }
    }

    fn reserve(&self, len: usize) -> Done<u64> {
        let mut address = std::ptr::null_mut();
        // SAFETY: asks for a fresh range of addresses.
        unsafe { call!(self.hipMemAddressReserve(&mut address, len, 0, std::ptr::null_mut(), 0)) }?;
        Ok(address as u64)
    }

    unsafe fn unreserve(&self, address: u64, len: usize) -> Done<()> {
        // SAFETY: the range is the caller's own, and nothing is mapped in it.
        unsafe { call!(self.hipMemAddressFree(pointer(address), len)) }
    }

    unsafe fn map(&self, address: u64, len: usize, handle: Handle) -> Done<()> {
        // SAFETY: the range was reserved for this, and the handle's allocation is this long or the call refuses.
        unsafe { call!(self.hipMemMap(pointer(address), len, 0, pointer(handle.0), 0)) }
    }

    unsafe fn allow(&self, device: i32, address: u64, len: usize, access: Access) -> Done<()> {
        let flags = match access {
            Access::Read => ACCESS_READ,
            Access::ReadWrite => ACCESS_READ_WRITE,
        };
        let rights = Rights { location: Location { kind: LOCATION_DEVICE, id: device }, flags };
        // SAFETY: the range is mapped whole, and one description is passed.
        unsafe { call!(self.hipMemSetAccess(pointer(address), len, &rights, 1)) }
    }

    unsafe fn unmap(&self, address: u64, len: usize) -> Done<()> {
        // SAFETY: the range was mapped for the caller, and all work on it has been waited for.
        unsafe { call!(self.hipMemUnmap(pointer(address), len)) }
    }
}
