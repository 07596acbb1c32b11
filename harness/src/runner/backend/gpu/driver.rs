//! What the backend asks of a GPU's driver: CUDA's and HIP's are each a file beside this one, and nothing else knows which
//! of them it talks to. Every call is checked, and an error names the call that it came from.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};

use kopt_schema::manifest;
use kopt_schema::plan::{Launch, TensorMap};

use super::super::BackendError;

/// A context, where a driver has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context(pub *mut c_void);

/// A queue of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream(pub *mut c_void);

/// A moment on a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event(pub *mut c_void);

/// A loaded object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module(pub *mut c_void);

/// A kernel of a loaded object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(pub *mut c_void);

/// Pages of the device, before they are mapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle(pub u64);

/// Work that was recorded instead of queued.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Graph(pub *mut c_void);

/// Recorded work, ready to be queued.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replay(pub *mut c_void);

/// A piece of recorded work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A kernel, or something else that the device does by itself.
    OnDevice,
    /// Something that is done or waited for elsewhere.
    Elsewhere(&'static str),
}

/// What a mapping allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// How a kernel is spread over the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub shared: u32,
}

impl From<&Launch> for Geometry {
    fn from(launch: &Launch) -> Self {
        Self { grid: launch.grid, block: launch.block, shared: launch.shared }
    }
}

/// A tensor map as a kernel takes it: a value that only the driver and the device read.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Encoded(pub [u64; 16]);

/// What an error of a driver means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    NoDevice,
    NoMemory,
    /// A kernel touched memory that it may not.
    IllegalAddress,
    /// A kernel did something else that a device stops for.
    Fault,
    /// There is nothing of that name.
    NotFound,
    Other,
}

/// A call that a driver refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub driver: &'static str,
    pub call: String,
    pub error: String,
    pub meaning: Meaning,
}

impl Refused {
    /// With what the call was about.
    pub(super) fn at(mut self, what: &str) -> Self {
        self.call = format!("{} ({what})", self.call);
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.driver, self.call, self.error)
    }
}

impl From<Refused> for BackendError {
    fn from(refused: Refused) -> Self {
        let text = refused.to_string();
        match refused.meaning {
            Meaning::NoDevice => Self::NoDevice(text),
            Meaning::NoMemory => Self::NoMemory(text),
            Meaning::IllegalAddress => {
                Self::Fault(format!("touched memory that it may not, or wrote to an input ({text})"))
            }
            Meaning::Fault => Self::Fault(text),
            Meaning::NotFound | Meaning::Other => Self::Failed(text),
        }
    }
}

/// What a call gives.
pub(crate) type Done<T> = Result<T, Refused>;

/// A driver that has been loaded. Unless a call says otherwise, a device's context is current for the thread
/// ([`Driver::make_current`]).
///
/// # Safety
/// Of the calls that are `unsafe`: handles are this driver's own and not given back yet, and ranges of the device are
/// allocated, as long as is said, and not in use by work that would conflict.
pub(crate) trait Driver: fmt::Debug + Send + Sync {
    /// What a kernel is compiled into, in words.
    fn object(&self) -> &'static str;

    /// The judge's kernels, as [`Driver::module`] takes them for the device whose context is current.
    fn table(&self) -> Result<Vec<u8>, BackendError>;

    /// The kernel that shows what the matrix units of a device can do (`matrix.cu`), as [`Driver::module`] takes it. None
    /// where it is not known which of their instructions is the fastest: a slower one would call honest kernels impossible.
    fn matrix(&self, _device: i32) -> Result<Option<Vec<u8>>, BackendError> {
        Ok(None)
    }

    /// Comes first. Needs no context.
    fn init(&self) -> Done<()>;

    /// How many devices there are. Needs no context.
    fn count(&self) -> Done<i32>;

    /// A device by its number. Needs no context.
    fn device(&self, ordinal: i32) -> Done<i32>;

    /// A device's context, for the life of this process. Needs none.
    fn context(&self, device: i32) -> Done<Context>;

    /// Makes the context of a device current for this thread.
    unsafe fn make_current(&self, device: i32, context: Context) -> Done<()>;

    /// Whose devices these are.
    fn backend(&self) -> manifest::Backend;

    /// The name of a device.
    fn name(&self, device: i32) -> Done<String>;

    /// Where on the bus a device is, for those who can look up more by it.
    fn place(&self, _device: i32) -> Option<String> {
        None
    }

    /// Bytes of the largest cache between the device's memory and its kernels.
    fn cache(&self, device: i32) -> Done<usize>;

    /// Lets no line of the cache persist, where a device has such lines.
    fn forbid_persisting(&self);

    /// Forgets lines that persist, where a device has such.
    fn reset_persisting(&self);

    /// A new stream, which waits for no other.
    fn stream(&self) -> Done<Stream>;

    /// Waits for everything that was queued.
    unsafe fn synchronize(&self, stream: Stream) -> Done<()>;

