//! Tensor maps of a launch plan: what a kernel's tile accesses (CUDA's TMA) need to know of a buffer.
//!
//! ```toml
//! [[tensor_map]]
//! name = "x_tiles"
//! buffer = "x"
//! sizes = ["cols", "rows"]
//! box = [32, 8]
//! swizzle = "128"
//! ```
//!
//! A launch that lists `x_tiles` among its `args` gets it by value, as a `const __grid_constant__ CUtensorMap`. Maps are made
//! by the worker, from these numbers and an address that only it knows; a candidate never makes one. What the driver would
//! refuse with one word for everything is refused here with its number.

use serde::{Deserialize, Serialize};

use super::{Launch, Plan, Reader, Written};
use crate::diagnostic::Step;
use crate::dtype::DType;
use crate::expression::{Expression, Scope};
use crate::spelling::nearest;

/// The most elements that one access takes along a size.
const MOST_BOX: u64 = 256;

/// The most elements along a size.
const MOST_ELEMENTS: u64 = 1 << 32;

/// Strides are smaller, in bytes.
const STRIDES_BELOW: u64 = 1 << 40;

/// What to do about a shape that no map can have.
const OTHERWISE: &str = "give such shapes another launch with `when`";

/// A tensor map as it is written.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TensorMapTable {
    /// The name `args` uses.
    pub name: String,
    /// The field of the args struct, or the workspace buffer, that it describes.
    pub buffer: String,
    /// Element type. Default: that of the buffer; a workspace buffer has none.
    pub dtype: Option<DType>,
    /// One to five sizes in elements, the innermost first.
    pub sizes: Vec<Written>,
    /// Elements from one to the next along each size but the first. Default: there is nothing between them.
    pub strides: Option<Vec<Written>>,
    /// Elements that one access takes along each size, at most 256.
    #[serde(rename = "box")]
    pub tile: Vec<Written>,
    /// How 16-byte pieces of a tile are permuted in shared memory.
    #[serde(default)]
    pub swizzle: Swizzle,
    /// Bytes that the second-level cache fetches at once.
    #[serde(default)]
    pub l2: Promotion,
    /// What is read outside of the buffer.
    #[serde(default)]
    pub fill: Outside,
}

/// How a tile lies in shared memory: the bytes within which its 16-byte pieces are permuted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub enum Swizzle {
    /// As it is.
    #[default]
    #[serde(rename = "none")]
    None,
    /// Within 32 bytes.
    #[serde(rename = "32")]
    Within32,
    /// Within 64 bytes.
    #[serde(rename = "64")]
    Within64,
    /// Within 128 bytes.
    #[serde(rename = "128")]
    Within128,
}

impl Swizzle {
    /// The bytes, where pieces are permuted.
    #[must_use]
    pub const fn bytes(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Within32 => Some(32),
            Self::Within64 => Some(64),
            Self::Within128 => Some(128),
        }
    }
}

/// Bytes that the second-level cache fetches at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub enum Promotion {
    /// What is asked for.
    #[default]
    #[serde(rename = "none")]
    None,
    /// 64 bytes.
    #[serde(rename = "64")]
    By64,
    /// 128 bytes.
    #[serde(rename = "128")]
    By128,
    /// 256 bytes.
    #[serde(rename = "256")]
    By256,
}

/// What is read outside of the buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Outside {
    /// Zeros.
    #[default]
    Zero,
    /// A NaN.
    Nan,
}

/// A tensor map in numbers; what it lacks is an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMap {
    /// Its name.
    pub name: String,
    /// The buffer that it describes.
    pub buffer: String,
    /// Element type.
    pub dtype: DType,
    /// Elements, the innermost first.
    pub sizes: Vec<u64>,
    /// Bytes from one to the next along each size but the first.
    pub strides: Vec<u64>,
    /// Elements that one access takes along each size.
    #[serde(rename = "box")]
    pub tile: Vec<u32>,
    /// How a tile lies in shared memory.
    pub swizzle: Swizzle,
    /// Bytes that the second-level cache fetches at once.
    pub l2: Promotion,
    /// What is read outside of the buffer.
    pub fill: Outside,
}

impl TensorMap {
    /// The most sizes of a map.
    pub const MOST_SIZES: usize = 5;

    /// What addresses, strides and rows of a box are multiples of, in bytes.
    pub const UNIT: u64 = 16;
}

