//! What an error of CUDA's driver means here.

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

use super::super::driver::{Done, Meaning, Refused};

/// A driver's result, with the call that it came from.
pub(super) trait Named<T> {
    fn of(self, call: &str) -> Done<T>;
}

impl<T> Named<T> for Result<T, DriverError> {
    fn of(self, call: &str) -> Done<T> {
        self.map_err(|error| named(call, error))
    }
}

impl Named<()> for sys::CUresult {
    fn of(self, call: &str) -> Done<()> {
        self.result().of(call)
    }
}

fn named(call: &str, error: DriverError) -> Refused {
    use sys::cudaError_enum as code;
    let meaning = match error.0 {
        code::CUDA_ERROR_NO_DEVICE | code::CUDA_ERROR_INVALID_DEVICE => Meaning::NoDevice,
        code::CUDA_ERROR_OUT_OF_MEMORY => Meaning::NoMemory,
        code::CUDA_ERROR_ILLEGAL_ADDRESS => Meaning::IllegalAddress,
        code::CUDA_ERROR_MISALIGNED_ADDRESS
        | code::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | code::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | code::CUDA_ERROR_INVALID_PC
        | code::CUDA_ERROR_HARDWARE_STACK_ERROR
        | code::CUDA_ERROR_LAUNCH_TIMEOUT
        | code::CUDA_ERROR_LAUNCH_FAILED
        | code::CUDA_ERROR_ASSERT => Meaning::Fault,
        code::CUDA_ERROR_NOT_FOUND => Meaning::NotFound,
        _ => Meaning::Other,
    };
    Refused { driver: "CUDA", call: call.to_owned(), error: error.to_string(), meaning }
}
