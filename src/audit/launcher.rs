//! Class `launcher`: what its object files ask of others, bring to memory and have run when they are loaded. Read before the
//! runtime is linked to them, which brings threads, sockets and memory of its own. What a launcher does with what it may use
//! shows in its recording and in the trace; the device code inside is not read. Its objects are never called stateless.

use std::collections::HashSet;

use kopt_schema::audit::{Audit, Stateless};
use object::Endianness;
use object::elf;
use object::read::elf::{ElfFile64, SectionHeader as _, Sym as _};

use super::collector::Place;
use super::{Collector, Subject, not_audited, rules};

/// Bytes of an entry of the list of constructors.
const ENTRY: u64 = 8;

/// Bytes that lie between variables of what compilers bring, in all sections of a file.
const BETWEEN: u64 = 64;

/// Bytes of one variable that compilers bring, at most, and of all of a file: a name alone is soon given.
const VARIABLE: u64 = 24;
const VARIABLES: u64 = 1024;

pub(super) fn audit(subject: &Subject<'_>) -> Audit {
    if subject.parts.is_empty() {
        return not_audited(subject.class, "the object files that the launcher was linked from are not here");
    }
    let mut found = Collector::new(subject.allow);
    let own: HashSet<String> = subject.parts.iter().flat_map(|part| super::elf::defined(part)).collect();
    for part in subject.parts {
        match ElfFile64::<Endianness>::parse(&part[..]) {
            Ok(file) => read(&file, &own, &mut found),
            Err(error) => {
                found.add("undecodable-code", format!("an object file that cannot be read: {error}"), Place::default);
            }
        }
    }
    let scope = format!(
        "{} object files of host code; device code and what the runtime does are not read",
        subject.parts.len()
    );
    found.finish(subject.class, Stateless::NotAudited, scope)
}

fn read(file: &ElfFile64<'_, Endianness>, own: &HashSet<String>, found: &mut Collector<'_>) {
    let endian = file.endian();
    let (symbols, sections) = (file.elf_symbol_table(), file.elf_section_table());
    let fine = |id: &str, name: &str| rules::find(id).is_some_and(|rule| rules::matches(&rule.allow, name));
    // Bytes of each section that compilers are known to bring.
    let mut known = vec![0; sections.len()];
    let mut named = vec![false; sections.len()];
    for symbol in symbols.iter() {
        let name = symbols.symbol_name(endian, symbol).map(String::from_utf8_lossy).unwrap_or_default();
        let place = |section: &str| Place { symbol: Some(name.to_string()), ..Place::section(section) };
        let index = symbol.st_shndx(endian);
        if index == elf::SHN_UNDEF {
            let is_known = name.is_empty() || own.contains(&*name) || rules::may_import(&name);
            if !is_known && !fine("launcher-import", &name) {
                found.add("launcher-import", &*name, || place(".symtab"));
            }
            continue;
        }
        if index == elf::SHN_COMMON {
            found.add("launcher-data", &*name, || place("COMMON"));
            continue;
        }
        if symbol.st_type() == elf::STT_GNU_IFUNC {
            found.add("launcher-constructor", &*name, || place(".symtab"));
        }
        let index = usize::from(index.0);
        let writable = sections.iter().nth(index).is_some_and(|section| is_writable(section.sh_flags(endian).0));
        if !writable || matches!(symbol.st_type(), elf::STT_SECTION | elf::STT_FILE) {
            continue;
        }
        let size = symbol.st_size(endian);
        if fine("launcher-data", &name) && size <= VARIABLE && known.iter().sum::<u64>() + size <= VARIABLES {
            known[index] += size;
        } else {
            named[index] = true;
            found.add("launcher-data", &*name, || place(".symtab"));
        }
    }
    let (mut constructors, mut between) = (0, 0);
    for (index, section) in sections.iter().enumerate() {
        let name = sections.section_name(endian, section).map(String::from_utf8_lossy).unwrap_or_default();
        let (size, kind) = (section.sh_size(endian), section.sh_type(endian));
        let is_list = [elf::SHT_INIT_ARRAY, elf::SHT_FINI_ARRAY, elf::SHT_PREINIT_ARRAY].contains(&kind);
        if is_list || [".ctors", ".dtors", ".init", ".fini"].iter().any(|start| is_of(&name, start)) {
            // One of a file registers its device code.
            constructors += if kind == elf::SHT_INIT_ARRAY { size } else { size.saturating_add(ENTRY) };
            if size > 0 && constructors > ENTRY {
                found.add("launcher-constructor", &*name, || Place::section(&name));
            }
        } else if is_writable(section.sh_flags(endian).0) && !named[index] {
            between += size.saturating_sub(known[index]);
            if size > known[index] && between > BETWEEN {
                found.add("launcher-data", format!("{size} bytes of `{name}`"), || Place::section(&name));
            }
        }
    }
}

/// Whether a section is `start`, or one of its parts by order.
fn is_of(name: &str, start: &str) -> bool {
    name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn is_writable(flags: u64) -> bool {
    flags & elf::SHF_ALLOC.0 != 0 && flags & elf::SHF_WRITE.0 != 0
}
