//! Calls for the sanitizers: small cases of every entry, with secret contents, written to a file that the driver of
//! kopt-build's `sanitize` reads (its header has the format). Nothing is expected of the results here: memory is what is
//! looked at, and a case of a few thousand elements has every edge that a large one has.

use std::collections::BTreeMap;
use std::process::ExitCode;

use kopt_schema::bout::EXERCISE_ARGUMENT;
use kopt_schema::manifest::Shape;
use kopt_schema::wire::EntryCall;

use super::{arguments, cases, prepare};
use crate::kernel::{Buffer, Case, Kernel};
use crate::package::Package;
use crate::tensor::{Draw, encode};

const MARK: u64 = 0x3165_7372_746f_706b;

/// What a pointer of a call is to.
const READ: usize = 0;
const WRITTEN: usize = 1;
const PREPARED: usize = 2;

/// Elements of a case's largest buffer. A sanitizer takes some ten times as long as the kernel.
const ELEMENTS: usize = 1 << 16;

/// Shapes that nobody knows beforehand, each under one distribution.
const RANDOM: usize = 8;

/// If this process was started for it, writes the file it is told to.
#[allow(clippy::print_stderr, reason = "the main of a test binary")]
pub(crate) fn write_if_asked(package: &'static Package, kernel: &'static dyn Kernel) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().filter(|argument| argument == EXERCISE_ARGUMENT)?;
    let written = match arguments.next() {
        Some(path) => calls(package, kernel).and_then(|bytes| std::fs::write(path, bytes).map_err(|e| e.to_string())),
        None => Err("no file is named".to_owned()),
    };
    Some(match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    })
}

/// The bytes of the file.
fn calls(package: &'static Package, kernel: &dyn Kernel) -> Result<Vec<u8>, String> {
    let manifest = package.manifest();
    let layouts = cases::entries(package, kernel)?;
    let mut draw = Draw::new(getrandom::u64().map_err(|error| format!("no secret seed: {error}"))?, "exercise");
    let mut file = Vec::new();
    let mut count = 0;
    for layout in layouts.iter().copied() {
        let mut shapes: Vec<Shape> = manifest.shapes.iter().cloned().chain(kernel.odd_shapes()).collect();
        shapes.extend((0..RANDOM).map(|_| kernel.random_shape(&mut draw)));
        let distributions = kernel.distributions();
        for (turn, shape) in shapes.into_iter().enumerate() {
            let case = Case { shape, dtype: manifest.dtype };
            let buffers = kernel.buffers(layout.symbol, &case);
            if buffers.iter().any(|buffer| buffer.len > ELEMENTS) {
                continue;
            }
            // Every shape has its turn with one distribution: contents decide nothing of where a kernel reads and writes but
            // for group sizes, which are in every one of them.
            let distribution = distributions[turn % distributions.len()];
            let tensors = kernel.inputs(layout.symbol, &case, distribution, &mut draw);
            let fill = |buffer: &Buffer, bytes: &mut [u8]| {
                if let Some(values) = tensors.get(buffer.name) {
                    encode(values, buffer.dtype, bytes);
                }
            };
            let prepared = layout.fields.iter().find(|field| field.name == prepare::FIELD).map(|field| field.offset);
            if prepared.is_some() {
                // Whether the candidate prepares anything, the driver knows.
                call(&mut file, &prepare::call(kernel, layouts[0], &case, &buffers)?, &buffers, None, fill);
                count += 1;
            }
            let entry = arguments::entry_call(kernel, layout, &case, 0, None, None, &BTreeMap::new())?;
            call(&mut file, &entry, &buffers, prepared, fill);
            count += 1;
        }
    }
    let head = [MARK, count].into_iter().flat_map(u64::to_le_bytes);
    Ok(head.chain(file).collect())
}

/// One call; `prepared` is where its struct wants what was prepared.
fn call(
    file: &mut Vec<u8>,
    call: &EntryCall,
    buffers: &[Buffer],
    prepared: Option<usize>,
    fill: impl Fn(&Buffer, &mut [u8]),
) {
    word(file, call.symbol.len());
    padded(file, call.symbol.as_bytes());
    word(file, call.args.len());
    padded(file, &call.args);
    let pointers: Vec<_> =
        call.fields.iter().filter_map(|field| Some((field.offset, &buffers[field.buffer?]))).collect();
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
            let mut bytes = vec![0; buffer.bytes()];
            fill(buffer, &mut bytes);
            padded(file, &bytes);
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
