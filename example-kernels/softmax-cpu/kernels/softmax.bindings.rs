// Made by `cargo kopt bindings` from kernels/softmax.h. Do not edit.
// header digest: c00452e7f29b815b8ca77c005a98d9c7a311940ee74c5716986fe3b576ba4acb
#[repr(C)]
#[derive(Copy, Clone)]
pub struct softmax_args {
    pub x: *const f32,
    pub y: *mut f32,
    pub rows: i64,
    pub cols: i64,
}
unsafe extern "C" {
    pub fn softmax(args: *const softmax_args) -> ::std::os::raw::c_int;
}