    /// Waits for everything that this process has on the device, on whatever stream.
    unsafe fn settle(&self, stream: Stream) -> Done<()> {
        // SAFETY: as the caller's.
        unsafe { self.synchronize(stream) }
    }

    /// A new event, with timing.
    fn event(&self) -> Done<Event>;

    /// Queues an event.
    unsafe fn record(&self, event: Event, stream: Stream) -> Done<()>;

    /// Milliseconds between two events that have been waited for.
    unsafe fn elapsed(&self, start: Event, end: Event) -> Done<f32>;

    /// Loads an object, which is whole, and of which the driver copies what it needs.
    unsafe fn module(&self, image: *const c_void) -> Done<Module>;

    /// A kernel of an object.
    unsafe fn function(&self, module: Module, name: CString) -> Done<Function>;

    /// Lets a kernel have this much dynamic shared memory at least: what another shape was allowed stays so.
    unsafe fn allow_shared(&self, function: Function, bytes: u32) -> Done<()>;

    /// Lets a kernel have clusters of any size that the device knows, not only those of eight blocks that every one does.
    unsafe fn allow_clusters(&self, _function: Function) {}

    /// Queues a kernel. The parameters are the kernel's, and copied before this returns.
    unsafe fn launch(
        &self,
        function: Function,
        geometry: &Geometry,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Done<()>;

    /// Queues a kernel as a launch plan says, which may ask for clusters of blocks, or for all blocks at once.
    unsafe fn launch_planned(
        &self,
        function: Function,
        launch: &Launch,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Done<()>;

    /// How many blocks of a launch the device holds at once, where that can be told beforehand. What shared memory it takes
    /// has been allowed.
    unsafe fn resident(&self, _device: i32, _function: Function, _launch: &Launch) -> Done<Option<u64>> {
        Ok(None)
    }

    /// A tensor map of what begins at an address. Only makes a value: it is a kernel that goes there.
    fn tensor_map(&self, map: &TensorMap, address: u64) -> Done<Encoded>;

    /// Records what is queued on a stream from here on, and runs nothing of it.
    unsafe fn begin_recording(&self, stream: Stream) -> Done<()>;

    /// What was recorded since. Refused where work went to a stream that this one does not wait for in the end.
    unsafe fn end_recording(&self, stream: Stream) -> Done<Graph>;

    /// The pieces of recorded work.
    unsafe fn pieces(&self, graph: Graph) -> Done<Vec<Piece>>;

    /// Makes recorded work ready to be queued, as often as one likes, and gives the recording back.
    unsafe fn replay(&self, graph: Graph) -> Done<Replay>;

    /// Queues recorded work.
    unsafe fn queue(&self, replay: Replay, stream: Stream) -> Done<()>;

    /// Memory that no other process can reach.
    fn alloc(&self, len: usize) -> Done<u64>;

    /// Gives such memory back.
    unsafe fn free(&self, address: u64) -> Done<()>;

    /// Queues the writing of a byte.
    unsafe fn set(&self, to: u64, value: u8, len: usize, stream: Stream) -> Done<()>;

    /// Queues a copy within the device.
    unsafe fn copy(&self, to: u64, from: u64, len: usize, stream: Stream) -> Done<()>;

    /// Queues a copy to the device; the bytes stay until it was waited for.
    unsafe fn upload(&self, to: u64, bytes: &[u8], stream: Stream) -> Done<()>;

    /// Queues a copy from the device; the bytes stay until it was waited for.
    unsafe fn download(&self, from: u64, bytes: &mut [u8], stream: Stream) -> Done<()>;

    /// What the length of pages must be a multiple of.
    fn granularity(&self, device: i32) -> Done<usize>;

    /// Makes pages that can be exported; the length is a multiple of the granularity.
    fn create(&self, device: i32, len: usize) -> Done<Handle>;

    /// A descriptor of pages, for another process.
    unsafe fn export(&self, handle: Handle) -> Done<OwnedFd>;

    /// Pages that another process has exported.
    fn import(&self, descriptor: BorrowedFd<'_>) -> Done<Handle>;

    /// Gives the handle back; mappings and exported descriptors keep the memory.
    unsafe fn release(&self, handle: Handle) -> Done<()>;

    /// A range of addresses.
    fn reserve(&self, len: usize) -> Done<u64>;

    /// Gives a range of addresses back.
    unsafe fn unreserve(&self, address: u64, len: usize) -> Done<()>;

    /// Maps pages into a range of addresses.
    unsafe fn map(&self, address: u64, len: usize, handle: Handle) -> Done<()>;

    /// Says what kernels of a device may do with mapped pages.
    unsafe fn allow(&self, device: i32, address: u64, len: usize, access: Access) -> Done<()>;

    /// Undoes a mapping.
    unsafe fn unmap(&self, address: u64, len: usize) -> Done<()>;
}

/// A name that a driver wrote.
pub(super) fn text(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
