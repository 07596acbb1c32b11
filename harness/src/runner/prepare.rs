//! `prepare`, the only legal cache. A native candidate may export two functions beside its entries:
//!
//! ```c
//! int64_t matmul_prepare_size(const matmul_args *args);      // bytes that a preparation takes; sizes are given
//! int matmul_prepare(const matmul_args *args, void *prepared); // sizes and weights are given, every other pointer is null
//! ```
//!
//! What is prepared lies in memory of the harness, poisoned before, and every entry gets it as its field `prepared`. It is
//! made once a step and its time is part of the step, so that the cache is charged for what it is in training: weights are
//! new in every step.

use std::collections::BTreeMap;
use std::time::Duration;

use kopt_schema::DType;
pub(crate) use kopt_schema::candidate::PREPARED as FIELD;
use kopt_schema::manifest::Backend;
use kopt_schema::message::FailureKind;
use kopt_schema::wire::{EntryCall, Reply, Request};

use super::arguments;
use super::candidate::Loaded;
use super::contestant::{Contestant, Loss};
use crate::kernel::{Buffer, Case, Kernel, Role};
use crate::package::EntryLayout;

/// A preparation may take this many times the memory of the weights, and this much.
const TIMES_THE_WEIGHTS: usize = 8;
const AND: usize = 1 << 20;

const LIMIT: Duration = Duration::from_secs(20);

/// Bytes that the candidate's preparation takes, case by case; zero where it has none.
pub(crate) fn sizes(
    kernel: &dyn Kernel,
    backend: Backend,
    forward: &EntryLayout,
    candidate: &Loaded,
    cases: &[Case],
) -> Result<Vec<usize>, Loss> {
    let Some(op) = &candidate.prepares else { return Ok(vec![0; cases.len()]) };
    let mut worker = Contestant::start(candidate, backend, &[], &[])?;
    let symbol = format!("{op}_prepare_size");
    let mut found = Vec::new();
    for case in cases {
        let args = call(kernel, forward, case, &[]).map_err(Loss::of_judge)?.args;
        let bytes = match worker.ask(&Request::Size { symbol: symbol.clone(), args }, LIMIT)? {
            Reply::Size { bytes } => bytes,
            other => return Err(Loss::new(FailureKind::Protocol, format!("answered out of turn: {other:?}"))),
        };
        let buffers = kernel.buffers(forward.symbol, case);
        let weights: usize = buffers.iter().filter(|one| one.role == Role::Weight).map(Buffer::bytes).sum();
        let most = TIMES_THE_WEIGHTS * weights + AND;
        match usize::try_from(bytes) {
            // One byte at least: what has a place can be looked at.
            Ok(bytes) if bytes <= most => found.push(bytes.max(1)),
            _ => {
                let message = format!("`{symbol}` returned {bytes}: from 0 to {most} bytes may be asked for");
                return Err(Loss::new(FailureKind::ReturnedError, message));
            }
        }
    }
    Ok(found)
}

/// The buffer for a preparation of so many bytes; none for none.
pub(crate) fn buffer(bytes: usize) -> Option<Buffer> {
    let (dtype, row) = (DType::I32, 64);
    let len = bytes.div_ceil(dtype.size());
    let made = Buffer { name: FIELD, role: Role::Workspace, written: true, dtype, len, row, align: 256 };
    (bytes > 0).then_some(made)
}

/// The call of `prepare` on an arena of these buffers: the forward entry's sizes and weights, no pointer to anything else,
/// and where to write to.
pub(crate) fn call(
    kernel: &dyn Kernel,
    forward: &EntryLayout,
    case: &Case,
    buffers: &[Buffer],
) -> Result<EntryCall, String> {
    let whole = arguments::entry_call(kernel, forward, case, 0, None, None, &BTreeMap::new())?;
    let mut fields = whole.fields;
    for field in &mut fields {
        field.buffer = buffers.iter().position(|buffer| buffer.name == field.name && buffer.role == Role::Weight);
    }
    Ok(EntryCall { symbol: format!("{}_prepare", forward.symbol), fields, second: place(buffers), ..whole })
}

fn place(buffers: &[Buffer]) -> Option<usize> {
    buffers.iter().position(|buffer| buffer.name == FIELD && buffer.role == Role::Workspace)
}

/// The calls of a step on an arena of these buffers: what is prepared first, where the candidate does and there is room for
/// it, then the entries, each with where its buffers start.
pub(crate) fn step(
    kernel: &dyn Kernel,
    forward: &EntryLayout,
    entries: &[(&'static EntryLayout, usize)],
    case: &Case,
    candidate: &Loaded,
    buffers: &[Buffer],
) -> Result<Vec<EntryCall>, String> {
    let prepared = place(buffers).filter(|_| candidate.prepares.is_some());
    let mut calls = Vec::new();
    if prepared.is_some() {
        calls.push(call(kernel, forward, case, buffers)?);
    }
    for (layout, first) in entries {
        let plan = candidate.plan.as_ref();
        calls.push(arguments::entry_call(kernel, layout, case, *first, prepared, plan, &candidate.knobs)?);
    }
    Ok(calls)
}
