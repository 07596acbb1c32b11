//! A launch plan, `kernels/<op>.launch.toml`: which device kernels one call launches, as data.
//!
//! ```toml
//! [[launch]]
//! kernel = "softmax_rows"
//! when = "cols <= 8192"
//! grid = ["rows"]
//! block = [256]
//! shared = "cols * 4"
//!
//! [[workspace]]
//! name = "partial"
//! bytes = "rows * 8"
//! ```
//!
//! [`parse`] checks the text against the entries and names it may use; [`Plan::resolve`] gives the launches of one
//! case as numbers, [`Plan::tensor_maps`] the tensor maps that they take.

mod tensor_map;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diagnostic::{Diagnostic, Step, dotted, path_at};
use crate::expression::{Expression, ExpressionError, Scope, Type, Value};
use crate::manifest::{Manifest, ShapeValue};
use crate::spelling::nearest;

use self::tensor_map::PlannedMap;
pub use self::tensor_map::{Extent, Outside, Promotion, Swizzle, TensorMap, TensorMapTable};

/// An expression as it is written: a text, or a bare integer.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "an integer or an expression in quotes")]
pub enum Written {
    /// A bare integer.
    Number(i64),
    /// An expression.
    Text(String),
}

impl Written {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// The file as it is written.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanTable {
    /// Launches of a call, in order.
    #[serde(default)]
    pub launch: Vec<LaunchTable>,
    /// Scratch buffers that the harness provides.
    #[serde(default)]
    pub workspace: Vec<WorkspaceBuffer>,
    /// Descriptions of buffers, by which a kernel moves whole tiles of them (CUDA).
    #[serde(default)]
    pub tensor_map: Vec<TensorMapTable>,
}

/// One launch as it is written.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LaunchTable {
    /// The entry it belongs to. Default: the operator's forward.
    pub entry: Option<String>,
    /// The `extern "C" __global__` function.
    pub kernel: String,
    /// Only when this holds.
    pub when: Option<Written>,
    /// One to three sizes; a launch with a zero among them is skipped.
    pub grid: Vec<Written>,
    /// One to three sizes. A kernel of Triton has its own.
    #[serde(default)]
    pub block: Vec<Written>,
    /// Blocks of a cluster, one to three sizes.
    #[serde(default)]
    pub cluster: Vec<Written>,
    /// Bytes of dynamic shared memory.
    pub shared: Option<Written>,
    /// `"struct"`, the args struct by value (the default), or a list of its fields, workspace buffers and tensor maps.
    pub args: Option<ArgsTable>,
    /// All blocks are on the device at once, and may wait for each other.
    #[serde(default)]
    pub cooperative: bool,
}

/// What a launch passes, as it is written.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "\"struct\" or a list of field names")]
pub enum ArgsTable {
    /// `"struct"`.
    Word(String),
    /// Names.
    Fields(Vec<String>),
}

/// A scratch buffer.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkspaceBuffer {
    /// The name `args` uses.
    pub name: String,
    /// Its size.
    pub bytes: Written,
    /// What it holds before each call.
    #[serde(default)]
    pub fill: Fill,
}

/// What a workspace buffer holds before a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Fill {
    /// Whatever was there: before each call another number fills it.
    #[default]
    Poison,
    /// Zeros, written before every call and timed with it.
    Zero,
}

/// A launch plan whose expressions parse and whose names are known.
#[derive(Debug, Clone)]
pub struct Plan {
    launches: Vec<PlannedLaunch>,
    workspace: Vec<(String, Expression, Fill)>,
    maps: Vec<PlannedMap>,
}

#[derive(Debug, Clone)]
struct PlannedLaunch {
    entry: String,
    kernel: String,
    when: Option<Expression>,
    grid: Vec<Expression>,
    block: Vec<Expression>,
    cluster: Vec<Expression>,
    shared: Expression,
    fields: Option<Vec<String>>,
    cooperative: bool,
}

/// A launch in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The device function.
    pub kernel: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster, if clusters are used.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Fields, workspace buffers and tensor maps to pass; none means the args struct by value.
    pub fields: Option<Vec<String>>,
    /// Whether all blocks must be on the device at once.
    pub cooperative: bool,
}

/// A workspace buffer in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: usize,
    /// What it holds before each call.
    pub fill: Fill,
}