/// What a field of the args struct points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Element type.
    pub dtype: DType,
    /// Its size.
    pub bytes: usize,
}

/// A tensor map whose expressions parse and whose names are known.
#[derive(Debug, Clone)]
pub(super) struct PlannedMap {
    pub(super) name: String,
    pub(super) buffer: String,
    dtype: Option<DType>,
    sizes: Vec<Expression>,
    strides: Option<Vec<Expression>>,
    tile: Vec<Expression>,
    swizzle: Swizzle,
    l2: Promotion,
    fill: Outside,
}

impl Reader<'_> {
    pub(super) fn tensor_maps(&mut self, tables: &[TensorMapTable], workspace: &[String]) -> Vec<PlannedMap> {
        let fields: Vec<String> = self.context.entries.iter().flat_map(|(_, fields)| fields.clone()).collect();
        let mut maps: Vec<PlannedMap> = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let at = |key: &str| vec![Step::from("tensor_map"), index.into(), key.into()];
            let known = || fields.iter().chain(workspace).map(String::as_str);
            if known().chain(maps.iter().map(|map| map.name.as_str())).any(|name| name == table.name) {
                self.wrong(&at("name"), format!("`{}` is the name of something else already", table.name));
            }
            if !known().any(|name| name == table.buffer) {
                let hint = nearest(&table.buffer, known()).map(|near| format!("; did you mean `{near}`?"));
                let message = format!("no field or workspace buffer `{}`{}", table.buffer, hint.unwrap_or_default());
                self.wrong(&at("buffer"), message);
            } else if table.dtype.is_none() && workspace.contains(&table.buffer) {
                self.wrong(&at("buffer"), "a workspace buffer has no element type: write `dtype`");
            }
            let rank = table.sizes.len();
            if !(1..=TensorMap::MOST_SIZES).contains(&rank) {
                self.wrong(&at("sizes"), format!("takes one to five sizes, not {rank}"));
            }
            if table.tile.len() != rank {
                self.wrong(&at("box"), format!("has {} of the {rank} sizes", table.tile.len()));
            }
            if let Some(strides) = table.strides.as_ref().filter(|strides| strides.len() + 1 != rank) {
                let message = format!("{} of {rank} sizes: each but the first has one", strides.len());
                self.wrong(&at("strides"), message);
            }
            maps.push(PlannedMap {
                name: table.name.clone(),
                buffer: table.buffer.clone(),
                dtype: table.dtype,
                sizes: self.integers(&table.sizes, &at("sizes")),
                strides: table.strides.as_ref().map(|strides| self.integers(strides, &at("strides"))),
                tile: self.integers(&table.tile, &at("box")),
                swizzle: table.swizzle,
                l2: table.l2,
                fill: table.fill,
            });
        }
        maps
    }
}

impl Plan {
    /// The tensor maps that these launches of one case take; those that no launch takes need not be possible. `of_field` says
    /// what a field points to, or nothing where that is not known: maps of it are left out, once the rest of them is checked.
    ///
    /// # Errors
    /// When an expression has no value for this case, the device could not use the map, or it reaches beyond its buffer.
    pub fn tensor_maps(
        &self,
        launches: &[Launch],
        scope: &dyn Scope,
        of_field: &dyn Fn(&str) -> Result<Option<Extent>, String>,
    ) -> Result<Vec<TensorMap>, String> {
        let taken = |map: &&PlannedMap| {
            let mut names = launches.iter().flat_map(|launch| launch.fields.iter().flatten());
            names.any(|name| *name == map.name)
        };
        let workspace = self.workspace(scope)?;
        let mut maps = Vec::new();
        for planned in self.maps.iter().filter(taken) {
            let say = |error: String| format!("tensor map `{}`: {error}", planned.name);
            let (dtype, bytes) = match workspace.iter().find(|buffer| buffer.name == planned.buffer) {
                Some(buffer) => (None, Some(buffer.bytes)),
                None => of_field(&planned.buffer).map_err(say)?.map(|field| (field.dtype, field.bytes)).unzip(),
            };
            let (sizes, tile) = planned.elements(scope).map_err(say)?;
            if let Some(dtype) = planned.dtype.or(dtype) {
                maps.push(planned.resolve(sizes, tile, dtype, bytes, scope).map_err(say)?);
            }
        }
        Ok(maps)
    }
}

