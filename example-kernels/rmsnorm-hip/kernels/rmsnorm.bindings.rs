// Made by `cargo kopt bindings` from kernels/rmsnorm.h. Do not edit.
// header digest: 518a47d6852c56689e6c88a16a99aa16cc930f68e89a6038f95fdc94c29741dc
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
