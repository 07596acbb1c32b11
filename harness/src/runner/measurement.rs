//! criterion's view of a timed call: seconds that the worker measured on the device, not wall time here.

use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter};

/// Seconds on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceTime;

impl Measurement for DeviceTime {
    type Intermediate = ();
    type Value = f64;

    fn start(&self) {}

    fn end(&self, (): ()) -> f64 {
        // Only `iter_custom` is used: it brings its own value.
        0.0
    }

    fn add(&self, first: &f64, second: &f64) -> f64 {
        first + second
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, value: &f64) -> f64 {
        // criterion aborts on a sample of zero.
        (value * 1e9).max(1e-3)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Nanoseconds
    }
}

/// Formats values in nanoseconds.
struct Nanoseconds;

impl ValueFormatter for Nanoseconds {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let (factor, unit) = match typical {
            t if t < 1e3 => (1.0, "ns"),
            t if t < 1e6 => (1e-3, "µs"),
            t if t < 1e9 => (1e-6, "ms"),
            _ => (1e-9, "s"),
        };
        values.iter_mut().for_each(|value| *value *= factor);
        unit
    }

    fn scale_throughputs(&self, _typical: f64, throughput: &Throughput, values: &mut [f64]) -> &'static str {
        // Per nanosecond is giga per second.
        let (amount, unit) = match throughput {
            Throughput::Elements(flops) => (*flops as f64, "GFLOP/s"),
            Throughput::Bytes(bytes) | Throughput::BytesDecimal(bytes) => (*bytes as f64, "GB/s"),
            _ => (1.0, "G/s"),
        };
        values.iter_mut().for_each(|value| *value = amount / *value);
        unit
    }

    fn scale_for_machines(&self, _values: &mut [f64]) -> &'static str {
        "ns"
    }
}
