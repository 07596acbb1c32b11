//! The model's ops, each given to a kernel where its slot is filled, and timed there; in plain Rust elsewhere.

mod call;
mod noise;
mod ops;

use std::collections::BTreeMap;
use std::time::Duration;

use kopt_harness::slot::Slot;
use kopt_schema::training::{CallTime, Filling, SLOTS};
use rustix::time::{ClockId, clock_gettime};

use crate::ops::Plain;
use call::{Call, Kept};
use noise::Noise;

/// This thread's processor time, in seconds: it stands still while others run.
#[must_use]
pub fn processor_s() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0)).as_secs_f64()
}

/// A benchmark repeats its calls at least so often.
const LEAST_ROUNDS: usize = 3;

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
            if !SLOTS.contains(&filling.op.as_str()) {
                return Err(format!("the model has no op `{}`; its slots are {}", filling.op, SLOTS.join(", ")));
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

    /// Repeats the calls that were kept, all in turn and each on its own tensors, for about `seconds`, with the caches as a
    /// step has them: between two calls goes their part of the other memory of a step, of which there are `rest` bytes, and
    /// it ends with writing the call's activation or gradient; after the call, the next op reads what it wrote. How long
    /// that takes is told, too: a kernel that writes past the caches is faster at its reader's cost.
    ///
    /// # Errors
    /// When a call fails.
    pub fn benchmark(&mut self, seconds: f64, rest: usize) -> Result<Vec<CallTime>, String> {
        let mut kept = self.kept.take().unwrap_or_default();
        let part = (rest / size_of::<u64>()).div_ceil(kept.len().max(1)).max(1);
        let mut rest = vec![0u64; part * kept.len()];
        for rounds in [1..=1, LEAST_ROUNDS..=usize::MAX] {
            self.times.clear();
            let begun = processor_s();
            let mut round = 0;
            while !kept.is_empty()
                && (round < *rounds.start() || processor_s() - begun < seconds)
                && round < *rounds.end()
            {
                for (kept, rest) in kept.iter_mut().zip(rest.chunks_mut(part)) {
                    rest.iter_mut().for_each(|word| *word = word.wrapping_add(1));
                    std::hint::black_box(rest);
                    kept.write_fresh();
                    self.given(kept.call());
                    let (key, seconds) = (kept.key(), kept.read());
                    self.times.entry(key).and_modify(|time| time.reading += seconds);
                }
                round += 1;
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
                    reading: 0.0,
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
