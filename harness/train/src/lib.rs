//! A real training step, small enough to be run at every accepted round: a decoder-only language model over the
//! characters of a text that comes with this crate; forward, backward and AdamW, written out by hand.
//!
//! One op of it can be given to a kernel crate's compiled candidate. What the kernel's gain is worth then shows in the
//! time of the whole step, on tensors that are new in every step, and whether it computes the same shows in the loss.
//!
//! | module | what |
//! |---|---|
//! | [`text`] | the text, its characters, and which of them a step reads |
//! | [`preset`] | sizes of the model, one set for each op that a kernel can take over |
//! | [`model`] | parameters, forward and backward |
//! | [`adamw`] | the optimizer |
//! | [`ops`] | the ops that have a slot, in plain Rust |
//! | [`slots`] | the same ops, given to kernels where there are any, and timed |
//! | [`training`] | steps |
//! | [`serve`] | the process that `cargo kopt` talks to |
//! | [`real`], [`tensor`] | numbers and memory |
//!
//! Everything but the slots is generic over the floating-point type: training is in f32, and the gradients are checked
//! in f64 by finite differences of the very same code.

pub mod adamw;
pub mod model;
pub mod ops;
pub mod preset;
pub mod real;
pub mod serve;
pub mod slots;
pub mod tensor;
pub mod text;
pub mod training;
