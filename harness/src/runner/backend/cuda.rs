//! An NVIDIA GPU through the driver API, loaded at run time: a machine without one builds and runs everything else.
//!
//! The object is a cubin, and one call is what the launch plan says: no host code of the candidate exists. Inputs and
//! outputs are copied as whole files, so that the pattern around each buffer is checked here as on the CPU.

#![allow(unsafe_code, reason = "the driver's interface")]

use std::ffi::{CString, c_void};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use kopt_schema::plan::{Fill, Launch};
use kopt_schema::wire::{Arena, EntryCall, Placed};

use super::{Backend, BackendError, Ceilings, Timing};
use crate::runner::memory::Mapping;

/// Events recorded before the first must be read back.
const EVENTS: usize = 64;

/// Dynamic shared memory beyond this must be asked for.
const PLAIN_SHARED: u32 = 48 << 10;

/// Bytes that a copy moves when the ceiling is measured.
const COPIED: usize = 1 << 30;

/// A GPU with a loaded cubin.
pub(crate) struct Cuda {
    device: sys::CUdevice,
    stream: sys::CUstream,
    module: sys::CUmodule,
    functions: Vec<(String, sys::CUfunction)>,
    arenas: Vec<Attached>,
    events: Vec<(sys::CUevent, sys::CUevent)>,
    flush: (sys::CUdeviceptr, usize),
}

struct Attached {
    host: [(Mapping, usize); 2],
    device: [sys::CUdeviceptr; 2],
    buffers: Vec<Placed>,
    calls: Vec<Prepared>,
}

struct Prepared {
    launches: Vec<Launch>,
    functions: Vec<sys::CUfunction>,
    /// One a window: the args struct, aligned.
    args: Vec<Box<[u64]>>,
    entry: EntryCall,
    scratch: Vec<(sys::CUdeviceptr, usize, Fill)>,
}

impl From<DriverError> for BackendError {
    fn from(error: DriverError) -> Self {
        use sys::cudaError_enum as code;
        let text = format!("CUDA: {error}");
        match error.0 {
            code::CUDA_ERROR_NO_DEVICE | code::CUDA_ERROR_INVALID_DEVICE => Self::NoDevice(text),
            code::CUDA_ERROR_ILLEGAL_ADDRESS
            | code::CUDA_ERROR_MISALIGNED_ADDRESS
            | code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | code::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | code::CUDA_ERROR_INVALID_PC
            | code::CUDA_ERROR_HARDWARE_STACK_ERROR
            | code::CUDA_ERROR_LAUNCH_TIMEOUT
            | code::CUDA_ERROR_LAUNCH_FAILED
            | code::CUDA_ERROR_ASSERT => Self::Fault(text),
            _ => Self::Failed(text),
        }
    }
}

