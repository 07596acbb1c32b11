//! CUDA's driver, through cudarc, which loads it at run time.

mod error;
mod graph;
mod tensor_map;

use std::ffi::{CString, c_void};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUmemAllocationHandleType_enum as HandleType};
use kopt_schema::manifest;
use kopt_schema::plan::{Launch, TensorMap};

use self::error::Named as _;
use super::super::BackendError;
use super::driver::{
    self, Access, Context, Done, Driver, Encoded, Event, Function, Geometry, Graph, Handle, Module, Piece, Replay,
    Stream,
};

/// The judge's kernels, for any NVIDIA GPU: the driver compiles them when they are loaded.
pub(super) const PTX: &str = include_str!("table.ptx");

/// What shows the matrix units of compute capability 9.0 at their fastest, and runs on no other.
pub(super) const MATRIX: &str = include_str!("matrix.ptx");

/// A text as the driver takes it.
fn text(ptx: &str) -> Result<Vec<u8>, BackendError> {
    let text = CString::new(ptx).map_err(|error| BackendError::Failed(error.to_string()))?;
    Ok(text.into_bytes_with_nul())
}

/// CUDA's driver.
#[derive(Debug)]
pub(crate) struct Cuda;

impl Cuda {
    /// The driver, if it is installed.
    pub(crate) fn load() -> Result<&'static dyn Driver, BackendError> {
        // SAFETY: only looks whether the library can be loaded. cudarc panics later if it cannot.
        if !unsafe { sys::is_culib_present() } {
            return Err(BackendError::NoDevice("the CUDA driver (libcuda) is not installed".to_owned()));
        }
        Ok(&Self)
    }
}

