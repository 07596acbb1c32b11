//! What the audit reads of a linked object: what is loaded where, what is named, what the loader does.

use std::cell::OnceCell;
use std::collections::HashSet;

use object::elf::{self, FileHeader64};
use object::read::elf::{
    Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _,
};
use object::{Endianness, LittleEndian};

use super::collector::Place;
use super::lines::Lines;

type Header = FileHeader64<LittleEndian>;

/// A part of the file that is loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub address: u64,
    pub memory: u64,
}

/// A section.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    pub name: String,
    pub flags: u64,
    pub address: u64,
    pub size: u64,
    pub data: &'a [u8],
}

impl Section<'_> {
    pub(super) fn is_code(&self) -> bool {
        self.flags & elf::SHF_EXECINSTR.0 != 0 && self.flags & elf::SHF_ALLOC.0 != 0
    }

    pub(super) fn is_writable(&self) -> bool {
        self.flags & elf::SHF_WRITE.0 != 0 && self.flags & elf::SHF_ALLOC.0 != 0
    }

    pub(super) fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.size
    }
}

/// A name.
#[derive(Debug, Clone)]
pub(super) struct Symbol {
    pub name: String,
    pub address: u64,
    pub size: u64,
    pub kind: u8,
    pub is_defined: bool,
    pub is_local: bool,
    pub is_hidden: bool,
    pub section: usize,
}

/// A place that the loader fills in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relocation {
    pub kind: u32,
    pub offset: u64,
    pub addend: i64,
}

/// An entry of the dynamic section.
#[derive(Debug, Clone)]
pub(super) struct Dynamic {
    pub tag: i64,
    pub value: u64,
    pub text: Option<String>,
}

/// An object.
pub(super) struct Image<'a> {
    pub machine: u16,
    pub segments: Vec<Segment>,
    pub sections: Vec<Section<'a>>,
    /// Of the dynamic table: what is imported and exported.
    pub dynamic_symbols: Vec<Symbol>,
    /// Of both tables.
    pub symbols: Vec<Symbol>,
    pub dynamic: Vec<Dynamic>,
    pub relocations: Vec<Relocation>,
    lines: OnceCell<Lines<'a>>,
}