/// What a plan may refer to.
#[derive(Debug, Clone, Default)]
pub struct PlanContext {
    /// Entries of the operator, forward first, and the fields of each one's args struct.
    pub entries: Vec<(String, Vec<String>)>,
    /// Sizes of a shape and knobs: integers.
    pub integers: Vec<String>,
    /// Choices of a shape, and `dtype`: texts.
    pub texts: Vec<String>,
}

impl PlanContext {
    /// What the plan of a crate may refer to: `entries` are those its header declares, with the fields of each.
    #[must_use]
    pub fn of(manifest: &Manifest, mut entries: Vec<(String, Vec<String>)>) -> Self {
        // The forward entry is the default of a launch.
        entries.sort_by_key(|(symbol, _)| *symbol != manifest.op);
        let (mut integers, mut texts) = (Vec::new(), vec!["dtype".to_owned()]);
        for (name, value) in manifest.shapes.first().map(|shape| shape.parameters.as_slice()).unwrap_or_default() {
            if matches!(value, ShapeValue::Size(_)) { &mut integers } else { &mut texts }.push(name.clone());
        }
        integers.extend(manifest.knobs.keys().cloned());
        Self { entries, integers, texts }
    }
}

/// The most threads of a block on every device we know.
const MOST_THREADS: i64 = 1024;