impl Cuda {
    /// Takes the first device.
    pub(crate) fn open() -> Result<Self, BackendError> {
        // SAFETY: only looks whether the library can be loaded. cudarc panics later if it cannot.
        if !unsafe { sys::is_culib_present() } {
            return Err(BackendError::NoDevice("the CUDA driver (libcuda) is not installed".to_owned()));
        }
        result::init()?;
        if result::device::get_count()? == 0 {
            return Err(BackendError::NoDevice("the driver lists no GPU".to_owned()));
        }
        let device = result::device::get(0)?;
        // SAFETY: the device is valid; the context is retained for the life of this process and made current for its
        // only thread, which is what every call below relies on.
        unsafe {
            let context = result::primary_ctx::retain(device)?;
            result::ctx::set_current(context)?;
            // A candidate must not keep data in the second-level cache; a device without the feature refuses, rightly.
            let _ = sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0);
        }
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        Ok(Self {
            device,
            stream,
            module: std::ptr::null_mut(),
            functions: Vec::new(),
            arenas: Vec::new(),
            events: Vec::new(),
            flush: (0, 0),
        })
    }

    fn prepare(
        &self,
        arena: &Arena,
        device: [sys::CUdeviceptr; 2],
        entry: &EntryCall,
    ) -> Result<Prepared, BackendError> {
        let windows = arena.buffers.first().map_or(0, |buffer| buffer.offsets.len());
        let args = (0..windows)
            .map(|window| {
                let mut bytes = entry.args.clone();
                for field in &entry.fields {
                    if let Some(buffer) = field.buffer.map(|index| &arena.buffers[index]) {
                        let address = device[usize::from(buffer.written)] + buffer.offsets[window] as u64;
                        bytes[field.offset..field.offset + 8].copy_from_slice(&address.to_le_bytes());
                    }
                }
                let mut words = vec![0u64; bytes.len().div_ceil(8)].into_boxed_slice();
                for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
                    let mut filled = [0; 8];
                    filled[..chunk.len()].copy_from_slice(chunk);
                    *word = u64::from_le_bytes(filled);
                }
                words
            })
            .collect();
        let mut functions = Vec::new();
        for launch in &entry.launches {
            let found = self.functions.iter().find(|(name, _)| *name == launch.kernel);
            let (_, function) =
                found.ok_or_else(|| BackendError::Failed(format!("`{}` was not loaded", launch.kernel)))?;
            if launch.shared > PLAIN_SHARED {
                let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let bytes = i32::try_from(launch.shared).unwrap_or(i32::MAX);
                // SAFETY: the function belongs to the loaded module.
                unsafe { result::function::set_function_attribute(*function, attribute, bytes)? };
            }
            functions.push(*function);
        }
        let scratch = entry
            .workspace
            .iter()
            // SAFETY: a fresh allocation, used only through this list.
            .map(|buffer| Ok((unsafe { result::malloc_sync(buffer.bytes.max(1))? }, buffer.bytes, buffer.fill)))
            .collect::<Result<_, BackendError>>()?;
        Ok(Prepared { launches: entry.launches.clone(), functions, args, entry: entry.clone(), scratch })
    }

    /// Queues one call.
    fn enqueue(&self, prepared: &Prepared, window: usize) -> Result<(), BackendError> {
        for (address, bytes, fill) in &prepared.scratch {
            if *fill == Fill::Zero && *bytes > 0 {
                // SAFETY: the allocation is this long.
                unsafe { result::memset_d8_async(*address, 0, *bytes, self.stream)? };
            }
        }
        for (launch, function) in prepared.launches.iter().zip(&prepared.functions) {
            let args = &prepared.args[window];
            let mut parameters: Vec<*mut c_void> = match &launch.fields {
                None => vec![args.as_ptr().cast_mut().cast()],
                Some(names) => names
                    .iter()
                    .map(|name| {
                        let scratch = prepared.entry.workspace.iter().position(|buffer| buffer.name == *name);
                        if let Some(index) = scratch {
                            return std::ptr::from_ref(&prepared.scratch[index].0).cast_mut().cast();
                        }
                        let field = prepared.entry.fields.iter().find(|field| field.name == *name);
                        let offset = field.map_or(0, |field| field.offset);
                        args.as_ptr().cast::<u8>().wrapping_add(offset).cast_mut().cast()
                    })
                    .collect(),
            };
            let mut attribute = sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { pad: [0; 64] },
            };
            let [x, y, z] = launch.cluster.unwrap_or([1; 3]);
            attribute.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            let config = sys::CUlaunchConfig {
                gridDimX: launch.grid[0],
                gridDimY: launch.grid[1],
                gridDimZ: launch.grid[2],
                blockDimX: launch.block[0],
                blockDimY: launch.block[1],
                blockDimZ: launch.block[2],
                sharedMemBytes: launch.shared,
                hStream: self.stream,
                attrs: &mut attribute,
                numAttrs: u32::from(launch.cluster.is_some()),
            };
            // SAFETY: the function is of the loaded module; the parameters point at the args struct, at fields of it or at
            // scratch addresses, all of which the driver copies before it returns.
            unsafe {
                sys::cuLaunchKernelEx(&config, *function, parameters.as_mut_ptr(), std::ptr::null_mut()).result()?
            };
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), BackendError> {
        // SAFETY: the stream is this backend's own.
        unsafe { result::stream::synchronize(self.stream)? };
        Ok(())
    }

    /// Events and the buffer whose overwriting empties the second-level cache.
    fn ready_to_time(&mut self) -> Result<(), BackendError> {
        while self.events.len() < EVENTS {
            let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
            self.events.push((event()?, event()?));
        }
        if self.flush.1 == 0 {
            let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
            // SAFETY: the device is valid; a fresh allocation.
            unsafe {
                let cache = usize::try_from(result::device::get_attribute(self.device, attribute)?).unwrap_or(0);
                let bytes = (2 * cache).max(128 << 20);
                self.flush = (result::malloc_sync(bytes)?, bytes);
            }
        }
        Ok(())
    }

    fn overwrite_cache(&self, value: u8) -> Result<(), BackendError> {
        // SAFETY: the allocation is this long.
        unsafe {
            let _ = sys::cuCtxResetPersistingL2Cache();
            result::memset_d8_async(self.flush.0, value, self.flush.1, self.stream)?;
        }
        Ok(())
    }

    /// Copies the windows of a batch: contents to the device, or results back.
    fn exchange(&self, timing: &Timing<'_>, to_device: bool) -> Result<(), BackendError> {
        let attached = self.arenas.get(timing.arena).ok_or_else(|| BackendError::Failed("no such arena".to_owned()))?;
        let used = usize::try_from(timing.calls).unwrap_or(usize::MAX).min(timing.windows.len());
        for buffer in attached.buffers.iter().filter(|buffer| to_device || buffer.written) {
            let file = usize::from(buffer.written);
            for window in &timing.windows[..used] {
                let start = buffer.offsets[*window];
                let (host, device) = (attached.host[file].0.address(start), attached.device[file] + start as u64);
                // SAFETY: mapping and allocation have the same length, and the window lies inside both; the judge touches
                // neither before this process has answered. Both directions are waited for below.
                unsafe {
                    if to_device {
                        let bytes = std::slice::from_raw_parts(host, buffer.bytes);
                        result::memcpy_htod_async(device, bytes, self.stream)?;
                    } else {
                        let bytes = std::slice::from_raw_parts_mut(host, buffer.bytes);
                        result::memcpy_dtoh_async(bytes, device, self.stream)?;
                    }
                }
            }
        }
        self.synchronize()
    }

    /// The timed calls; seconds in all.
    fn measure(&self, timing: &Timing<'_>) -> Result<f64, BackendError> {
        let attached = self.arenas.get(timing.arena).ok_or_else(|| BackendError::Failed("no such arena".to_owned()))?;
        let window_of = |call: u64| timing.windows[usize::try_from(call).unwrap_or(0) % timing.windows.len()];
        let run =
            |window: usize| timing.entries.iter().try_for_each(|entry| self.enqueue(&attached.calls[*entry], window));
        if !timing.cold {
            // Overwriting the cache keeps the device busy while the first calls are queued, so that no launch gap is timed.
            self.overwrite_cache(1)?;
            run(window_of(0))?;
            self.record(self.events[0].0)?;
            (0..timing.calls).try_for_each(|call| run(window_of(call)))?;
            self.record(self.events[0].1)?;
            self.synchronize()?;
            return self.elapsed(self.events[0]);
        }
        let mut seconds = 0.0;
        let mut done = 0;
        while done < timing.calls {
            let chunk = (timing.calls - done).min(EVENTS as u64);
            for (call, (start, end)) in (done..done + chunk).zip(&self.events) {
                self.overwrite_cache(call.to_le_bytes()[0])?;
                self.record(*start)?;
                run(window_of(call))?;
                self.record(*end)?;
            }
            self.synchronize()?;
            for pair in &self.events[..usize::try_from(chunk).unwrap_or(0)] {
                seconds += self.elapsed(*pair)?;
            }
            done += chunk;
        }
        Ok(seconds)
    }

    fn record(&self, event: sys::CUevent) -> Result<(), BackendError> {
        // SAFETY: event and stream are this backend's own.
        unsafe { result::event::record(event, self.stream)? };
        Ok(())
    }

    fn elapsed(&self, pair: (sys::CUevent, sys::CUevent)) -> Result<f64, BackendError> {
        // SAFETY: both events were created with timing and have been recorded and waited for.
        Ok(f64::from(unsafe { result::event::elapsed(pair.0, pair.1)? }) * 1e-3)
    }
}

