//! What the process that judges says to the process that runs a kernel, and back: one JSON object a line, over pipes
//! that were opened before any candidate code was loaded. One request, one reply that repeats the request's random
//! number: an answer to a question that was not asked yet is none. Whatever else the worker prints is never read.

use serde::{Deserialize, Serialize};

use crate::manifest::{Backend, Class};
use crate::plan::{Fill, Launch, TensorMap};
use crate::sandbox::{Defence, Sandbox};

/// Version of this protocol.
pub const WIRE_VERSION: u32 = 6;

/// In place of a signal: a call went deeper than its stack.
pub const TOO_DEEP: i32 = 0;

/// In place of a signal: a call wrote to memory of the process that is not its own.
pub const NOT_ITS_OWN: i32 = -1;

/// Descriptor on which a worker answers. Requests come on standard input.
pub const REPLY_FD: i32 = 3;

/// First descriptor of shared memory; each arena brings two, its inputs and its outputs.
pub const FIRST_MEMORY_FD: i32 = 4;

/// A request or a reply with the number of its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn<T> {
    /// Random, and the same in request and reply. Zero in the last words of a process that faults.
    pub turn: u64,
    /// What is said.
    pub says: T,
}

/// To the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Take the device and load the candidate's object.
    Load {
        /// Version of the protocol.
        version: u32,
        /// Which backend.
        backend: Backend,
        /// How much of the candidate runs on the host.
        class: Class,
        /// The object's file.
        object: String,
        /// Functions that must be in it.
        symbols: Vec<String>,
        /// Defences to do without, for tests.
        without: Vec<Defence>,
    },
    /// Map an arena and get its entries ready to call.
    Attach(Arena),
    /// Call an entry once.
    Call {
        /// Number of the arena, in the order attached.
        arena: usize,
        /// Index into its entries.
        entry: usize,
        /// Which window of the buffers.
        window: usize,
    },
    /// Time calls.
    Time {
        /// Number of the arena.
        arena: usize,
        /// Entries that make up one call, in order.
        entries: Vec<usize>,
        /// Windows to go through in turn.
        windows: Vec<usize>,
        /// Whether each call's data is flushed from the caches before it.
        cold: bool,
        /// How many calls.
        calls: u64,
        /// Whether the thread's processor time is counted, where the device is the processor, and not the wall's: what
        /// others do to the machine is then left out.
        processor: bool,
        /// A share of each call's time that is waited after it, inside the timed region: a known slowdown.
        handicap: f64,
    },
    /// Ask a function for a number of bytes: how much memory a preparation takes.
    Size {
        /// The function.
        symbol: String,
        /// Its args struct, with null pointers.
        args: Vec<u8>,
    },
    /// Measure what the device can do at most, in a process that has loaded nothing.
    Ceilings {
        /// Which backend.
        backend: Backend,
    },
}

/// Memory of one case, and the calls on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arena {
    /// Whether the two files are allocations on the device, which the judge reads and writes there; else the device, if it
    /// has a memory of its own, gets a copy.
    pub on_device: bool,
    /// Length of the file with the inputs, mapped read-only.
    pub input_len: usize,
    /// Length of the file with the outputs.
    pub output_len: usize,
    /// Ranges (start, length) of the input file that no access may touch.
    pub input_fences: Vec<(usize, usize)>,
    /// Ranges of the output file that no access may touch.
    pub output_fences: Vec<(usize, usize)>,
    /// The buffers.
    pub buffers: Vec<Placed>,
    /// The entries.
    pub entries: Vec<EntryCall>,
}

/// A buffer's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// Whether it is in the file of outputs.
    pub written: bool,
    /// Its size.
    pub bytes: usize,
    /// Where each window of it starts.
    pub offsets: Vec<usize>,
}

/// An entry, ready to call but for the addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryCall {
    /// The symbol.
    pub symbol: String,
    /// The args struct with null pointers.
    pub args: Vec<u8>,
    /// Fields: where each stands in the struct.
    pub fields: Vec<ArgField>,
    /// The buffer that the function gets as its second argument (`prepare`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<usize>,
    /// Launches of one call (class `device`).
    pub launches: Vec<Launch>,
    /// Scratch buffers of one call (class `device`).
    pub workspace: Vec<Scratch>,
    /// Tensor maps that its launches take (class `device`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensor_maps: Vec<TensorMap>,
}

/// A field of the args struct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgField {
    /// Its name.
    pub name: String,
    /// Its offset in the struct.
    pub offset: usize,
    /// Its size.
    pub size: usize,
    /// For a pointer: the index of its buffer in the arena.
    pub buffer: Option<usize>,
}

/// A scratch buffer of a launch plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scratch {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: usize,
    /// What it holds before each call.
    pub fill: Fill,
}

/// Why a request could not be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blame {
    /// The harness or the machine.
    Setup,
    /// There is no such device here.
    NoDevice,
    /// The device has no memory left.
    NoMemory,
    /// The kernel: it faulted on the device.
    Kernel,
    /// The kernel: an entry returned an error.
    Returned,
    /// The kernel: it returned with the processor in another state than a function may leave it in.
    CallingConvention,
}

/// From the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The object is loaded.
    Loaded {
        /// The device's name.
        device: String,
        /// What confines the process.
        sandbox: Sandbox,
    },
    /// The arena is mapped at these addresses (zero where the device has its own memory).
    Attached {
        /// Of the inputs.
        inputs: u64,
        /// Of the outputs.
        outputs: u64,
    },
    /// The entry returned.
    Called {
        /// What it returned; 0 is success.
        status: i32,
    },
    /// The calls were timed.
    Timed {
        /// Seconds in all.
        seconds: f64,
    },
    /// The function's answer.
    Size {
        /// Bytes; negative where it refuses.
        bytes: i64,
    },
    /// The device's ceilings.
    Ceilings {
        /// The device's name.
        device: String,
        /// Bytes read and written a second by a copy.
        copy_bytes_per_s: f64,
        /// Bytes read a second, where it is measured.
        read_bytes_per_s: Option<f64>,
        /// Bytes written a second, where it is measured.
        write_bytes_per_s: Option<f64>,
        /// Fused multiply-adds at f32, or of the matrix units, two flops each.
        fma_flops_per_s: Option<f64>,
    },
    /// The request could not be carried out.
    Failed {
        /// Why.
        message: String,
        /// Whose fault it is.
        blame: Blame,
    },
    /// The last words of a process that faults.
    Fault {
        /// The signal's number; [`TOO_DEEP`] when a call went deeper than its stack, [`NOT_ITS_OWN`] when it wrote to memory
        /// that it was not given.
        signal: i32,
        /// The address it touched.
        address: u64,
    },
    /// The last words of a process that made a system call it may not make.
    Forbidden {
        /// The call's number.
        call: i32,
    },
}
