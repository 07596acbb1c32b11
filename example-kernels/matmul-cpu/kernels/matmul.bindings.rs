// Made by `cargo kopt bindings` from kernels/matmul.h. Do not edit.
// header digest: edcef36a55412e8968bd7cf0da6b4a32c5284da8de340af15f7087ea821d5122
#[repr(C)]
#[derive(Copy, Clone)]
pub struct matmul_args {
    pub a: *const f32,
    pub b: *const f32,
    pub c: *mut f32,
    pub m: i64,
    pub n: i64,
    pub k: i64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct matmul_backward_args {
    pub a: *const f32,
    pub b: *const f32,
    pub dc: *const f32,
    pub da: *mut f32,
    pub db: *mut f32,
    pub m: i64,
    pub n: i64,
    pub k: i64,
}
unsafe extern "C" {
    pub fn matmul(args: *const matmul_args) -> ::std::os::raw::c_int;
}
unsafe extern "C" {
    pub fn matmul_backward(args: *const matmul_backward_args) -> ::std::os::raw::c_int;
}
