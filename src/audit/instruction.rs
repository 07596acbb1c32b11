//! One instruction: which rule names it.

use std::collections::HashMap;
use std::sync::OnceLock;

use iced_x86::{FastFormatter, Instruction, Mnemonic, OpKind, Register};

use super::rules;

/// Where the stack protector's value stands, relative to fs.
const CANARY: u64 = 0x28;

/// Addresses below this are what a null pointer with an index gives: they end the process.
const NULL_PAGE: u64 = 4096;

/// What there is to say of an instruction.
pub(super) enum Verdict {
    Fine,
    Named { rule: &'static str, what: String },
    Allowed { rule: &'static str, what: String, why: &'static str },
}

/// Judges an instruction by itself.
pub(super) fn judge(instruction: &Instruction) -> Verdict {
    let named = |rule| Verdict::Named { rule, what: name(instruction) };
    // A trap of a debugger ends the process; linkers fill gaps with it.
    let is_trap = instruction.mnemonic() == Mnemonic::Int && instruction.immediate8() == 3;
    if let Some(rule) = by_mnemonic().get(&instruction.mnemonic()).filter(|_| !is_trap) {
        return named(rule);
    }
    if instruction.is_jmp_far()
        || instruction.is_jmp_far_indirect()
        || instruction.is_call_far()
        || instruction.is_call_far_indirect()
    {
        return named("far-transfer");
    }
    let is_segment = |kind: usize| {
        instruction.op_kind(kind as u32) == OpKind::Register
            && instruction.op_register(kind as u32).is_segment_register()
    };
    if (0..instruction.op_count() as usize).any(is_segment) {
        return Verdict::Named {
            rule: "segment-register",
            what: format!("{} of a segment register", name(instruction)),
        };
    }
    // These name memory without touching it.
    if matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return Verdict::Fine;
    }
    memory(instruction)
}

/// Memory that is reached by anything but a pointer.
fn memory(instruction: &Instruction) -> Verdict {
    let Some(operand) = (0..instruction.op_count()).find(|number| is_memory(instruction.op_kind(*number))) else {
        return Verdict::Fine;
    };
    let segment = instruction.memory_segment();
    let is_plain = instruction.op_kind(operand) == OpKind::Memory;
    let bare = is_plain && instruction.memory_base() == Register::None && instruction.memory_index() == Register::None;
    if matches!(segment, Register::FS | Register::GS) {
        let reads = matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Sub | Mnemonic::Xor) && operand == 1
            || instruction.mnemonic() == Mnemonic::Cmp;
        if segment == Register::FS && bare && instruction.memory_displacement64() == CANARY && reads {
            return Verdict::Allowed {
                rule: "segment-register",
                what: "fs:28h, read".to_owned(),
                why: "the stack protector, which compilers add by themselves",
            };
        }
        let what = format!("{} through {}", name(instruction), format!("{segment:?}").to_lowercase());
        return Verdict::Named { rule: "segment-register", what };
    }
    if bare && instruction.memory_displacement64() >= NULL_PAGE {
        return Verdict::Named {
            rule: "absolute-address",
            what: format!("{} at {:#x}", name(instruction), instruction.memory_displacement64()),
        };
    }
    Verdict::Fine
}

const fn is_memory(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Memory
            | OpKind::MemorySegSI
            | OpKind::MemorySegESI
            | OpKind::MemorySegRSI
            | OpKind::MemorySegDI
            | OpKind::MemorySegEDI
            | OpKind::MemorySegRDI
    )
}

/// The instruction's name.
pub(super) fn name(instruction: &Instruction) -> String {
    format!("{:?}", instruction.mnemonic()).to_lowercase()
}

/// The instruction, disassembled.
pub(super) fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    FastFormatter::new().format(instruction, &mut text);
    text
}

/// Rules by the instructions that they name.
fn by_mnemonic() -> &'static HashMap<Mnemonic, &'static str> {
    static RULES: OnceLock<HashMap<Mnemonic, &'static str>> = OnceLock::new();
    RULES.get_or_init(|| {
        let names: HashMap<&str, &str> = rules::all()
            .iter()
            .flat_map(|rule| rule.mnemonics.iter().map(move |name| (name.as_str(), rule.id)))
            .collect();
        let rule = |mnemonic: Mnemonic| Some((mnemonic, *names.get(format!("{mnemonic:?}").to_lowercase().as_str())?));
        Mnemonic::values().filter_map(rule).collect()
    })
}