impl Backend for Cuda {
    fn load(&mut self, object: &str, symbols: &[String]) -> Result<String, BackendError> {
        let image = std::fs::read(object)?;
        // SAFETY: the image is a whole cubin (its digest was compared), and the driver copies what it needs.
        self.module = unsafe { result::module::load_data(image.as_ptr().cast()) }
            .map_err(|error| BackendError::Failed(format!("the cubin does not load here: {error}")))?;
        for symbol in symbols {
            let name = CString::new(symbol.as_str()).map_err(|error| BackendError::Failed(error.to_string()))?;
            // SAFETY: the module is loaded.
            let function = unsafe { result::module::get_function(self.module, name) }.map_err(|_| {
                BackendError::Failed(format!("the cubin has no kernel `{symbol}`; is it extern \"C\"?"))
            })?;
            self.functions.push((symbol.clone(), function));
        }
        Ok(result::device::get_name(self.device)?)
    }

    fn attach(&mut self, arena: &Arena, inputs: OwnedFd, outputs: OwnedFd) -> Result<(u64, u64), BackendError> {
        // The device has no fences: the pattern in their place shows what was written there.
        let host = [
            (Mapping::new(inputs, arena.input_len, false, &[])?, arena.input_len),
            (Mapping::new(outputs, arena.output_len, true, &[])?, arena.output_len),
        ];
        // SAFETY: fresh allocations; the copy reads a mapping of exactly this length.
        let device = unsafe {
            let device = [result::malloc_sync(arena.input_len)?, result::malloc_sync(arena.output_len)?];
            // On the backend's own stream: a plain copy returns when the data is staged, and other streams do not wait for it.
            result::memcpy_htod_async(
                device[0],
                std::slice::from_raw_parts(host[0].0.address(0), host[0].1),
                self.stream,
            )?;
            device
        };
        let calls = arena.entries.iter().map(|entry| self.prepare(arena, device, entry)).collect::<Result<_, _>>()?;
        self.synchronize()?;
        self.arenas.push(Attached { host, device, buffers: arena.buffers.clone(), calls });
        Ok((0, 0))
    }

