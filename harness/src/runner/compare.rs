//! An output against what is expected of it: every element, each against its own bound.
//!
//! NaN never passes by accident: it must be expected, and it must not be the poison. A value beyond the type's range
//! must be the infinity of its sign.

use kopt_schema::DType;
use kopt_schema::message::FailureKind;

use super::arena::Arena;
use super::blueprint::Blueprint;
use super::contestant::Loss;
use crate::kernel::Buffer;
use crate::parallel;
use crate::tensor::{Expected, Values, decode, encode};

/// Elements that are looked at together.
const BLOCK: usize = 1024;

/// What is wrong with one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Right,
    Wrong,
    Unwritten,
}

/// Compares an output; nothing if every element is right.
pub(crate) fn compare(expected: &Expected, buffer: &Buffer, arena: &Arena, window: usize) -> Option<Loss> {
    compare_bytes(expected, buffer, arena.output(expected.name, window), &arena.blueprint)
}

/// Compares the bytes of an output that was poisoned as the layout says.
pub(crate) fn compare_bytes(expected: &Expected, buffer: &Buffer, bytes: &[u8], layout: &Blueprint) -> Option<Loss> {
    let poison = |index| layout.poison_of(index, buffer.dtype);
    Comparison { expected, buffer, bytes, poison: &poison }.verdict()
}

/// What no kernel computed, compared as if one had: whether every element is right, and how many bounds the worst one is off.
pub(crate) fn compare_values(expected: &Expected, buffer: &Buffer, values: &[f64]) -> (bool, f64) {
    let mut bytes = vec![0; buffer.bytes()];
    let values = match buffer.dtype {
        DType::I32 => Values::Int(values.iter().map(|value| *value as i32).collect()),
        _ => Values::Float(values.iter().map(|value| *value as f32).collect()),
    };
    encode(&values, buffer.dtype, &mut bytes);
    // Nothing was poisoned. All ones are a NaN that no rounding gives.
    let comparison = Comparison { expected, buffer, bytes: &bytes, poison: &|_| u32::MAX };
    (comparison.verdict().is_none(), comparison.farthest())
}

/// How many bounds the worst element of an output is off.
pub(crate) fn farthest(expected: &Expected, buffer: &Buffer, arena: &Arena) -> f64 {
    let bytes = arena.output(expected.name, 0);
    Comparison { expected, buffer, bytes, poison: &|_| u32::MAX }.farthest()
}

struct Comparison<'a> {
    expected: &'a Expected,
    buffer: &'a Buffer,
    bytes: &'a [u8],
    poison: &'a (dyn Fn(usize) -> u32 + Sync),
}

