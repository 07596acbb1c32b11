// Made by `cargo kopt bindings` from kernels/grouped_matmul.h. Do not edit.
// header digest: f6fa8a55a8ef0e5588b62d593a946bb47a1a96f940ad329dd0acb645170687be
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
}
unsafe extern "C" {
    pub fn grouped_matmul(args: *const grouped_matmul_args) -> ::std::os::raw::c_int;
}
