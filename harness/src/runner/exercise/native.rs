//! The calls as a file that the driver of kopt-build's `sanitize` reads; its header has the format.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use kopt_schema::wire::EntryCall;

use super::{Bounds, Exercise, Failure, each};
use crate::kernel::{Buffer, Kernel};
use crate::package::Package;
use crate::runner::{arguments, prepare};

const MARK: u64 = 0x3165_7372_746f_706b;

/// What a pointer of a call is to.
const READ: usize = 0;
const WRITTEN: usize = 1;
const PREPARED: usize = 2;

/// Elements of a case's largest buffer. A sanitizer takes some ten times as long as the kernel.
const ELEMENTS: usize = 1 << 16;

/// Writes the calls to `file`.
pub(super) fn write(package: &'static Package, kernel: &dyn Kernel, file: &OsStr, flops: f64) -> Result<(), Failure> {
    let mut calls = Vec::new();
    let mut count = 0;
    each(package, kernel, Bounds { elements: ELEMENTS, flops }, |one| {
        let prepared = one.layout.fields.iter().find(|field| field.name == prepare::FIELD).map(|field| field.offset);
        if prepared.is_some() {
            // Whether the candidate prepares anything, the driver knows.
            add(&mut calls, &prepare::call(kernel, one.forward, &one.case, &one.buffers)?, one, None);
            count += 1;
        }
        let entry = arguments::entry_call(kernel, one.layout, &one.case, 0, None, None, &BTreeMap::new())?;
        add(&mut calls, &entry, one, prepared);
        count += 1;
        Ok(())
    })?;
    let head = [MARK, count].into_iter().flat_map(u64::to_le_bytes);
    let bytes: Vec<u8> = head.chain(calls).collect();
    std::fs::write(file, bytes).map_err(|error| Failure::Wrong(error.to_string()))
}

/// One call; `prepared` is where its struct wants what was prepared.
fn add(file: &mut Vec<u8>, call: &EntryCall, one: &Exercise<'_>, prepared: Option<usize>) {
    word(file, call.symbol.len());
    padded(file, call.symbol.as_bytes());
    word(file, call.args.len());
    padded(file, &call.args);
    let pointers: Vec<(usize, &Buffer)> =
        call.fields.iter().filter_map(|field| Some((field.offset, &one.buffers[field.buffer?]))).collect();
    word(file, pointers.len() + usize::from(prepared.is_some()));
    if let Some(offset) = prepared {
        for value in [offset, 0, 0, PREPARED] {
            word(file, value);
        }
    }
    for (offset, buffer) in pointers {
        for value in [offset, buffer.bytes(), buffer.align, if buffer.written { WRITTEN } else { READ }] {
            word(file, value);
        }
        if !buffer.written {
            padded(file, &one.content(buffer));
        }
    }
}

fn word(file: &mut Vec<u8>, value: usize) {
    file.extend((value as u64).to_le_bytes());
}

fn padded(file: &mut Vec<u8>, bytes: &[u8]) {
    file.extend(bytes);
    file.resize(file.len().next_multiple_of(8), 0);
}