impl PlannedMap {
    /// Sizes and box, which need no element type.
    fn elements(&self, scope: &dyn Scope) -> Result<(Vec<u64>, Vec<u32>), String> {
        let sizes = numbers("sizes", &self.sizes, scope)?;
        if let Some(size) = sizes.iter().find(|size| !(1..=MOST_ELEMENTS).contains(*size)) {
            return Err(format!("`sizes` {sizes:?}: {size} is out of range; {OTHERWISE}"));
        }
        let tile = numbers("box", &self.tile, scope)?;
        if let Some(size) = tile.iter().find(|size| !(1..=MOST_BOX).contains(*size)) {
            return Err(format!("`box` {tile:?}: {size} is out of range, which ends at {MOST_BOX} elements"));
        }
        // At most 256 each.
        Ok((sizes, tile.into_iter().map(|size| u32::try_from(size).unwrap_or(u32::MAX)).collect()))
    }

    fn resolve(
        &self,
        sizes: Vec<u64>,
        tile: Vec<u32>,
        dtype: DType,
        bytes: Option<usize>,
        scope: &dyn Scope,
    ) -> Result<TensorMap, String> {
        const UNIT: u64 = TensorMap::UNIT;
        let element = dtype.size() as u64;
        let row = u64::from(tile.first().copied().unwrap_or(0)) * element;
        if !row.is_multiple_of(UNIT) {
            return Err(format!(
                "`box`: its rows of {row} bytes are no multiple of {UNIT}; make the first size larger"
            ));
        }
        if let Some(most) = self.swizzle.bytes().filter(|most| row > *most) {
            let (fit, name) = (most / element, dtype.name());
            return Err(format!("`box`: its rows of {row} bytes exceed a swizzle of {most}: at most {fit} of {name}"));
        }
        if self.fill == Outside::Nan && dtype == DType::I32 {
            return Err("`fill`: an integer is no NaN; leave it out for zeros".to_owned());
        }
        let strides = self.strides(&sizes, element, scope)?;
        if let Some(stride) = strides.iter().find(|stride| !(1..STRIDES_BELOW).contains(*stride)) {
            return Err(format!("`strides`: {stride} bytes is out of range; {OTHERWISE}"));
        }
        if let Some(stride) = strides.iter().find(|stride| !stride.is_multiple_of(UNIT)) {
            return Err(format!("`strides`: {stride} bytes is no multiple of {UNIT}; {OTHERWISE}"));
        }
        // No overflow in 128 bits: at most four products of 32 and 40 bits.
        let steps = sizes.iter().skip(1).zip(&strides).map(|(size, stride)| u128::from(size - 1) * u128::from(*stride));
        let reach = u128::from(sizes.first().copied().unwrap_or(0)) * u128::from(element) + steps.sum::<u128>();
        if let Some(bytes) = bytes.filter(|bytes| reach > *bytes as u128) {
            return Err(format!("`sizes` {sizes:?} reach {reach} bytes into `{}`, which has {bytes}", self.buffer));
        }
        Ok(TensorMap {
            name: self.name.clone(),
            buffer: self.buffer.clone(),
            dtype,
            sizes,
            strides,
            tile,
            swizzle: self.swizzle,
            l2: self.l2,
            fill: self.fill,
        })
    }

    /// In bytes. A product of sizes that is too large stays so.
    fn strides(&self, sizes: &[u64], element: u64, scope: &dyn Scope) -> Result<Vec<u64>, String> {
        match &self.strides {
            Some(strides) => {
                let strides = numbers("strides", strides, scope)?;
                Ok(strides.into_iter().map(|stride| stride.saturating_mul(element)).collect())
            }
            None => {
                let inner = sizes.iter().take(sizes.len().saturating_sub(1));
                let strides = inner.scan(element, |stride, size| {
                    *stride = stride.saturating_mul(*size);
                    Some(*stride)
                });
                Ok(strides.collect())
            }
        }
    }
}

fn numbers(key: &str, expressions: &[Expression], scope: &dyn Scope) -> Result<Vec<u64>, String> {
    let number = |expression: &Expression| {
        let value = expression.integer(scope).map_err(|error| format!("`{key}`: {error}"))?;
        u64::try_from(value).map_err(|_| format!("`{key}`: `{}` is {value}, which is negative", expression.text()))
    };
    expressions.iter().map(number).collect()
}
