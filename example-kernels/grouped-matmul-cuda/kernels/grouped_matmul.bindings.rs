// Made by `cargo kopt bindings` from kernels/grouped_matmul.h. Do not edit.
// header digest: 1af650343ac9defdd5b12bc76f081e28bda0ac07dd0b65a3a2a5109c90f500c2
#[repr(C)]
#[derive(Copy, Clone)]
pub struct grouped_matmul_args {
    pub x: *const u16,
    pub w: *const u16,
    pub offsets: *const i32,
    pub y: *mut u16,
    pub rows: i64,
    pub groups: i64,
    pub k: i64,
    pub n: i64,
}