    fn call(&mut self, arena: usize, entry: usize, window: usize) -> Result<i32, BackendError> {
        let attached = self.arenas.get(arena).ok_or_else(|| BackendError::Failed("no such arena".to_owned()))?;
        let prepared = attached.calls.get(entry).ok_or_else(|| BackendError::Failed("no such entry".to_owned()))?;
        let [(inputs, input_len), (outputs, output_len)] = &attached.host;
        // SAFETY: every copy is between a mapping and an allocation of the same length, and the stream is waited for
        // before results are read. The judge writes inputs only between requests.
        unsafe {
            let poisoned = std::slice::from_raw_parts(outputs.address(0), *output_len);
            result::memcpy_htod_async(attached.device[1], poisoned, self.stream)?;
            for (address, bytes, fill) in &prepared.scratch {
                let value = if *fill == Fill::Zero { 0 } else { 0xff };
                result::memset_d8_async(*address, value, *bytes, self.stream)?;
            }
            self.enqueue(prepared, window)?;
            self.synchronize()?;
            result::memcpy_dtoh_sync(
                std::slice::from_raw_parts_mut(outputs.address(0), *output_len),
                attached.device[1],
            )?;
            let mut after = vec![0u8; *input_len];
            result::memcpy_dtoh_sync(&mut after, attached.device[0])?;
            let before = std::slice::from_raw_parts(inputs.address(0), *input_len);
            if let Some(byte) = after.iter().zip(before).position(|(after, before)| after != before) {
                return Err(BackendError::InputModified(format!("byte {byte} of the inputs was changed")));
            }
        }
        Ok(0)
    }

    fn time(&mut self, timing: &Timing<'_>) -> Result<f64, BackendError> {
        self.ready_to_time()?;
        if timing.fresh {
            self.exchange(timing, true)?;
        }
        let seconds = self.measure(timing)?;
        // A wait of some hundred nanoseconds cannot be put behind each kernel exactly: the known slowdown is waited for
        // once, here, so that the judge's clock sees it too.
        let end = Instant::now() + Duration::from_secs_f64(seconds * timing.handicap);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        if timing.fresh {
            self.exchange(timing, false)?;
        }
        Ok(seconds * (1.0 + timing.handicap))
    }

    fn ceilings(&mut self) -> Result<Ceilings, BackendError> {
        self.ready_to_time()?;
        let mut best = f64::INFINITY;
        // SAFETY: both allocations are COPIED long and freed after the last copy was waited for.
        unsafe {
            let (from, to) = (result::malloc_sync(COPIED)?, result::malloc_sync(COPIED)?);
            result::memset_d8_sync(from, 1, COPIED)?;
            for _ in 0..12 {
                self.overwrite_cache(3)?;
                self.record(self.events[0].0)?;
                result::memcpy_dtod_async(to, from, COPIED, self.stream)?;
                self.record(self.events[0].1)?;
                self.synchronize()?;
                best = best.min(self.elapsed(self.events[0])?);
            }
            result::free_sync(from)?;
            result::free_sync(to)?;
        }
        let copy_bytes_per_s = 2.0 * COPIED as f64 / best;
        Ok(Ceilings { copy_bytes_per_s, read_bytes_per_s: None, write_bytes_per_s: None, fma_flops_per_s: None })
    }
}