impl Comparison<'_> {
    fn verdict(&self) -> Option<Loss> {
        if self.expected.values.len() != self.buffer.len || self.expected.bounds.len() != self.buffer.len {
            let message = format!(
                "the operator's reference gives {} elements for `{}`, which has {}",
                self.expected.values.len(),
                self.expected.name,
                self.buffer.len
            );
            return Some(Loss::of_judge(message));
        }
        if self.is_all_right() {
            return None;
        }
        let mut wrong = 0;
        let mut unwritten = 0;
        let mut worst: Option<(f64, usize)> = None;
        let mut first = None;
        for index in 0..self.buffer.len {
            match self.element(index) {
                Element::Right => continue,
                Element::Wrong => wrong += 1,
                Element::Unwritten => unwritten += 1,
            }
            first.get_or_insert(index);
            let excess = self.excess(index);
            if worst.is_none_or(|(most, _)| excess > most) {
                worst = Some((excess, index));
            }
        }
        let (first, (_, worst)) = (first?, worst?);
        let kind = if wrong == 0 { FailureKind::Unwritten } else { FailureKind::WrongValues };
        Some(Loss::new(kind, self.report(wrong, unwritten, first, worst)))
    }

    /// Whether every element is right, by all processors. What is wrong is looked for only if one is.
    fn is_all_right(&self) -> bool {
        let parts = (0..self.buffer.len.div_ceil(parallel::PART)).map(|part| part * parallel::PART);
        parallel::all(parts, |from| {
            let to = self.buffer.len.min(from + parallel::PART);
            (from..to).step_by(BLOCK).all(|from| {
                let to = to.min(from + BLOCK);
                self.are_close(from, to) || (from..to).all(|index| self.element(index) == Element::Right)
            })
        })
    }

    /// Whether all of some elements are numbers within their bounds, which is right whatever they were poisoned with. Without a
    /// branch, eight at a time: nearly all elements of nearly all kernels are.
    fn are_close(&self, from: usize, to: usize) -> bool {
        let size = self.buffer.dtype.size();
        let bytes = &self.bytes[from * size..to * size];
        let expected = self.expected.values[from..to].iter().zip(&self.expected.bounds[from..to]);
        let close = |got: f64, (value, bound): (&f64, &f64)| {
            let off = (got - value).abs();
            // Not so where both are infinite, or one is no number.
            (off <= *bound) & (off < f64::INFINITY)
        };
        match self.buffer.dtype {
            DType::F32 => bytes.chunks_exact(4).zip(expected).fold(true, |all, (bytes, expected)| {
                all & close(f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])), expected)
            }),
            DType::Bf16 => bytes.chunks_exact(2).zip(expected).fold(true, |all, (bytes, expected)| {
                let bits = u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16;
                all & close(f64::from(f32::from_bits(bits)), expected)
            }),
            DType::F16 | DType::I32 => false,
        }
    }

    fn element(&self, index: usize) -> Element {
        let dtype = self.buffer.dtype;
        let bits = bits(self.bytes, index, dtype);
        let (value, got) = (self.expected.values[index], decode(self.bytes, index, dtype));
        let right = is_right(value, self.expected.bounds[index], got, dtype);
        // Among millions of elements some are poisoned with the very NaN that a device computes, or, there are only 128 huge
        // numbers of 16 bits for it, with the very number that is expected: its poison says nothing then, and is not asked for.
        match right {
            true if !got.is_nan() || is_computed_nan(bits, dtype) => Element::Right,
            _ if bits == (self.poison)(index) => Element::Unwritten,
            true => Element::Right,
            false => Element::Wrong,
        }
    }

    /// How many bounds an element is off; infinite where a difference says nothing.
    fn excess(&self, index: usize) -> f64 {
        let off = (decode(self.bytes, index, self.buffer.dtype) - self.expected.values[index]).abs();
        let excess = off / self.expected.bounds[index];
        if excess.is_nan() { f64::INFINITY } else { excess }
    }

    /// The most bounds that an element is off; those for which a difference says nothing count when they are wrong.
    fn farthest(&self) -> f64 {
        let counts = |index: &usize| self.expected.values[*index].is_finite() || self.element(*index) != Element::Right;
        (0..self.buffer.len).filter(counts).map(|index| self.excess(index)).fold(0.0, f64::max)
    }

    fn report(&self, wrong: usize, unwritten: usize, first: usize, worst: usize) -> String {
        let name = self.expected.name;
        let count = wrong + unwritten;
        let share = 100.0 * count as f64 / self.buffer.len as f64;
        let mut text = format!("`{name}`: {count} of {} elements are wrong ({share:.2} %)", self.buffer.len);
        if unwritten > 0 {
            text += &format!(", {unwritten} of them never written or only added to");
        }
        text += &format!("\n  first {}\n  worst {}", self.describe(first), self.describe(worst));
        text + "\n" + &self.map()
    }

    fn describe(&self, index: usize) -> String {
        let row = self.buffer.row.max(1);
        let (name, dtype) = (self.expected.name, self.buffer.dtype);
        let (value, bound) = (self.expected.values[index], self.expected.bounds[index]);
        let place = format!("{name}[{}, {}]", index / row, index % row);
        if self.element(index) == Element::Unwritten {
            return format!("{place}: expected {value:e}, never written");
        }
        let got = decode(self.bytes, index, dtype);
        let off = (got - value).abs();
        if !off.is_finite() {
            return format!("{place}: expected {value:e}, got {got:e}");
        }
        let ulp = (2.0 * dtype.roundoff() * value.abs()).max(dtype.smallest());
        format!(
            "{place}: expected {value:e}, got {got:e}, off by {off:.3e} = {:.4e} ulp, {:.4e} times the bound {bound:.3e}",
            off / ulp,
            off / bound
        )
    }

    /// Where the wrong elements lie: the buffer's rows and columns folded onto at most 12 × 64 cells.
    fn map(&self) -> String {
        let row = self.buffer.row.max(1);
        let rows = self.buffer.len.div_ceil(row);
        let (tall, wide) = (rows.clamp(1, 12), row.clamp(1, 64));
        let mut cells = vec![[0usize; 3]; tall * wide];
        for index in 0..self.buffer.len {
            let cell = (index / row) * tall / rows * wide + (index % row) * wide / row;
            cells[cell][self.element(index) as usize] += 1;
        }
        let mark = |[right, wrong, unwritten]: &[usize; 3]| match (right, wrong, unwritten) {
            (_, 0, 0) => '.',
            (0, 0, _) => '?',
            (0, _, _) => '#',
            _ => 'x',
        };
        let mut text = format!("  {rows} rows of {row}; . right  x some wrong  # all wrong  ? never written");
        for line in cells.chunks(wide) {
            text += "\n  |";
            text.extend(line.iter().map(mark));
            text.push('|');
        }
        text
    }
}

