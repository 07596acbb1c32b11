// Made by `cargo kopt bindings` from kernels/matmul.h. Do not edit.
// header digest: 9a21090c301c78fd6c0c286c7b8ba8322ec799ccc379db672697c7aef7b58ef2
#[repr(C)]
#[derive(Copy, Clone)]
pub struct matmul_args {
    pub a: *const f32,
    pub b: *const f32,
    pub c: *mut f32,
    pub m: i64,
    pub n: i64,
    pub k: i64,
    pub prepared: *const ::std::os::raw::c_void,
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
    pub prepared: *const ::std::os::raw::c_void,
}
unsafe extern "C" {
    pub fn matmul(args: *const matmul_args) -> ::std::os::raw::c_int;
}
unsafe extern "C" {
    pub fn matmul_backward(args: *const matmul_backward_args) -> ::std::os::raw::c_int;
}
unsafe extern "C" {
    pub fn matmul_prepare_size(args: *const matmul_args) -> i64;
}
unsafe extern "C" {
    pub fn matmul_prepare(
        args: *const matmul_args,
        prepared: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
