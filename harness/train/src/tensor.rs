//! Memory of a model. Every tensor starts at a multiple of 256 bytes, as the harness's buffers do: a kernel that counts
//! on it finds the same here.

use std::ops::{Deref, DerefMut};

use crate::real::Real;

const ALIGN: usize = 256;

/// Numbers in a row, aligned.
#[derive(Debug)]
pub struct Tensor<T> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Default> Tensor<T> {
    /// `len` zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        let memory = vec![T::default(); len + ALIGN / size_of::<T>()];
        let start = memory.as_ptr().align_offset(ALIGN);
        Self { memory, start, len }
    }
}

impl<T: Real> Tensor<T> {
    /// `len` numbers, each asked for in order.
    pub fn filled(len: usize, mut value: impl FnMut() -> f64) -> Self {
        let mut tensor = Self::zeros(len);
        tensor.iter_mut().for_each(|element| *element = T::of(value()));
        tensor
    }
}

impl<T> Deref for Tensor<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Tensor<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tensor_is_aligned_and_zero() {
        for len in [0, 1, 7, 64, 1000] {
            let tensor = Tensor::<f32>::zeros(len);
            assert_eq!(tensor.len(), len);
            assert_eq!(tensor.as_ptr().align_offset(ALIGN), 0);
            assert!(tensor.iter().all(|element| *element == 0.0));
        }
    }
}
