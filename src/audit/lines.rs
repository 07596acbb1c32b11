//! The source line of an address, from the debug data that kernels are compiled with. Read only where there is something to
//! be told of.

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian};

use super::elf::Section;

/// Lines of an object.
pub(super) struct Lines<'a>(Option<Context<EndianSlice<'a, LittleEndian>>>);

impl<'a> Lines<'a> {
    pub(super) fn of(sections: &[Section<'a>]) -> Self {
        let data = |name: &str| sections.iter().find(|section| section.name == name).map_or(&[][..], |one| one.data);
        let load = |id: addr2line::gimli::SectionId| {
            Ok::<_, addr2line::gimli::Error>(EndianSlice::new(data(id.name()), LittleEndian))
        };
        Self(Dwarf::load(load).ok().and_then(|dwarf| Context::from_dwarf(dwarf).ok()))
    }

    /// `kernels/softmax.c:12`.
    pub(super) fn line(&self, address: u64) -> Option<String> {
        let location = self.0.as_ref()?.find_location(address).ok()??;
        // Kernels are compiled in the folder of their crate.
        Some(format!("{}:{}", location.file?.trim_start_matches("./"), location.line?))
    }
}
