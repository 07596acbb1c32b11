// Made by `cargo kopt bindings` from kernels/softmax.h. Do not edit.
// header digest: c0f937c67cedc29e6c13eda3a72c80ba30f9bea6b17711608f26952ca4836284
#[repr(C)]
#[derive(Copy, Clone)]
pub struct softmax_args {
    pub x: *const f32,
    pub y: *mut f32,
    pub rows: i64,
    pub cols: i64,
}
