// Made by `cargo kopt bindings` from kernels/cross_entropy.h. Do not edit.
// header digest: 9d17b92124905b7a567a12d6996b1626c6be62690c90ff0f560056e256b5ab2e
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cross_entropy_args {
    pub x: *const u16,
    pub targets: *const i32,
    pub loss: *mut f32,
    pub rows: i64,
    pub cols: i64,
}
