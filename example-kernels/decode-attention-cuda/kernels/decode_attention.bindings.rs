// Made by `cargo kopt bindings` from kernels/decode_attention.h. Do not edit.
// header digest: 045f19a45f65e2c2e200fe8de73c588438ef959a60179c0722667491d56b770c
#[repr(C)]
#[derive(Copy, Clone)]
pub struct decode_attention_args {
    pub q: *const u16,
    pub k: *const u16,
    pub v: *const u16,
    pub out: *mut u16,
    pub b: i64,
    pub h: i64,
    pub h_kv: i64,
    pub s: i64,
    pub t: i64,
    pub d: i64,
    pub scale: f32,
}
