// Made by `cargo kopt bindings` from kernels/grouped_matmul.h. Do not edit.
// header digest: b0b6f9bbb33c99488d8103b465181776baa016a907037a46b602d5f8cc5bd886
#[repr(C)]
#[derive(Copy, Clone)]
pub struct grouped_matmul_args {
    pub x: *const f32,
    pub w: *const f32,
    pub offsets: *const i32,
    pub y: *mut f32,
    pub rows: i64,
    pub groups: i64,
    pub k: i64,
    pub n: i64,
    pub prepared: *const ::std::os::raw::c_void,
}
unsafe extern "C" {
    pub fn grouped_matmul(args: *const grouped_matmul_args) -> ::std::os::raw::c_int;
}
unsafe extern "C" {
    pub fn grouped_matmul_prepare_size(args: *const grouped_matmul_args) -> i64;
}
unsafe extern "C" {
    pub fn grouped_matmul_prepare(
        args: *const grouped_matmul_args,
        prepared: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
