//! Every instruction of an object. First those that can be reached: from each function, along every direct jump, wherever
//! it leads, so that a jump into the middle of an instruction is followed into what it really runs. Then what nobody
//! reached, in order: code behind jump tables is found there.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use object::elf;

use super::Collector;
use super::collector::Place;
use super::elf::{Image, Section};
use super::instruction::{self, Verdict};

/// Bytes of instructions that would matter if something jumped to them, and the rule that names them. The system says no to
/// a system call; nobody would to a change of the keys that fence the harness's memory in, and three bytes are rare.
const TELLING: [(&[u8], &str, &str); 8] = [
    (&[0x0f, 0x05], "syscall", "hidden-bytes"),
    (&[0x0f, 0x34], "sysenter", "hidden-bytes"),
    (&[0xcd, 0x80], "int 80h", "hidden-bytes"),
    (&[0x0f, 0x31], "rdtsc", "hidden-bytes"),
    (&[0x0f, 0x01, 0xf9], "rdtscp", "hidden-bytes"),
    (&[0x0f, 0x33], "rdpmc", "hidden-bytes"),
    (&[0x0f, 0x01, 0xef], "wrpkru inside another instruction", "protection-key"),
    (&[0x0f, 0x01, 0xee], "rdpkru inside another instruction", "protection-key"),
];

/// Whether bytes begin an instruction that restores saved state, the keys among it, from memory: with a register instead,
/// it is a fence.
fn restores(bytes: &[u8]) -> bool {
    matches!(bytes, [0x0f, 0xae, operand] if operand >> 3 & 7 == 5 && operand >> 6 != 3)
}

/// What a byte of code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Byte {
    Unread,
    /// An instruction begins here.
    Start,
    /// It goes on here.
    Inside,
    /// No instruction.
    Data,
}

/// A section of code, and what has been read of it.
struct Region<'a> {
    section: &'a Section<'a>,
    bytes: Vec<Byte>,
}

impl<'a> Region<'a> {
    fn of(section: &'a Section<'a>) -> Self {
        Self { section, bytes: vec![Byte::Unread; section.data.len()] }
    }

    fn index(&self, address: u64) -> Option<usize> {
        let at = usize::try_from(address.wrapping_sub(self.section.address)).ok()?;
        (at < self.bytes.len()).then_some(at)
    }
}

struct Reader<'a, 'i, 'f, 'c> {
    image: &'a Image<'i>,
    /// What the candidate's own object files define.
    own: &'a HashSet<String>,
    regions: Vec<Region<'a>>,
    waiting: Vec<u64>,
    found: &'f mut Collector<'c>,
    count: usize,
}

/// Reads all code; the number of instructions.
pub(super) fn audit(image: &Image<'_>, own: &HashSet<String>, found: &mut Collector<'_>) -> usize {
    let code = image.sections.iter().filter(|section| section.is_code());
    let mut reader =
        Reader { image, own, regions: code.map(Region::of).collect(), waiting: Vec::new(), found, count: 0 };
    // What is named, and what the loader writes into tables, may be called.
    let is_function = |kind: u8| kind == elf::STT_FUNC.0 || kind == elf::STT_GNU_IFUNC.0;
    let functions = image.symbols.iter().filter(|symbol| symbol.is_defined && is_function(symbol.kind));
    reader.waiting.extend(functions.map(|symbol| symbol.address));
    reader.waiting.extend(image.relocations.iter().map(|entry| entry.addend.cast_unsigned()));
    reader.waiting.extend([elf::DT_INIT, elf::DT_FINI].iter().filter_map(|tag| image.dynamic(tag.0)));
    reader.follow();
    while let Some(address) = reader.unread() {
        reader.waiting.push(address);
        reader.follow();
    }
    reader.hidden();
    reader.count
}

impl Reader<'_, '_, '_, '_> {
    fn follow(&mut self) {
        while let Some(mut address) = self.waiting.pop() {
            while let Some(next) = self.step(address) {
                address = next;
            }
        }
    }

