//! What holds a GPU's clocks back, as its management library tells: a block that was timed while the device protected itself says
//! nothing of the code. Nothing is changed there, and where the library is missing nothing is known.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::os::unix::{Library, Symbol};

/// Where NVIDIA's drivers have it.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Reasons that come and go, by their bits in the library's header. A power cap is none of them: under products of matrices it
/// is there all the time, for both.
const REASONS: [(c_ulonglong, &str); 4] = [
    (0x08, "a slowdown by the hardware"),
    (0x20, "the temperature, by software"),
    (0x40, "the temperature, by the hardware"),
    (0x80, "the power supply"),
];

type Init = unsafe extern "C" fn() -> c_int;
type ByPlace = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type Reasons = unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> c_int;
type Clock = unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> c_int;

/// The number of the multiprocessors' clock.
const MULTIPROCESSORS: c_uint = 1;

/// A device's gauge.
#[derive(Debug)]
pub(crate) struct Gauge {
    device: *mut c_void,
    reasons: Symbol<Reasons>,
    clock: Symbol<Clock>,
    _library: Library,
}

// SAFETY: the handle is the library's, which may be asked from any thread.
unsafe impl Send for Gauge {}
// SAFETY: as above; it locks what it must.
unsafe impl Sync for Gauge {}

impl Gauge {
    /// Of the device at a place on the bus, such as `0000:18:00.0`; none where nobody can tell.
    pub(crate) fn open(place: &str) -> Option<Self> {
        let place = CString::new(place).ok()?;
        // SAFETY: the library is the driver's own, and loading it runs nothing of a candidate.
        let library = unsafe { Library::new(LIBRARY) }.ok()?;
        let mut device = std::ptr::null_mut();
        // SAFETY: the types are those of the library's header; the name ends with a zero, and one handle is written to a variable
        // of this frame.
        unsafe {
            let begin: Symbol<Init> = library.get(b"nvmlInit_v2\0").ok()?;
            let by_place: Symbol<ByPlace> = library.get(b"nvmlDeviceGetHandleByPciBusId_v2\0").ok()?;
            if begin() != 0 || by_place(place.as_ptr(), &raw mut device) != 0 {
                return None;
            }
            let reasons = library.get(b"nvmlDeviceGetCurrentClocksThrottleReasons\0").ok()?;
            let clock = library.get(b"nvmlDeviceGetClockInfo\0").ok()?;
            Some(Self { device, reasons, clock, _library: library })
        }
    }

    /// What holds the clocks back now, if anything does.
    pub(crate) fn held_back(&self) -> Option<&'static str> {
        let mut bits = 0;
        // SAFETY: the handle is the library's, and one number is written to a variable of this frame.
        let told = unsafe { (self.reasons)(self.device, &raw mut bits) } == 0;
        told.then(|| reason(bits)).flatten()
    }

    /// The multiprocessors' clock now, in MHz.
    pub(crate) fn megahertz(&self) -> Option<u32> {
        let mut clock = 0;
        // SAFETY: as above.
        (unsafe { (self.clock)(self.device, MULTIPROCESSORS, &raw mut clock) } == 0).then_some(clock)
    }
}

fn reason(bits: c_ulonglong) -> Option<&'static str> {
    REASONS.iter().find(|(bit, _)| bits & bit != 0).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_is_a_reason_and_a_cap_or_idleness_is_none() {
        assert_eq!(reason(0x40 | 0x04), Some("the temperature, by the hardware"));
        for harmless in [0, 0x01, 0x02, 0x04, 0x10, 0x100] {
            assert_eq!(reason(harmless), None);
        }
    }

    #[test]
    fn where_there_is_no_such_device_nothing_is_known() {
        assert!(Gauge::open("ffff:ff:1f.7").is_none());
    }
}
