//! From a layout that bindgen read to the bytes of an args struct: sizes and scalars filled in, pointers left for the
//! process that knows the addresses.

use std::collections::BTreeMap;

use kopt_schema::expression::Value;
use kopt_schema::manifest::{Manifest, ShapeValue};
use kopt_schema::plan::{self, Extent, Plan, PlanContext};
use kopt_schema::wire::{ArgField, EntryCall, Scratch};

use super::prepare;
use crate::kernel::{Case, Kernel};
use crate::package::{EntryLayout, FieldKind};

/// Everything about an entry's call but the addresses. Its buffers stand in the arena from `first_buffer` on; `prepared` is
/// what was prepared for it. An entry whose struct has no field for that does without.
pub(crate) fn entry_call(
    kernel: &dyn Kernel,
    layout: &EntryLayout,
    case: &Case,
    first_buffer: usize,
    prepared: Option<usize>,
    plan: Option<&Plan>,
    knobs: &BTreeMap<String, i64>,
) -> Result<EntryCall, String> {
    let own = kernel.buffers(layout.symbol, case);
    let scalars = kernel.scalars(layout.symbol, case);
    let mut args = vec![0; layout.size];
    let mut fields = Vec::new();
    for field in layout.fields {
        let name = field.name;
        let mut put = |bytes: &[u8]| args[field.offset..field.offset + bytes.len()].copy_from_slice(bytes);
        let (size, buffer) = match field.kind {
            // Null where nothing is prepared.
            FieldKind::Pointer { writable: false } if name == prepare::FIELD => (8, prepared),
            FieldKind::Pointer { writable: true } if name == prepare::FIELD => {
                return Err(format!("field `{name}` of `{}_args`: its pointer must be const", layout.symbol));
            }
            FieldKind::Pointer { writable } => {
                let known = own.iter().find(|buffer| buffer.name == name);
                let known = known.ok_or_else(|| unknown(kernel, layout, name, own.iter().map(|buffer| buffer.name)))?;
                if known.written != writable {
                    let wanted = if known.written {
                        "written: its pointer must not be const"
                    } else {
                        "read: its pointer must be const"
                    };
                    return Err(format!("field `{name}` of `{}_args`: the buffer is {wanted}", layout.symbol));
                }
                (8, own.iter().position(|buffer| buffer.name == name).map(|index| first_buffer + index))
            }
            FieldKind::Int64 => {
                let given = case.shape.parameters.iter().find_map(|(key, value)| match value {
                    ShapeValue::Size(size) if key == name => Some(*size),
                    _ => None,
                });
                let sizes = kernel.parameters();
                let value = given.ok_or_else(|| unknown(kernel, layout, name, sizes.iter().map(|size| size.name)))?;
                put(&value.to_le_bytes());
                (8, None)
            }
            FieldKind::Float32 => {
                let given = scalars.iter().find(|(key, _)| *key == name);
                let (_, value) =
                    given.ok_or_else(|| unknown(kernel, layout, name, scalars.iter().map(|(key, _)| *key)))?;
                put(&value.to_le_bytes());
                (4, None)
            }
        };
        fields.push(ArgField { name: name.to_owned(), offset: field.offset, size, buffer });
    }
    for buffer in &own {
        if !layout.fields.iter().any(|field| field.name == buffer.name) {
            return Err(format!(
                "`{}_args` has no field for buffer `{}` of operator {}",
                layout.symbol,
                buffer.name,
                kernel.op()
            ));
        }
    }
    let (mut launches, mut workspace, mut tensor_maps) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(plan) = plan {
        let scope = scope(case, knobs);
        launches = plan.resolve(layout.symbol, &scope)?;
        if launches.is_empty() && own.iter().any(|buffer| buffer.written && buffer.len > 0) {
            return Err(format!("no launch of the plan is for `{}` of shape {}", layout.symbol, case.shape.name));
        }
        let scratch = |buffer: plan::Workspace| Scratch { name: buffer.name, bytes: buffer.bytes, fill: buffer.fill };
        workspace = plan.workspace_of(&launches, &scope)?.into_iter().map(scratch).collect();
        let extent = |name: &str| match own.iter().find(|buffer| buffer.name == name) {
            Some(buffer) => Ok(Some(Extent { dtype: buffer.dtype, bytes: buffer.bytes() })),
            None => Err(format!("`{name}` of `{}_args` points to no buffer of the operator", layout.symbol)),
        };
        tensor_maps = plan.tensor_maps(&launches, &scope, &extent)?;
    }
    Ok(EntryCall { symbol: layout.symbol.to_owned(), args, fields, second: None, launches, workspace, tensor_maps })
}

/// Reads a candidate's launch plan.
pub(crate) fn read_plan(text: &str, manifest: &Manifest, layouts: &[EntryLayout]) -> Result<Plan, String> {
    let fields = |layout: &EntryLayout| layout.fields.iter().map(|field| field.name.to_owned()).collect();
    let entries = layouts.iter().map(|layout| (layout.symbol.to_owned(), fields(layout))).collect();
    let context = PlanContext::of(manifest, entries);
    let file = manifest.launch.as_deref().unwrap_or("launch plan");
    plan::parse(file, text, &context)
        .map_err(|findings| findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn scope(case: &Case, knobs: &BTreeMap<String, i64>) -> BTreeMap<String, Value> {
    let mut scope = case.shape.scope();
    scope.extend(knobs.iter().map(|(name, value)| (name.clone(), Value::Int(*value))));
    scope.insert("dtype".to_owned(), Value::Text(case.dtype.name().to_owned()));
    scope
}

fn unknown<'a>(kernel: &dyn Kernel, layout: &EntryLayout, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    format!(
        "operator {} knows no `{name}`, a field of `{}_args`; it has {}",
        kernel.op(),
        layout.symbol,
        if known.is_empty() { "none of that kind".to_owned() } else { known.join(", ") }
    )
}