/// Reads a launch plan.
///
/// # Errors
/// Everything that is wrong with it, each pointing into the file.
pub fn parse(file: &str, text: &str, context: &PlanContext) -> Result<Plan, Vec<Diagnostic>> {
    let table: PlanTable = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let path = path_at(text, span.start);
        let mut wrong =
            Diagnostic::at(file, text, span, error.message().split(", expected one").next().unwrap_or_default());
        wrong.key = (!path.is_empty()).then(|| dotted(&path));
        let quoted: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
        if let (true, [found, valid @ ..]) = (error.message().starts_with("unknown field"), quoted.as_slice()) {
            wrong.hint = nearest(found, valid.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        }
        vec![wrong]
    })?;
    let mut reader = Reader { file, text, context, findings: Vec::new() };
    let plan = reader.plan(&table);
    if reader.findings.is_empty() { Ok(plan) } else { Err(reader.findings) }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    context: &'a PlanContext,
    findings: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn wrong(&mut self, path: &[Step], message: impl Into<String>) {
        self.findings.push(Diagnostic::at_path(self.file, self.text, path, message));
    }

    fn plan(&mut self, table: &PlanTable) -> Plan {
        let workspace: Vec<_> = table
            .workspace
            .iter()
            .enumerate()
            .map(|(index, buffer)| {
                let path = [Step::from("workspace"), index.into(), "bytes".into()];
                (buffer.name.clone(), self.expression(&buffer.bytes, &path, Type::Int), buffer.fill)
            })
            .collect();
        let names: Vec<String> = workspace.iter().map(|(name, ..)| name.clone()).collect();
        for (index, name) in names.iter().enumerate() {
            // In `args` it would stand for the buffer, and nothing for the field.
            let is_field = self.context.entries.iter().any(|(_, fields)| fields.contains(name));
            if is_field || names[..index].contains(name) {
                let path = [Step::from("workspace"), index.into(), "name".into()];
                self.wrong(&path, format!("`{name}` is the name of something else already"));
            }
        }
        let maps = self.tensor_maps(&table.tensor_map, &names);
        let launches = table.launch.iter().enumerate();
        let launches: Vec<_> = launches.map(|(index, launch)| self.launch(index, launch, &names, &maps)).collect();
        for (entry, _) in &self.context.entries.clone() {
            if !launches.iter().any(|launch| launch.entry == *entry) {
                self.findings.push(Diagnostic::file(self.file, format!("no launch for entry `{entry}`")));
            }
        }
        Plan { launches, workspace, maps }
    }

    fn launch(
        &mut self,
        index: usize,
        table: &LaunchTable,
        workspace: &[String],
        maps: &[PlannedMap],
    ) -> PlannedLaunch {
        let at = |key: &str| vec![Step::from("launch"), index.into(), key.into()];
        let entry = match &table.entry {
            Some(entry) => entry.clone(),
            None => self.context.entries.first().map(|(entry, _)| entry.clone()).unwrap_or_default(),
        };
        let fields_of_entry = self.context.entries.iter().find(|(known, _)| *known == entry).map(|(_, fields)| fields);
        let Some(known_fields) = fields_of_entry.cloned() else {
            let names = self.context.entries.iter().map(|(known, _)| known.as_str());
            let hint = nearest(&entry, names).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            self.wrong(&at("entry"), format!("no entry `{entry}`{hint}"));
            return self.assemble(table, entry, None, index);
        };
        let fields = match &table.args {
            None => None,
            Some(ArgsTable::Word(word)) if word == "struct" => None,
            Some(ArgsTable::Word(word)) => {
                self.wrong(&at("args"), format!("`{word}`: write \"struct\" or a list of fields"));
                None
            }
            Some(ArgsTable::Fields(fields)) => {
                let buffers: Vec<&str> = known_fields.iter().chain(workspace).map(String::as_str).collect();
                let names = || buffers.iter().copied().chain(maps.iter().map(|map| map.name.as_str()));
                for (position, field) in fields.iter().enumerate() {
                    let mut path = at("args");
                    path.push(position.into());
                    let map = maps.iter().find(|map| map.name == *field);
                    if !names().any(|name| name == field) {
                        let hint =
                            nearest(field, names()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                        self.wrong(&path, format!("no field, workspace buffer or tensor map `{field}`{hint}"));
                    } else if let Some(map) = map.filter(|map| !buffers.contains(&map.buffer.as_str())) {
                        let message = format!("`{field}` is a map of `{}`, which entry `{entry}` has not", map.buffer);
                        self.wrong(&path, message);
                    }
                }
                Some(fields.clone())
            }
        };
        self.assemble(table, entry, fields, index)
    }

    fn assemble(
        &mut self,
        table: &LaunchTable,
        entry: String,
        fields: Option<Vec<String>>,
        index: usize,
    ) -> PlannedLaunch {
        let at = |key: &str| vec![Step::from("launch"), index.into(), key.into()];
        PlannedLaunch {
            entry,
            kernel: table.kernel.clone(),
            when: table.when.as_ref().map(|when| self.expression(when, &at("when"), Type::Bool)),
            grid: self.sizes(&table.grid, &at("grid"), 1),
            block: self.sizes(&table.block, &at("block"), 1),
            cluster: self.sizes(&table.cluster, &at("cluster"), 0),
            shared: self.expression(table.shared.as_ref().unwrap_or(&Written::Number(0)), &at("shared"), Type::Int),
            fields,
            cooperative: table.cooperative,
        }
    }

    fn sizes(&mut self, written: &[Written], path: &[Step], least: usize) -> Vec<Expression> {
        if !(least..=3).contains(&written.len()) {
            self.wrong(path, format!("takes one to three sizes, not {}", written.len()));
        }
        self.integers(written, path)
    }

    fn integers(&mut self, written: &[Written], path: &[Step]) -> Vec<Expression> {
        written
            .iter()
            .enumerate()
            .map(|(index, size)| {
                let path: Vec<Step> = path.iter().cloned().chain([index.into()]).collect();
                self.expression(size, &path, Type::Int)
            })
            .collect()
    }

    fn expression(&mut self, written: &Written, path: &[Step], wanted: Type) -> Expression {
        let (names, texts) = (self.names(), &self.context.texts);
        let types = |name: &str| {
            if texts.iter().any(|text| text == name) {
                Some(Type::Text)
            } else {
                names.iter().any(|known| known == name).then_some(Type::Int)
            }
        };
        let text = written.text();
        let parsed = Expression::parse(&text).and_then(|expression| {
            let found = expression.check(&types, &names)?;
            if found == wanted {
                return Ok(expression);
            }
            Err(ExpressionError { message: format!("needs {wanted}, is {found}"), span: 0..text.len() })
        });
        parsed.unwrap_or_else(|error| {
            self.point(path, &error);
            // Unreachable as a value: a reader with findings returns no plan.
            Expression::parse("0").unwrap_or_else(|_| unreachable!("`0` is an expression"))
        })
    }

    fn names(&self) -> Vec<String> {
        self.context.integers.iter().chain(&self.context.texts).cloned().collect()
    }

    /// An error inside an expression, as a place in the file: the value starts with a quote.
    fn point(&mut self, path: &[Step], error: &ExpressionError) {
        let finding = match crate::diagnostic::span_of(self.text, path) {
            Some(span) => {
                let start = span.start + usize::from(self.text[span.start..].starts_with(['"', '\'']));
                let inner = start + error.span.start..start + error.span.end;
                let mut finding = Diagnostic::at(self.file, self.text, inner, &error.message);
                finding.key = Some(dotted(path));
                finding
            }
            None => Diagnostic::file(self.file, &error.message),
        };
        self.findings.push(finding);
    }
}

