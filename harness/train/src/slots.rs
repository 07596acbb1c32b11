//! The model's ops, each given to a kernel where its slot is filled, and timed there; in plain Rust elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use kopt_harness::slot::{Argument, Slot};
use kopt_schema::training::{CallTime, Filling};
use rustix::time::{ClockId, clock_gettime};

use crate::ops::{EPS, Normed, Ops, Plain};
use crate::tensor::Tensor;

/// Ops that a kernel may take over.
pub const OPS: [&str; 4] = ["rmsnorm", "softmax", "matmul", "grouped_matmul"];

/// This thread's processor time, in seconds: it stands still while others run.
#[must_use]
pub fn processor_s() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0)).as_secs_f64()
}

/// A call of an entry. Sizes are in the order of the operator's parameters.
#[derive(Debug)]
struct Call<'a> {
    entry: &'static str,
    sizes: Vec<(&'static str, usize)>,
    reads: Vec<(&'static str, &'a [f32])>,
    indices: Option<(&'static str, &'a [i32])>,
    scalar: Option<(&'static str, f32)>,
    writes: Vec<Written<'a>>,
}

/// An output: rows of `row`, each element a sum of `terms`.
#[derive(Debug)]
struct Written<'a> {
    name: &'static str,
    values: &'a mut [f32],
    row: usize,
    terms: usize,
}

impl Call<'_> {
    fn shape(&self) -> String {
        self.sizes.iter().map(|(_, size)| size.to_string()).collect::<Vec<_>>().join("x")
    }

    fn run(&mut self, slot: &Slot) -> Result<f64, String> {
        let mut arguments: Vec<(&str, Argument<'_>)> = Vec::with_capacity(10);
        arguments.extend(self.sizes.iter().map(|(name, size)| (*name, Argument::Size(*size))));
        arguments.extend(self.reads.iter().map(|(name, values)| (*name, Argument::Read(values))));
        arguments.extend(self.indices.iter().map(|(name, values)| (*name, Argument::Indices(values))));
        arguments.extend(self.scalar.iter().map(|(name, value)| (*name, Argument::Scalar(*value))));
        arguments.extend(self.writes.iter_mut().map(|written| (written.name, Argument::Write(written.values))));
        let start = processor_s();
        let outcome = slot.call(self.entry, &mut arguments);
        let seconds = processor_s() - start;
        outcome.map(|()| seconds).map_err(|error| error.to_string())
    }

    fn kept(&self) -> Kept {
        let copy = |values: &[f32]| {
            let mut tensor = Tensor::zeros(values.len());
            tensor.copy_from_slice(values);
            tensor
        };
        let indices = self.indices.map(|(name, values)| {
            let mut tensor = Tensor::zeros(values.len());
            tensor.copy_from_slice(values);
            (name, tensor)
        });
        Kept {
            entry: self.entry,
            sizes: self.sizes.clone(),
            reads: self.reads.iter().map(|(name, values)| (*name, copy(values))).collect(),
            indices,
            scalar: self.scalar,
            writes: self.writes.iter().map(|written| (written.name, Tensor::zeros(written.values.len()))).collect(),
        }
    }
}

