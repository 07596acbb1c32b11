//! The crate's launch plan, completed with what Triton decides: threads, shared memory, arguments, and for which sizes a
//! kernel is right.

use toml::{Table, Value};

use super::Kernel;

/// What a plan may not say itself.
const DECIDED: [&str; 4] = ["block", "shared", "cluster", "args"];

/// Pointers of the harness are multiples of this.
const ALIGNED: u64 = 256;

/// The plan as the harness reads it.
pub(super) fn complete(kernels: &[Kernel], written: &str) -> Result<String, String> {
    let mut plan: Table = toml::from_str(written).map_err(|error| error.message().to_owned())?;
    let Some(Value::Array(launches)) = plan.get_mut("launch") else {
        return Err("it has no [[launch]]".to_owned());
    };
    let mut scratch = Vec::new();
    for launch in launches.iter_mut().filter_map(Value::as_table_mut) {
        let name = launch.get("kernel").and_then(Value::as_str).unwrap_or_default();
        let Some(kernel) = kernels.iter().find(|kernel| kernel.name == name) else {
            let names = kernels.iter().map(|kernel| kernel.name.as_str());
            let near = kopt_schema::nearest(name, names).map(|near| format!("; did you mean `{near}`?"));
            return Err(format!("the source lists no kernel `{name}`{}", near.unwrap_or_default()));
        };
        if let Some(key) = DECIDED.iter().find(|key| launch.contains_key(**key)) {
            return Err(format!("`{key}` of `{name}` is decided by Triton: remove it"));
        }
        if let Some((pointer, bytes)) = kernel.aligned.iter().find(|(_, bytes)| !ALIGNED.is_multiple_of(**bytes)) {
            return Err(format!("`{name}` takes `{pointer}` to be a multiple of {bytes}, buffers are of {ALIGNED}"));
        }
        fill(launch, kernel, &mut scratch)?;
    }
    if !scratch.is_empty() {
        let given = plan.entry("workspace").or_insert_with(|| Value::Array(Vec::new()));
        given.as_array_mut().ok_or("`workspace` is a list")?.extend(scratch);
    }
    toml::to_string(&plan).map_err(|error| error.to_string())
}

fn fill(launch: &mut Table, kernel: &Kernel, scratch: &mut Vec<Value>) -> Result<(), String> {
    let conditions = kernel.divisible.iter().map(|(name, by)| format!("{name} % {by} == 0"));
    let given = launch.get("when").and_then(Value::as_str).map(|when| format!("({when})"));
    let conditions: Vec<String> = given.into_iter().chain(conditions).collect();
    if !conditions.is_empty() {
        launch.insert("when".to_owned(), Value::String(conditions.join(" && ")));
    }
    let number = |value: u64| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let threads = u64::from(kernel.warps) * u64::from(kernel.warp_size);
    launch.insert("block".to_owned(), Value::Array(vec![number(threads)]));
    launch.insert("shared".to_owned(), number(kernel.shared));
    let blocks = launch.get("grid").and_then(Value::as_array).map_or_else(|| "1".to_owned(), |sizes| product(sizes));
    if kernel.cluster > 1 {
        launch.insert("cluster".to_owned(), Value::Array(vec![number(kernel.cluster.into())]));
        // Triton's grid counts clusters.
        if let Some(first) = launch.get_mut("grid").and_then(Value::as_array_mut).and_then(|sizes| sizes.first_mut()) {
            *first = Value::String(format!("({}) * {}", text(first), kernel.cluster));
        }
    }
    let mut arguments = kernel.arguments.clone();
    for bytes in &kernel.scratch {
        let name = format!("triton_scratch_{}", scratch.len());
        let mut buffer = Table::new();
        buffer.insert("name".to_owned(), Value::String(name.clone()));
        // Whatever a generator prints: an expression counts in 64 bits with a sign.
        let of_cluster = bytes.checked_mul(kernel.cluster.into()).filter(|bytes| i64::try_from(*bytes).is_ok());
        let of_cluster = of_cluster
            .ok_or_else(|| format!("`{}` takes {bytes} bytes for each of {} blocks", kernel.name, kernel.cluster))?;
        let size = format!("{of_cluster} * {blocks}");
        buffer.insert("bytes".to_owned(), if *bytes == 0 { number(0) } else { Value::String(size) });
        scratch.push(Value::Table(buffer));
        arguments.push(name);
    }
    launch.insert("args".to_owned(), Value::Array(arguments.into_iter().map(Value::String).collect()));
    Ok(())
}

fn product(sizes: &[Value]) -> String {
    sizes.iter().map(|size| format!("({})", text(size))).collect::<Vec<_>>().join(" * ")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