    /// Reads the instruction at an address, unless it was read before; the address that follows, if it can be reached.
    fn step(&mut self, address: u64) -> Option<u64> {
        let number = self.regions.iter().position(|region| region.index(address).is_some())?;
        let region = &mut self.regions[number];
        let at = region.index(address)?;
        if matches!(region.bytes[at], Byte::Start | Byte::Data) {
            return None;
        }
        let mut decoder = Decoder::with_ip(64, &region.section.data[at..], address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let length = instruction.len();
        if instruction.is_invalid() {
            // What was reached as an instruction before keeps its marks.
            if region.bytes[at] == Byte::Unread {
                region.bytes[at] = Byte::Data;
            }
            self.found.add("undecodable-code", "bytes that are no instruction", || self.image.place(address));
            return None;
        }
        let is_inside = region.bytes[at] == Byte::Inside;
        let covers = region.bytes[at + 1..at + length].contains(&Byte::Start);
        region.bytes[at] = Byte::Start;
        for byte in &mut region.bytes[at + 1..at + length] {
            if *byte == Byte::Unread {
                *byte = Byte::Inside;
            }
        }
        self.count += 1;
        if is_inside || covers {
            let text = instruction::text(&instruction);
            self.found.add("overlapping-code", "an instruction inside another one", || Place {
                instruction: Some(text),
                ..self.image.place(address)
            });
        }
        self.examine(&instruction);
        self.flow(&instruction)
    }

    fn examine(&mut self, instruction: &Instruction) {
        let place =
            || Place { instruction: Some(instruction::text(instruction)), ..self.image.place(instruction.ip()) };
        match instruction::judge(instruction) {
            Verdict::Fine => {}
            Verdict::Allowed { rule, what, why } => self.found.allow(rule, what, why),
            Verdict::Named { rule, what } => match self.of_toolchain(rule, instruction.ip()) {
                Some(name) => {
                    self.found.allow(rule, format!("{what} in {name}"), "a function of the compiler's library")
                }
                None => self.found.add(rule, what, place),
            },
        }
    }

    /// The function of the compiler's library that an address is in, if `rule` lets it be: one that the candidate does not
    /// define itself.
    fn of_toolchain(&self, rule: &str, address: u64) -> Option<String> {
        let names = &super::rules::find(rule)?.toolchain;
        if names.is_empty() || self.own.is_empty() {
            return None;
        }
        let symbol = self.image.symbol_of(address)?;
        let spans = address.wrapping_sub(symbol.address) < symbol.size;
        let foreign = spans && !self.own.contains(&symbol.name) && super::rules::matches(names, &symbol.name);
        foreign.then(|| symbol.name.clone())
    }

    /// Where it goes on.
    fn flow(&mut self, instruction: &Instruction) -> Option<u64> {
        // An address that is taken may be called.
        if instruction.mnemonic() == Mnemonic::Lea && instruction.memory_base() == Register::RIP {
            self.waiting.push(instruction.memory_displacement64());
        }
        let target = match instruction.flow_control() {
            FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Call
            | FlowControl::XbeginXabortXend
                if instruction.near_branch_target() != 0 =>
            {
                Some(instruction.near_branch_target())
            }
            _ => None,
        };
        if let Some(target) = target {
            if self.regions.iter().any(|region| region.index(target).is_some()) {
                self.waiting.push(target);
            } else {
                self.found.add("branch-outside", instruction::name(instruction), || Place {
                    instruction: Some(instruction::text(instruction)),
                    ..self.image.place(instruction.ip())
                });
            }
        }
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception => None,
            _ => Some(instruction.next_ip()),
        }
    }

    /// The first byte that nobody has read.
    fn unread(&self) -> Option<u64> {
        self.regions.iter().find_map(|region| {
            let at = region.bytes.iter().position(|byte| *byte == Byte::Unread)?;
            Some(region.section.address + at as u64)
        })
    }

    /// Bytes inside instructions that would be telling ones.
    fn hidden(&mut self) {
        for region in &self.regions {
            let mut look = |length: usize, what: &str, rule: &str, is_it: &dyn Fn(&[u8]) -> bool| {
                let windows = region.section.data.windows(length).enumerate();
                for (at, _) in windows.filter(|(at, window)| region.bytes[*at] != Byte::Start && is_it(window)) {
                    self.found.add(rule, what, || self.image.place(region.section.address + at as u64));
                }
            };
            for (bytes, what, rule) in TELLING {
                look(bytes.len(), what, rule, &|window| window == bytes);
            }
            look(3, "xrstor", "hidden-bytes", &restores);
        }
    }
}