impl<'a> Image<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, object::read::Error> {
        let file = ElfFile64::<LittleEndian>::parse(bytes)?;
        let endian = file.endian();
        let header: &Header = file.elf_header();
        let segments = file.elf_program_headers().iter().map(|segment| Segment {
            kind: segment.p_type(endian).0,
            flags: segment.p_flags(endian).0,
            address: segment.p_vaddr(endian),
            memory: segment.p_memsz(endian),
        });
        let table = file.elf_section_table();
        let mut sections = Vec::new();
        let mut relocations = Vec::new();
        for section in table.iter() {
            let name = table.section_name(endian, section)?;
            sections.push(Section {
                name: String::from_utf8_lossy(name).into_owned(),
                flags: section.sh_flags(endian).0,
                address: section.sh_addr(endian),
                size: section.sh_size(endian),
                data: section.data(endian, bytes).unwrap_or_default(),
            });
            if let Some((entries, _)) = section.rela(endian, bytes)? {
                relocations.extend(entries.iter().map(|entry| Relocation {
                    kind: entry.r_type(endian, false).0,
                    offset: entry.r_offset(endian),
                    addend: entry.r_addend(endian),
                }));
            }
        }
        let read = |kind| -> Result<Vec<Symbol>, object::read::Error> {
            let table = table.symbols(endian, bytes, kind)?;
            let symbol = |symbol: &elf::Sym64<LittleEndian>| Symbol {
                name: table
                    .symbol_name(endian, symbol)
                    .map(|name| String::from_utf8_lossy(name).into_owned())
                    .unwrap_or_default(),
                address: symbol.st_value(endian),
                size: symbol.st_size(endian),
                kind: symbol.st_type().0,
                is_defined: symbol.st_shndx(endian) != elf::SHN_UNDEF,
                is_local: symbol.st_bind() == elf::STB_LOCAL,
                is_hidden: matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL),
                section: usize::from(symbol.st_shndx(endian).0),
            };
            Ok(table.iter().map(symbol).collect())
        };
        let dynamic_symbols = read(elf::SHT_DYNSYM)?;
        let mut symbols = read(elf::SHT_SYMTAB)?;
        let known: HashSet<(String, u64)> = symbols.iter().map(|one| (one.name.clone(), one.address)).collect();
        symbols.extend(dynamic_symbols.iter().filter(|one| !known.contains(&(one.name.clone(), one.address))).cloned());
        let mut dynamic = Vec::new();
        if let Some((entries, strings)) = table.dynamic(endian, bytes)? {
            let strings = table.strings(endian, bytes, strings)?;
            for entry in entries {
                let (tag, value) = (entry.d_tag(endian).0, entry.d_val(endian));
                if tag == elf::DT_NULL.0 {
                    break;
                }
                let text = u32::try_from(value).ok().and_then(|at| strings.get(at).ok());
                let text = text.map(|text| String::from_utf8_lossy(text).into_owned());
                dynamic.push(Dynamic { tag, value, text });
            }
        }
        let machine = header.e_machine(endian).0;
        Ok(Self {
            machine,
            segments: segments.collect(),
            sections,
            dynamic_symbols,
            symbols,
            dynamic,
            relocations,
            lines: OnceCell::new(),
        })
    }

    /// The value of a dynamic entry.
    pub(super) fn dynamic(&self, tag: i64) -> Option<u64> {
        self.dynamic.iter().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// The section that an address is in.
    pub(super) fn section_of(&self, address: u64) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.flags & elf::SHF_ALLOC.0 != 0 && section.holds(address))
    }

    /// The symbol that an address is in; where none spans it, the last one before it in its section.
    pub(super) fn symbol_of(&self, address: u64) -> Option<&Symbol> {
        let named = || self.symbols.iter().filter(|symbol| symbol.is_defined && !symbol.name.is_empty());
        let spans = |symbol: &&Symbol| address.wrapping_sub(symbol.address) < symbol.size;
        let section = self.section_of(address)?;
        let before = |symbol: &&Symbol| symbol.address <= address && section.holds(symbol.address);
        named().find(spans).or_else(|| named().filter(before).max_by_key(|symbol| symbol.address))
    }

    /// Where an address is, in words.
    pub(super) fn place(&self, address: u64) -> Place {
        let section = self.section_of(address);
        let symbol = self.symbol_of(address);
        let base = symbol.map(|symbol| symbol.address).or_else(|| section.map(|section| section.address));
        Place {
            symbol: symbol.map(|symbol| symbol.name.clone()),
            section: section.map(|section| section.name.clone()),
            offset: base.map(|base| address - base),
            source: self.lines.get_or_init(|| Lines::of(&self.sections)).line(address),
            ..Place::default()
        }
    }
}

/// Names that an object file defines, its own static functions included.
pub(super) fn defined(bytes: &[u8]) -> Vec<String> {
    names(bytes, |_| true)
}

/// Names by which a static linker finds something in an object file: hidden ones and weak ones, too.
pub(super) fn offered(bytes: &[u8]) -> Vec<String> {
    names(bytes, |binding| binding != elf::STB_LOCAL)
}

fn names(bytes: &[u8], wanted: impl Fn(elf::SymbolBind) -> bool) -> Vec<String> {
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else { return Vec::new() };
    let endian = file.endian();
    let symbols = file.elf_symbol_table();
    let own = symbols.iter().filter(|symbol| symbol.st_shndx(endian) != elf::SHN_UNDEF && wanted(symbol.st_bind()));
    own.filter_map(|symbol| symbols.symbol_name(endian, symbol).ok())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}