impl Driver for Cuda {
    fn object(&self) -> &'static str {
        "cubin"
    }

    fn table(&self) -> Result<Vec<u8>, BackendError> {
        text(PTX)
    }

    fn matrix(&self, device: i32) -> Result<Option<Vec<u8>>, BackendError> {
        let attribute = |attribute| {
            // SAFETY: the device is valid.
            unsafe { result::device::get_attribute(device, attribute) }.of("cuDeviceGetAttribute")
        };
        let major = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        match (major, minor) {
            (9, 0) => text(MATRIX).map(Some),
            _ => Ok(None),
        }
    }

    fn init(&self) -> Done<()> {
        result::init().of("cuInit")
    }

    fn count(&self) -> Done<i32> {
        result::device::get_count().of("cuDeviceGetCount")
    }

    fn device(&self, ordinal: i32) -> Done<i32> {
        result::device::get(ordinal).of("cuDeviceGet")
    }

    fn context(&self, device: i32) -> Done<Context> {
        // SAFETY: the device is valid; the context is retained for the life of this process.
        let context = unsafe { result::primary_ctx::retain(device) }.of("cuDevicePrimaryCtxRetain")?;
        Ok(Context(context.cast()))
    }

    unsafe fn make_current(&self, _device: i32, context: Context) -> Done<()> {
        // SAFETY: the caller's context is one of `context`.
        unsafe { result::ctx::set_current(context.0.cast()) }.of("cuCtxSetCurrent")
    }

    fn name(&self, device: i32) -> Done<String> {
        result::device::get_name(device).of("cuDeviceGetName")
    }

    fn backend(&self) -> manifest::Backend {
        manifest::Backend::Cuda
    }

    fn place(&self, device: i32) -> Option<String> {
        let mut bytes = [0u8; 32];
        // SAFETY: the device is valid, and as many bytes may be written as there are.
        let told = unsafe { sys::cuDeviceGetPCIBusId(bytes.as_mut_ptr().cast(), bytes.len() as i32, device) };
        (told == sys::CUresult::CUDA_SUCCESS).then(|| driver::text(&bytes))
    }

    fn cache(&self, device: i32) -> Done<usize> {
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        // SAFETY: the device is valid.
        let value = unsafe { result::device::get_attribute(device, attribute) }.of("cuDeviceGetAttribute")?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    fn forbid_persisting(&self) {
        // SAFETY: the context is current. A device without the feature refuses, rightly.
        let _ = unsafe { sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0) };
    }

    fn reset_persisting(&self) {
        // SAFETY: the context is current. A device without persisting lines refuses to reset them, rightly.
        let _ = unsafe { sys::cuCtxResetPersistingL2Cache() };
    }

    fn stream(&self) -> Done<Stream> {
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).of("cuStreamCreate")?;
        Ok(Stream(stream.cast()))
    }

    unsafe fn synchronize(&self, stream: Stream) -> Done<()> {
        // SAFETY: the caller's stream is one of `stream`.
        unsafe { result::stream::synchronize(stream.0.cast()) }.of("cuStreamSynchronize")
    }

    unsafe fn settle(&self, _stream: Stream) -> Done<()> {
        // SAFETY: the context is current, as for every call here.
        unsafe { sys::cuCtxSynchronize() }.of("cuCtxSynchronize")
    }

    fn event(&self) -> Done<Event> {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).of("cuEventCreate")?;
        Ok(Event(event.cast()))
    }

    unsafe fn record(&self, event: Event, stream: Stream) -> Done<()> {
        // SAFETY: event and stream are the caller's own.
        unsafe { result::event::record(event.0.cast(), stream.0.cast()) }.of("cuEventRecord")
    }

    unsafe fn elapsed(&self, start: Event, end: Event) -> Done<f32> {
        // SAFETY: both events were created with timing and have been recorded and waited for.
        unsafe { result::event::elapsed(start.0.cast(), end.0.cast()) }.of("cuEventElapsedTime")
    }

    unsafe fn module(&self, image: *const c_void) -> Done<Module> {
        // SAFETY: the caller's image is whole.
        let module = unsafe { result::module::load_data(image) }.of("cuModuleLoadData")?;
        Ok(Module(module.cast()))
    }

    unsafe fn function(&self, module: Module, name: CString) -> Done<Function> {
        // SAFETY: the caller's module is loaded.
        let function = unsafe { result::module::get_function(module.0.cast(), name) }.of("cuModuleGetFunction")?;
        Ok(Function(function.cast()))
    }

    unsafe fn allow_shared(&self, function: Function, bytes: u32) -> Done<()> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the caller's function belongs to a loaded module.
        let allowed = unsafe { result::function::get_function_attribute(function.0.cast(), attribute) };
        if allowed.of("cuFuncGetAttribute")? >= bytes {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { result::function::set_function_attribute(function.0.cast(), attribute, bytes) }
            .of("cuFuncSetAttribute")
    }

    unsafe fn allow_clusters(&self, function: Function) {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: the caller's function belongs to a loaded module. A device without clusters refuses, and a launch with one
        // then tells.
        let _ = unsafe { result::function::set_function_attribute(function.0.cast(), attribute, 1) };
    }

    unsafe fn launch(
        &self,
        function: Function,
        geometry: &Geometry,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Done<()> {
        let Geometry { grid, block, shared } = *geometry;
        // SAFETY: the function is of a loaded module, and the parameters are its own; the driver copies them before it
        // returns.
        unsafe {
            sys::cuLaunchKernel(
                function.0.cast(),
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared,
                stream.0.cast(),
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
        .of("cuLaunchKernel")
    }

    unsafe fn launch_planned(
        &self,
        function: Function,
        launch: &Launch,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Done<()> {
        let Geometry { grid, block, shared } = Geometry::from(launch);
        let unused = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_IGNORE,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { pad: [0; 64] },
        };
        let (mut attributes, mut count) = ([unused; 2], 0);
        if let Some([x, y, z]) = launch.cluster {
            attributes[count].id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attributes[count].value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            count += 1;
        }
        if launch.cooperative {
            attributes[count].id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            attributes[count].value.cooperative = 1;
            count += 1;
        }
        let config = sys::CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared,
            hStream: stream.0.cast(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: count as u32,
        };
        // SAFETY: as above; of the attributes, which live as long as the call, as many are there as is said.
        unsafe { sys::cuLaunchKernelEx(&config, function.0.cast(), parameters.as_mut_ptr(), std::ptr::null_mut()) }
            .of("cuLaunchKernelEx")
    }

    unsafe fn resident(&self, device: i32, function: Function, launch: &Launch) -> Done<Option<u64>> {
        // Clusters need their blocks side by side: of those the driver itself says whether there is room.
        if launch.cluster.is_some() {
            return Ok(None);
        }
        // At most 1024, as every plan is checked for.
        let threads = launch.block.iter().product::<u32>() as i32;
        let mut blocks = 0;
        // SAFETY: the caller's function is of a loaded module, and one number is written to a variable of this frame.
        unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function.0.cast(),
                threads,
                launch.shared as usize,
            )
        }
        .of("cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        // SAFETY: the device is valid.
        let processors = unsafe { result::device::get_attribute(device, attribute) }.of("cuDeviceGetAttribute")?;
        Ok(Some(u64::from(blocks.unsigned_abs()) * u64::from(processors.unsigned_abs())))
    }

    fn tensor_map(&self, map: &TensorMap, address: u64) -> Done<Encoded> {
        tensor_map::encode(map, address)
    }

    unsafe fn begin_recording(&self, stream: Stream) -> Done<()> {
        // Any thread's calls that would not be recorded are refused meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: the caller's stream is one of `stream`.
        unsafe { result::stream::begin_capture(stream.0.cast(), mode) }.of("cuStreamBeginCapture")
    }

    unsafe fn end_recording(&self, stream: Stream) -> Done<Graph> {
        // SAFETY: as above.
        let graph = unsafe { result::stream::end_capture(stream.0.cast()) }.of("cuStreamEndCapture")?;
        Ok(Graph(graph.cast()))
    }

    unsafe fn pieces(&self, graph: Graph) -> Done<Vec<Piece>> {
        let mut count = 0;
        // SAFETY: the graph is the caller's; without a place for nodes their number is told.
        unsafe { sys::cuGraphGetNodes(graph.0.cast(), std::ptr::null_mut(), &mut count) }.of("cuGraphGetNodes")?;
        let mut nodes: Vec<sys::CUgraphNode> = vec![std::ptr::null_mut(); count];
        if count > 0 {
            // SAFETY: there is a place for each.
            unsafe { sys::cuGraphGetNodes(graph.0.cast(), nodes.as_mut_ptr(), &mut count) }.of("cuGraphGetNodes")?;
        }
        nodes.into_iter().take(count).map(graph::piece).collect()
    }

    unsafe fn replay(&self, graph: Graph) -> Done<Replay> {
        // SAFETY: the graph is the caller's, and not used again.
        let replay = unsafe { result::graph::instantiate(graph.0.cast(), sys::CUgraphInstantiate_flags(0)) };
        // SAFETY: as above; what was made of it is its own.
        let _ = unsafe { sys::cuGraphDestroy(graph.0.cast()) };
        Ok(Replay(replay.of("cuGraphInstantiate")?.cast()))
    }

    unsafe fn queue(&self, replay: Replay, stream: Stream) -> Done<()> {
        // SAFETY: both are the caller's.
        unsafe { result::graph::launch(replay.0.cast(), stream.0.cast()) }.of("cuGraphLaunch")
    }

    fn alloc(&self, len: usize) -> Done<u64> {
        // SAFETY: a fresh allocation; what it holds is never read as anything but bytes of the device.
        unsafe { result::malloc_sync(len) }.of("cuMemAlloc")
    }

    unsafe fn free(&self, address: u64) -> Done<()> {
        // SAFETY: the allocation is the caller's own, and what was queued on it has been waited for.
        unsafe { result::free_sync(address) }.of("cuMemFree")
    }

    unsafe fn set(&self, to: u64, value: u8, len: usize, stream: Stream) -> Done<()> {
        // SAFETY: the caller's allocation is this long.
        unsafe { result::memset_d8_async(to, value, len, stream.0.cast()) }.of("cuMemsetD8Async")
    }

    unsafe fn copy(&self, to: u64, from: u64, len: usize, stream: Stream) -> Done<()> {
        // SAFETY: both of the caller's allocations are this long.
        unsafe { result::memcpy_dtod_async(to, from, len, stream.0.cast()) }.of("cuMemcpyDtoDAsync")
    }

    unsafe fn upload(&self, to: u64, bytes: &[u8], stream: Stream) -> Done<()> {
        // SAFETY: the caller's allocation is at least as long, and the bytes stay until the copy was waited for.
        unsafe { result::memcpy_htod_async(to, bytes, stream.0.cast()) }.of("cuMemcpyHtoDAsync")
    }

    unsafe fn download(&self, from: u64, bytes: &mut [u8], stream: Stream) -> Done<()> {
        // SAFETY: as above, the other way round.
        unsafe { result::memcpy_dtoh_async(bytes, from, stream.0.cast()) }.of("cuMemcpyDtoHAsync")
    }

    fn granularity(&self, device: i32) -> Done<usize> {
        let mut unit = 0;
        let recommended = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: one number is written to a variable of this frame.
        unsafe { sys::cuMemGetAllocationGranularity(&mut unit, &property(device), recommended) }
            .of("cuMemGetAllocationGranularity")?;
        Ok(unit)
    }

    fn create(&self, device: i32, len: usize) -> Done<Handle> {
        let mut handle = 0;
        // SAFETY: the length is a multiple of the granularity or the call refuses, and the description lives as long as
        // the call.
        unsafe { sys::cuMemCreate(&mut handle, len, &property(device), 0) }.of("cuMemCreate")?;
        Ok(Handle(handle))
    }

    unsafe fn export(&self, handle: Handle) -> Done<OwnedFd> {
        let mut descriptor: i32 = -1;
        // SAFETY: the handle was made to be exported as a descriptor, and a place for one number is passed.
        unsafe {
            sys::cuMemExportToShareableHandle(
                std::ptr::from_mut(&mut descriptor).cast(),
                handle.0,
                HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                0,
            )
        }
        .of("cuMemExportToShareableHandle")?;
        // SAFETY: the driver opened it for this process, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    fn import(&self, descriptor: BorrowedFd<'_>) -> Done<Handle> {
        let mut handle = 0;
        let os_handle = descriptor.as_raw_fd() as usize as *mut c_void;
        // SAFETY: the descriptor is open, and passed by value, as its type asks for; the import keeps a reference of its own.
        unsafe {
            sys::cuMemImportFromShareableHandle(
                &mut handle,
                os_handle,
                HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            )
        }
        .of("cuMemImportFromShareableHandle")?;
        Ok(Handle(handle))
    }

    unsafe fn release(&self, handle: Handle) -> Done<()> {
        // SAFETY: the handle is the caller's own, and not used again.
        unsafe { sys::cuMemRelease(handle.0) }.of("cuMemRelease")
    }

    fn reserve(&self, len: usize) -> Done<u64> {
        let mut address = 0;
        // SAFETY: asks for a fresh range of addresses.
        unsafe { sys::cuMemAddressReserve(&mut address, len, 0, 0, 0) }.of("cuMemAddressReserve")?;
        Ok(address)
    }

    unsafe fn unreserve(&self, address: u64, len: usize) -> Done<()> {
        // SAFETY: the range is the caller's own, and nothing is mapped in it.
        unsafe { sys::cuMemAddressFree(address, len) }.of("cuMemAddressFree")
    }

    unsafe fn map(&self, address: u64, len: usize, handle: Handle) -> Done<()> {
        // SAFETY: the range was reserved for this, and the handle's allocation is this long or the call refuses.
        unsafe { sys::cuMemMap(address, len, 0, handle.0, 0) }.of("cuMemMap")
    }

    unsafe fn allow(&self, device: i32, address: u64, len: usize, access: Access) -> Done<()> {
        let flags = match access {
            Access::Read => sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            Access::ReadWrite => sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let rights = sys::CUmemAccessDesc { location: location(device), flags };
        // SAFETY: the range is mapped whole, and one description is passed.
        unsafe { sys::cuMemSetAccess(address, len, &rights, 1) }.of("cuMemSetAccess")
    }

    unsafe fn unmap(&self, address: u64, len: usize) -> Done<()> {
        // SAFETY: the range was mapped for the caller, and all work on it has been waited for.
        unsafe { sys::cuMemUnmap(address, len) }.of("cuMemUnmap")
    }
}

fn location(device: i32) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}

fn property(device: i32) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: location(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}