/// A call with tensors of its own, to be repeated.
#[derive(Debug)]
struct Kept {
    entry: &'static str,
    sizes: Vec<(&'static str, usize)>,
    reads: Vec<(&'static str, Tensor<f32>)>,
    indices: Option<(&'static str, Tensor<i32>)>,
    scalar: Option<(&'static str, f32)>,
    writes: Vec<(&'static str, Tensor<f32>)>,
}

impl Kept {
    fn call(&mut self) -> Call<'_> {
        Call {
            entry: self.entry,
            sizes: self.sizes.clone(),
            reads: self.reads.iter().map(|(name, values)| (*name, &**values)).collect(),
            indices: self.indices.as_ref().map(|(name, values)| (*name, &**values)),
            scalar: self.scalar,
            writes: self.writes.iter_mut().map(|(name, values)| Written { name, values, row: 1, terms: 1 }).collect(),
        }
    }
}

/// The ops of a model.
#[derive(Debug, Default)]
pub struct Slots {
    plain: Plain<f32>,
    kernels: Vec<Slot>,
    times: BTreeMap<(&'static str, String), CallTime>,
    noise: Option<Noise>,
    /// The first call that failed.
    failure: Option<String>,
    /// Calls of a step, where they are asked for.
    kept: Option<Vec<Kept>>,
}

impl Slots {
    /// Loads the kernels.
    ///
    /// # Errors
    /// When one cannot be loaded, or the model has no such op.
    pub fn load(fillings: &[Filling], noise: Option<u64>) -> Result<Self, String> {
        let mut slots = Self { noise: noise.map(Noise), ..Self::default() };
        for filling in fillings {
            if !OPS.contains(&filling.op.as_str()) {
                return Err(format!("the model has no op `{}`; its slots are {}", filling.op, OPS.join(", ")));
            }
            slots.kernels.push(Slot::load(filling).map_err(|error| error.to_string())?);
        }
        Ok(slots)
    }

    /// Entries that kernels have taken over.
    #[must_use]
    pub fn filled(&self) -> Vec<String> {
        self.kernels.iter().flat_map(Slot::entries).map(str::to_owned).collect()
    }

    /// Times since this was asked last.
    ///
    /// # Errors
    /// When a call failed.
    pub fn take_times(&mut self) -> Result<Vec<CallTime>, String> {
        let times = std::mem::take(&mut self.times).into_values().collect();
        self.failure.take().map_or(Ok(times), Err)
    }

    /// Keeps every call from here on.
    pub fn keep_calls(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// Repeats the calls that were kept, all in turn and each on its own tensors, for about `seconds`. In turn, and not each
    /// by itself, so that the caches hold about as much of a call's data as they do in a step.
    ///
    /// # Errors
    /// When a call fails.
    pub fn benchmark(&mut self, seconds: f64) -> Result<Vec<CallTime>, String> {
        let mut kept = self.kept.take().unwrap_or_default();
        for warm in [true, false] {
            self.times.clear();
            let mut spent = 0.0;
            while spent == 0.0 || (spent < seconds && !warm) {
                for kept in &mut kept {
                    let before = processor_s();
                    self.given(kept.call());
                    spent += processor_s() - before;
                }
                if kept.is_empty() {
                    break;
                }
            }
        }
        self.take_times()
    }

    /// Whether a kernel has done it.
    fn given(&mut self, mut call: Call<'_>) -> bool {
        let Some(slot) = self.kernels.iter().find(|slot| slot.entries().any(|entry| entry == call.entry)) else {
            return false;
        };
        let shape = call.shape();
        if let Some(kept) = &mut self.kept {
            kept.push(call.kept());
        }
        match call.run(slot) {
            Ok(seconds) => {
                let time = self.times.entry((call.entry, shape)).or_insert_with_key(|(entry, shape)| CallTime {
                    entry: (*entry).to_owned(),
                    shape: shape.clone(),
                    calls: 0,
                    seconds: 0.0,
                });
                time.calls += 1;
                time.seconds += seconds;
            }
            Err(message) => self.failure = self.failure.take().or(Some(message)),
        }
        if let Some(noise) = &mut self.noise {
            call.writes.iter_mut().for_each(|written| noise.disturb(written));
        }
        true
    }
}

impl Ops<f32> for Slots {
    fn rmsnorm(&mut self, x: &[f32], weight: &[f32], y: &mut [f32], inv_rms: &mut [f32], cols: usize) {
        let call = Call {
            entry: "rmsnorm",
            sizes: vec![("rows", inv_rms.len()), ("cols", cols)],
            reads: vec![("x", x), ("weight", weight)],
            indices: None,
            scalar: Some(("eps", EPS)),
            writes: vec![
                Written { name: "y", values: y, row: cols, terms: cols },
                Written { name: "inv_rms", values: inv_rms, row: 1, terms: cols },
            ],
        };
        if !self.given(call) {
            self.plain.rmsnorm(x, weight, y, inv_rms, cols);
        }
    }

    fn rmsnorm_backward(
        &mut self,
        saved: Normed<'_, f32>,
        dy: &[f32],
        dx: &mut [f32],
        dweight: &mut [f32],
        cols: usize,
    ) {
        let rows = saved.inv_rms.len();
        let call = Call {
            entry: "rmsnorm_backward",
            sizes: vec![("rows", rows), ("cols", cols)],
            reads: vec![("x", saved.x), ("weight", saved.weight), ("inv_rms", saved.inv_rms), ("dy", dy)],
            indices: None,
            scalar: None,
            writes: vec![
                Written { name: "dx", values: dx, row: cols, terms: cols },
                Written { name: "dweight", values: dweight, row: cols, terms: rows },
            ],
        };
        if !self.given(call) {
            self.plain.rmsnorm_backward(saved, dy, dx, dweight, cols);
        }
    }

    fn softmax(&mut self, x: &[f32], y: &mut [f32], cols: usize) {
        let call = Call {
            entry: "softmax",
            sizes: vec![("rows", x.len() / cols), ("cols", cols)],
            reads: vec![("x", x)],
            indices: None,
            scalar: None,
            writes: vec![Written { name: "y", values: y, row: cols, terms: cols }],
        };
        if !self.given(call) {
            self.plain.softmax(x, y, cols);
        }
    }

    fn matmul(&mut self, a: &[f32], b: &[f32], c: &mut [f32], size: [usize; 3]) {
        let [m, n, k] = size;
        let call = Call {
            entry: "matmul",
            sizes: vec![("m", m), ("n", n), ("k", k)],
            reads: vec![("a", a), ("b", b)],
            indices: None,
            scalar: None,
            writes: vec![Written { name: "c", values: c, row: n, terms: k }],
        };
        if !self.given(call) {
            self.plain.matmul(a, b, c, size);
        }
    }

    fn matmul_backward(&mut self, saved: [&[f32]; 2], dc: &[f32], da: &mut [f32], db: &mut [f32], size: [usize; 3]) {
        let [m, n, k] = size;
        let call = Call {
            entry: "matmul_backward",
            sizes: vec![("m", m), ("n", n), ("k", k)],
            reads: vec![("a", saved[0]), ("b", saved[1]), ("dc", dc)],
            indices: None,
            scalar: None,
            writes: vec![
                Written { name: "da", values: da, row: k, terms: n },
                Written { name: "db", values: db, row: n, terms: m },
            ],
        };
        if !self.given(call) {
            self.plain.matmul_backward(saved, dc, da, db, size);
        }
    }

    fn grouped_matmul(&mut self, x: &[f32], w: &[f32], offsets: &[i32], y: &mut [f32], size: [usize; 2]) {
        let [k, n] = size;
        let call = Call {
            entry: "grouped_matmul",
            sizes: vec![("rows", x.len() / k), ("groups", offsets.len() - 1), ("k", k), ("n", n)],
            reads: vec![("x", x), ("w", w)],
            indices: Some(("offsets", offsets)),
            scalar: None,
            writes: vec![Written { name: "y", values: y, row: n, terms: k }],
        };
        if !self.given(call) {
            self.plain.grouped_matmul(x, w, offsets, y, size);
        }
    }
}

/// Rounding errors of another order of sums, at random.
#[derive(Debug)]
struct Noise(u64);

impl Noise {
    /// Moves each element by up to four roundings for each root of its terms, relative to its row's size: what sums of
    /// numbers of either sign are off by when they are taken in another order. What is zero stays so: nothing was rounded.
    fn disturb(&mut self, written: &mut Written<'_>) {
        const ROUNDING: f32 = f32::EPSILON / 2.0;
        let reach = 4.0 * ROUNDING * (written.terms.max(1) as f32).sqrt();
        for row in written.values.chunks_mut(written.row.max(1)) {
            let square = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / row.len() as f64;
            let size = reach * square.sqrt() as f32;
            for value in row.iter_mut().filter(|value| **value != 0.0) {
                *value += size * self.unit();
            }
        }
    }

    /// Between -1 and 1; a multiplicative congruence is random enough to round by.
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
