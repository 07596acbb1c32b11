// Made by `cargo kopt bindings` from kernels/rmsnorm.h. Do not edit.
// header digest: 74a74a79a574c64f3d446ffb7c889d86ce6678d3f09be949ccc972d15f1df5cb
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rmsnorm_args {
    pub x: *const u16,
    pub weight: *const u16,
    pub y: *mut u16,
    pub inv_rms: *mut f32,
    pub rows: i64,
    pub cols: i64,
    pub eps: f32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rmsnorm_backward_args {
    pub x: *const u16,
    pub weight: *const u16,
    pub inv_rms: *const f32,
    pub dy: *const u16,
    pub dx: *mut u16,
    pub dweight: *mut u16,
    pub rows: i64,
    pub cols: i64,
}