impl Plan {
    /// The device functions it names, to be looked for in the object.
    #[must_use]
    pub fn kernels(&self) -> Vec<&str> {
        self.launches.iter().map(|launch| launch.kernel.as_str()).collect()
    }

    /// The launches of one call of `entry`.
    ///
    /// # Errors
    /// When an expression has no value for this case, or a size is out of range.
    pub fn resolve(&self, entry: &str, scope: &BTreeMap<String, Value>) -> Result<Vec<Launch>, String> {
        let mut launches = Vec::new();
        for planned in self.launches.iter().filter(|launch| launch.entry == entry) {
            let say = |what: &str, error: &dyn std::fmt::Display| format!("{} of `{}`: {error}", what, planned.kernel);
            if let Some(when) = &planned.when
                && !when.condition(scope).map_err(|error| say("`when`", &error))?
            {
                continue;
            }
            let grid = sizes(&planned.grid, scope, 0).map_err(|error| say("`grid`", &error))?;
            let block = sizes(&planned.block, scope, 1).map_err(|error| say("`block`", &error))?;
            if block.iter().map(|size| i64::from(*size)).product::<i64>() > MOST_THREADS {
                return Err(say("`block`", &format!("{block:?} is more than {MOST_THREADS} threads")));
            }
            let cluster = match planned.cluster.is_empty() {
                true => None,
                false => Some(sizes(&planned.cluster, scope, 1).map_err(|error| say("`cluster`", &error))?),
            };
            let shared = planned.shared.integer(scope).map_err(|error| say("`shared`", &error))?;
            let shared =
                u32::try_from(shared).map_err(|_| say("`shared`", &format!("{shared} bytes is out of range")))?;
            if grid.contains(&0) {
                continue;
            }
            let (kernel, fields, cooperative) = (planned.kernel.clone(), planned.fields.clone(), planned.cooperative);
            launches.push(Launch { kernel, grid, block, cluster, shared, fields, cooperative });
        }
        Ok(launches)
    }

    /// The workspace buffers of one case.
    ///
    /// # Errors
    /// When a size has no value for this case or is negative.
    pub fn workspace(&self, scope: &dyn Scope) -> Result<Vec<Workspace>, String> {
        let size = |(name, bytes, fill): &(String, Expression, Fill)| {
            let value = bytes.integer(scope).map_err(|error| format!("`bytes` of `{name}`: {error}"))?;
            let bytes = usize::try_from(value).map_err(|_| format!("`bytes` of `{name}`: {value} is negative"))?;
            Ok(Workspace { name: name.clone(), bytes, fill: *fill })
        };
        self.workspace.iter().map(size).collect()
    }

    /// Those of them that these launches take, themselves or by a tensor map: what an entry does not need is neither
    /// allocated nor zeroed for it.
    ///
    /// # Errors
    /// As [`Plan::workspace`].
    pub fn workspace_of(&self, launches: &[Launch], scope: &dyn Scope) -> Result<Vec<Workspace>, String> {
        let named =
            |name: &str| launches.iter().any(|launch| launch.fields.iter().flatten().any(|field| field == name));
        let mapped = |name: &str| self.maps.iter().any(|map| map.buffer == name && named(&map.name));
        let mut all = self.workspace(scope)?;
        all.retain(|buffer| named(&buffer.name) || mapped(&buffer.name));
        Ok(all)
    }
}

fn sizes(expressions: &[Expression], scope: &dyn Scope, least: i64) -> Result<[u32; 3], String> {
    let mut sizes = [1; 3];
    for (size, expression) in sizes.iter_mut().zip(expressions) {
        let value = expression.integer(scope).map_err(|error| error.to_string())?;
        if value < least || value > i64::from(i32::MAX) {
            return Err(format!("`{}` is {value}, out of range", expression.text()));
        }
        *size = u32::try_from(value).map_err(|error| error.to_string())?;
    }
    Ok(sizes)
}
