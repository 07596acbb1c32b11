// Made by `cargo kopt bindings` from kernels/matmul.h. Do not edit.
// header digest: 7b346b9ef9aeed9de291a1db25db0ce0ae5e799a709958b369512674accd3023
#[repr(C)]
#[derive(Copy, Clone)]
pub struct matmul_args {
    pub a: *const u16,
    pub b: *const u16,
    pub c: *mut u16,
    pub m: i64,
    pub n: i64,
    pub k: i64,
}