/// The bits of an element.
fn bits(bytes: &[u8], index: usize, dtype: DType) -> u32 {
    let at = index * dtype.size();
    match dtype.size() {
        2 => u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])),
        _ => u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]),
    }
}

fn is_right(value: f64, bound: f64, got: f64, dtype: DType) -> bool {
    if value.is_nan() {
        return got.is_nan();
    }
    let beyond = value.abs() > dtype.largest();
    if value.is_infinite() || beyond {
        let same = got.is_infinite() && got.is_sign_positive() == value.is_sign_positive();
        // Just past the range, an honest error may bring the result back into it.
        return same || (value.is_finite() && (got - value).abs() <= bound);
    }
    if got.is_infinite() {
        // Just inside the range, an honest error may push it out.
        return got.is_sign_positive() == value.is_sign_positive() && value.abs() + bound > dtype.largest();
    }
    (got - value).abs() <= bound
}

/// Whether these are the bits of a NaN that processors make by themselves: quiet, its payload all zeros (x86, Arm) or all
/// ones (NVIDIA).
fn is_computed_nan(bits: u32, dtype: DType) -> bool {
    let (exponent, payload) = match dtype {
        DType::F32 => (0x7fc0_0000, 0x003f_ffff),
        DType::Bf16 => (0x7fc0, 0x003f),
        DType::F16 => (0x7e00, 0x01ff),
        DType::I32 => return false,
    };
    bits & exponent == exponent && [0, payload].contains(&(bits & payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Role;

    fn check(values: &[f64], bounds: &[f64], got: &[f32]) -> Option<Loss> {
        let expected = Expected { name: "y", values: values.to_vec(), bounds: bounds.to_vec() };
        let buffer = Buffer::output("y", Role::Output, DType::F32, 1, got.len());
        let bytes: Vec<u8> = got.iter().flat_map(|value| value.to_le_bytes()).collect();
        Comparison { expected: &expected, buffer: &buffer, bytes: &bytes, poison: &|_| 0x7fc0_1234 }.verdict()
    }

    #[test]
    fn every_element_counts_and_the_worst_is_named() {
        assert_eq!(check(&[1.0, 2.0], &[0.1, 0.1], &[1.05, 2.0]), None);
        let loss = check(&[1.0, 2.0, 3.0], &[0.1, 0.1, 0.1], &[1.2, 2.0, 7.0]).unwrap();
        assert_eq!(loss.kind, FailureKind::WrongValues);
        assert!(loss.message.contains("2 of 3 elements"), "{}", loss.message);
        assert!(loss.message.contains("first y[0, 0]") && loss.message.contains("worst y[0, 2]"), "{}", loss.message);
        assert!(loss.message.ends_with("|#.#|"), "{}", loss.message);
    }

    #[test]
    fn one_wrong_element_of_many_parts_is_found() {
        let len = 2 * parallel::PART + 5;
        let (values, mut got) = (vec![1.0; len], vec![1.0; len]);
        assert_eq!(check(&values, &values, &got), None);
        for at in [0, parallel::PART, len - 1] {
            got[at] = 3.0;
            let loss = check(&values, &values, &got).unwrap();
            assert!(loss.message.contains(&format!("first y[0, {at}]")), "{}", loss.message);
            got[at] = 1.0;
        }
    }

    #[test]
    fn nan_passes_only_where_it_is_expected_and_was_written() {
        let nan = f64::NAN;
        assert_eq!(check(&[nan], &[nan], &[f32::NAN]), None);
        assert!(check(&[1.0], &[1e30], &[f32::NAN]).is_some());
        assert!(check(&[nan], &[nan], &[1.0]).is_some());
        assert!(check(&[1.0], &[nan], &[1.0]).is_some(), "a bound that is no number lets nothing pass");
        let poison = f32::from_bits(0x7fc0_1234);
        assert_eq!(check(&[nan], &[nan], &[poison]).unwrap().kind, FailureKind::Unwritten);
    }

    #[test]
    fn a_nan_that_a_device_computes_was_written_even_where_the_poison_is_the_same() {
        let check = |value: f64, bits: u32| {
            let expected = Expected { name: "y", values: vec![value], bounds: vec![value] };
            let buffer = Buffer::output("y", Role::Output, DType::F32, 1, 1);
            let bytes = bits.to_le_bytes();
            Comparison { expected: &expected, buffer: &buffer, bytes: &bytes, poison: &|_| bits }.verdict()
        };
        for computed in [0x7fff_ffff, 0xffff_ffff, 0x7fc0_0000, 0xffc0_0000] {
            assert_eq!(check(f64::NAN, computed), None);
            assert_eq!(check(1.0, computed).unwrap().kind, FailureKind::Unwritten);
        }
        assert_eq!(check(f64::NAN, 0x7fff_fffe).unwrap().kind, FailureKind::Unwritten);
    }

    #[test]
    fn a_poison_that_happens_to_be_the_result_says_nothing() {
        let check = |value: f64| {
            let expected = Expected { name: "y", values: vec![value], bounds: vec![value.abs() / 256.0] };
            let buffer = Buffer::output("y", Role::Output, DType::Bf16, 1, 1);
            // 0xf0a0 is -3.96e29.
            let bytes = 0xf0a0_u16.to_le_bytes();
            Comparison { expected: &expected, buffer: &buffer, bytes: &bytes, poison: &|_| 0xf0a0 }.verdict()
        };
        let poison = f64::from(f32::from_bits(0xf0a0_0000));
        assert_eq!(check(poison), None);
        assert_eq!(check(1.01 * poison).unwrap().kind, FailureKind::Unwritten);
        assert_eq!(check(-poison).unwrap().kind, FailureKind::Unwritten);
    }

    #[test]
    fn infinities_have_a_sign_and_an_edge() {
        let largest = f64::from(f32::MAX);
        assert_eq!(check(&[f64::INFINITY], &[0.0], &[f32::INFINITY]), None);
        assert!(check(&[f64::INFINITY], &[0.0], &[f32::NEG_INFINITY]).is_some());
        assert!(check(&[f64::INFINITY], &[0.0], &[f32::MAX]).is_some());
        assert_eq!(check(&[largest * 1.5], &[1.0], &[f32::INFINITY]), None);
        assert_eq!(check(&[largest], &[largest * 1e-3], &[f32::INFINITY]), None);
        assert!(check(&[1.0], &[0.1], &[f32::INFINITY]).is_some());
    }

    #[test]
    fn a_reference_of_the_wrong_length_is_said() {
        assert_eq!(check(&[1.0], &[0.1], &[1.0, 2.0]).unwrap().kind, FailureKind::Setup);
    }
}
