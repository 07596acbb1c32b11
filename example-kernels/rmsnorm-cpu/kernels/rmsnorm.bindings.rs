// Made by `cargo kopt bindings` from kernels/rmsnorm.h. Do not edit.
// header digest: f546a5d95391c6c9b71ec1ea5e46a662c7eadeeb794c6390123c7a6fe4b59599
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
    pub prepared: *const ::std::os::raw::c_void,
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
    pub prepared: *const ::std::os::raw::c_void,
}
unsafe extern "C" {
    pub fn rmsnorm(args: *const rmsnorm_args) -> ::std::os::raw::c_int;
}
unsafe extern "C" {
    pub fn rmsnorm_backward(args: *const rmsnorm_backward_args) -> ::std::os::raw::c_int;
}
unsafe extern "C" {
    pub fn rmsnorm_prepare_size(args: *const rmsnorm_args) -> i64;
}
unsafe extern "C" {
    pub fn rmsnorm_prepare(
        args: *const rmsnorm_args,
        prepared: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
