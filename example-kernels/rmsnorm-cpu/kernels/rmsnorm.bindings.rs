// Made by `cargo kopt bindings` from kernels/rmsnorm.h. Do not edit.
// header digest: 6aae45658aabbf43104659d5a21cce0049c49fc86d269e8fc9e7b2d1da148237
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rmsnorm_args {
    pub x: *const f32,
    pub weight: *const f32,
    pub y: *mut f32,
    pub inv_rms: *mut f32,
    pub rows: i64,
    pub cols: i64,
    pub eps: f32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rmsnorm_backward_args {
    pub x: *const f32,
    pub weight: *const f32,
    pub inv_rms: *const f32,
    pub dy: *const f32,
    pub dx: *mut f32,
    pub dweight: *mut f32,
    pub rows: i64,
    pub cols: i64,
}
unsafe extern "C" {
    pub fn rmsnorm(args: *const rmsnorm_args) -> ::std::os::raw::c_int;
}
unsafe extern "C" {
    pub fn rmsnorm_backward(args: *const rmsnorm_backward_args) -> ::std::os::raw::c_int;
}
