//! Class `native`: what a shared object imports, exports, brings to memory and asks of the loader.

use std::collections::HashSet;

use kopt_schema::audit::{Audit, Stateless};
use kopt_schema::manifest::Class;
use object::elf;

use super::collector::Place;
use super::elf::{Image, Section, Segment, Symbol};
use super::{Collector, Subject, code, not_audited, rules};

/// What memory is protected by.
const PAGE: u64 = 4096;

pub(super) fn audit(subject: &Subject<'_>) -> Audit {
    let image = match Image::parse(subject.object) {
        Ok(image) => image,
        // A loader may make something of it all the same.
        Err(error) => {
            let (mut found, what) = (Collector::new(subject.allow), format!("the object cannot be read: {error}"));
            found.add("undecodable-code", what.clone(), Place::default);
            return found.finish(subject.class, Stateless::NotAudited, what);
        }
    };
    if image.machine != elf::EM_X86_64.0 {
        let why = format!("the audit reads x86-64 code only; this object is for machine {}", image.machine);
        return not_audited(subject.class, &why);
    }
    let mut found = Collector::new(subject.allow);
    imports(&image, &mut found);
    exports(&image, subject, &mut found);
    linked(&image, subject, &mut found);
    loading(&image, &mut found);
    memory(&image, &mut found);
    let own: HashSet<String> = subject.parts.iter().flat_map(|part| super::elf::defined(part)).collect();
    let instructions = code::audit(&image, &own, &mut found);
    let scope = format!("an object for x86-64, {instructions} instructions");
    found.finish(subject.class, Stateless::Presumed, scope)
}

/// Names that are found in other libraries when the object is loaded.
fn imports(image: &Image<'_>, found: &mut Collector<'_>) {
    let undefined = image.dynamic_symbols.iter().filter(|symbol| !symbol.is_defined && !symbol.name.is_empty());
    for symbol in undefined {
        if rules::may_import(&symbol.name) {
            // Nobody has to write a call for it: who reads the source does not see that a library does the work.
            if rules::of_several(&symbol.name).is_some() {
                found.allow("dependency", &symbol.name, "the system's mathematics, for several elements at once");
            }
            continue;
        }
        let about = |rule: &&rules::Rule| rule.class == Class::Native && rules::matches(&rule.imports, &symbol.name);
        let id = rules::all().iter().find(about).map_or("import", |rule| rule.id);
        found.add(id, &symbol.name, || Place { symbol: Some(symbol.name.clone()), ..Place::section(".dynsym") });
    }
}

/// Names that others can find in the object.
fn exports(image: &Image<'_>, subject: &Subject<'_>, found: &mut Collector<'_>) {
    for symbol in image.dynamic_symbols.iter().filter(|symbol| is_exported(symbol)) {
        if is_own(subject, &symbol.name) {
            continue;
        }
        let id = if interposes(subject, &symbol.name) { "interposition" } else { "export" };
        found.add(id, &symbol.name, || image.place(symbol.address));
    }
}

/// Names that whoever links the object files finds in them: the crate's tests and benches do, and there a function that is hidden
/// from everybody outside the object answers for the C library's all the same.
fn linked(image: &Image<'_>, subject: &Subject<'_>, found: &mut Collector<'_>) {
    let exported = image.dynamic_symbols.iter().filter(|symbol| is_exported(symbol));
    let mut seen: HashSet<String> = exported.map(|symbol| symbol.name.clone()).collect();
    let fine = rules::find("interposition").map_or(&[][..], |rule| &rule.allow);
    for full in subject.parts.iter().flat_map(|part| super::elf::offered(part)) {
        // `memcpy@@VERSION` answers for `memcpy`.
        let name = full.split('@').next().unwrap_or(&full).to_owned();
        if is_own(subject, &name) || rules::matches(fine, &name) || !interposes(subject, &name) {
            continue;
        }
        if seen.insert(name.clone()) {
            found.add("interposition", &name, || Place {
                symbol: Some(name.clone()),
                ..Place::section(".symtab of an object file")
            });
        }
    }
}

fn is_exported(symbol: &Symbol) -> bool {
    let named = !symbol.name.is_empty() && symbol.kind != elf::STT_SECTION.0;
    symbol.is_defined && !symbol.is_local && !symbol.is_hidden && named
}

/// Whether a name is the operator's.
fn is_own(subject: &Subject<'_>, name: &str) -> bool {
    name.strip_prefix(subject.op).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// Whether a name is one that others look for.
fn interposes(subject: &Subject<'_>, name: &str) -> bool {
    let reserved = rules::find("interposition").map_or(&[][..], |rule| &rule.exports);
    rules::matches(reserved, name) || rules::may_import(name) || (subject.is_taken)(name)
}

/// What the loader does before the first call.
fn loading(image: &Image<'_>, found: &mut Collector<'_>) {
    let arrays = [
        (elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ, "an entry of the initialisation array"),
        (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ, "an entry of the termination array"),
        (elf::DT_PREINIT_ARRAY, elf::DT_PREINIT_ARRAYSZ, "an entry of the pre-initialisation array"),
    ];
    for (array, size, what) in arrays {
        let (Some(start), Some(size)) = (image.dynamic(array.0), image.dynamic(size.0).filter(|size| *size > 0)) else {
            continue;
        };
        // Each entry is filled in by the loader: what it is filled with is what runs.
        let entries = image.relocations.iter().filter(|entry| entry.offset.wrapping_sub(start) < size);
        let called: Vec<u64> = entries.map(|entry| entry.addend.cast_unsigned()).collect();
        match called.is_empty() {
            true => found.add("constructor", what, || image.place(start)),
            false => called.iter().for_each(|address| found.add("constructor", what, || image.place(*address))),
        }
    }
    for (tag, what) in [(elf::DT_INIT, "an initialisation function"), (elf::DT_FINI, "a termination function")] {
        if let Some(address) = image.dynamic(tag.0) {
            found.add("constructor", what, || image.place(address));
        }
    }
    // Nobody runs these lists without the toolchain's start files; no compiler of today makes one.
    let is_list = |section: &&Section<'_>| section.name.starts_with(".ctors") || section.name.starts_with(".dtors");
    for section in image.sections.iter().filter(is_list).filter(|section| section.size > 0) {
        found.add("constructor", "a list of constructors", || Place::section(&section.name));
    }
    for symbol in image.symbols.iter().filter(|symbol| symbol.kind == elf::STT_GNU_IFUNC.0 && symbol.is_defined) {
        found.add("ifunc", &symbol.name, || image.place(symbol.address));
    }
    let resolvers = image.relocations.iter().filter(|entry| entry.kind == elf::R_X86_64_IRELATIVE.0);
    for entry in resolvers {
        found.add("ifunc", "a function that is resolved when loaded", || image.place(entry.addend.cast_unsigned()));
    }
    let flags = image.dynamic(elf::DT_FLAGS.0).unwrap_or(0);
    if image.dynamic(elf::DT_TEXTREL.0).is_some() || flags & elf::DF_TEXTREL.0 != 0 {
        let code = |offset: u64| image.section_of(offset).is_some_and(Section::is_code);
        let first = image.relocations.iter().find(|entry| code(entry.offset));
        found.add("text-relocation", "code that is changed when loaded", || {
            first.map_or_else(Place::default, |entry| image.place(entry.offset))
        });
    }
    dependencies(image, found);
}

/// Libraries, and where they are looked for.
fn dependencies(image: &Image<'_>, found: &mut Collector<'_>) {
    let fine = rules::find("dependency").map_or(&[][..], |rule| &rule.allow);
    let tags = [
        elf::DT_NEEDED,
        elf::DT_RPATH,
        elf::DT_RUNPATH,
        elf::DT_AUDIT,
        elf::DT_DEPAUDIT,
        elf::DT_FILTER,
        elf::DT_AUXILIARY,
    ];
    for entry in image.dynamic.iter().filter(|entry| tags.iter().any(|tag| tag.0 == entry.tag)) {
        let text = entry.text.clone().unwrap_or_default();
        if entry.tag != elf::DT_NEEDED.0 || !rules::matches(fine, &text) {
            found.add("dependency", text, || Place::section(".dynamic"));
        }
    }
    if image.segments.iter().any(|segment| segment.kind == elf::PT_INTERP.0) {
        found.add("dependency", "a loader of its own", || Place::section(".interp"));
    }
}

/// Memory that the object brings.
fn memory(image: &Image<'_>, found: &mut Collector<'_>) {
    for symbol in image.symbols.iter().filter(|symbol| symbol.is_defined && symbol.kind == elf::STT_TLS.0) {
        let section = image.sections.get(symbol.section).map(|section| section.name.clone());
        found.add("thread-local", &symbol.name, || Place {
            symbol: Some(symbol.name.clone()),
            section,
            ..Place::default()
        });
    }
    let has_symbol = image.symbols.iter().any(|symbol| symbol.is_defined && symbol.kind == elf::STT_TLS.0);
    if image.segments.iter().any(|segment| segment.kind == elf::PT_TLS.0 && segment.memory > 0) && !has_symbol {
        found.add("thread-local", "a thread-local section", || Place::section(".tdata or .tbss"));
    }
    let loaded = || image.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD.0);
    let (write, run) = (elf::PF_W.0, elf::PF_X.0);
    for segment in loaded().filter(|segment| segment.flags & write != 0 && segment.flags & run != 0) {
        let both = |section: &&Section<'_>| section.is_writable() && section.is_code();
        let section = image.sections.iter().find(both);
        found.add("executable-data", "memory that is written and run", || {
            section.map_or_else(|| image.place(segment.address), |section| image.place(section.address))
        });
    }
    let stack = image.segments.iter().find(|segment| segment.kind == elf::PT_GNU_STACK.0);
    if stack.is_none_or(|stack| stack.flags & run != 0) {
        found.add("executable-data", "a stack that is run", || Place::section(".note.GNU-stack"));
    }
    for segment in loaded().filter(|segment| segment.flags & write != 0) {
        writable(image, segment, found);
    }
}

/// What of a writable segment stays writable: the loader takes whole pages back once it has filled them in.
fn writable(image: &Image<'_>, segment: &Segment, found: &mut Collector<'_>) {
    let closed = image.segments.iter().filter(|one| one.kind == elf::PT_GNU_RELRO.0);
    let closed: Vec<(u64, u64)> =
        closed.map(|one| (one.address / PAGE * PAGE, (one.address + one.memory) / PAGE * PAGE)).collect();
    let is_open = |address: u64| !closed.iter().any(|(from, to)| (*from..*to).contains(&address));
    let end = segment.address + segment.memory;
    let inside = |address: u64| (segment.address..end).contains(&address);
    let mut named = false;
    let is_variable = |symbol: &&Symbol| {
        symbol.is_defined
            && symbol.kind != elf::STT_TLS.0
            && symbol.kind != elf::STT_SECTION.0
            && symbol.kind != elf::STT_FILE.0
    };
    // Labels that the linker sets at the ends of sections are no variables.
    let sized = |symbol: &&Symbol| symbol.size > 0;
    let mut seen = HashSet::new();
    for symbol in image.symbols.iter().filter(is_variable).filter(sized) {
        if inside(symbol.address) && is_open(symbol.address) && seen.insert((symbol.address, symbol.name.clone())) {
            named = true;
            found.add("writable-data", &symbol.name, || image.place(symbol.address));
        }
    }
    let open = |section: &&Section<'_>| {
        let last = section.address + section.size.saturating_sub(1);
        section.is_writable()
            && section.flags & elf::SHF_TLS.0 == 0
            && section.size > 0
            && inside(section.address)
            && is_open(last)
    };
    if !named {
        let sections: Vec<&Section<'_>> = image.sections.iter().filter(open).collect();
        for section in &sections {
            found.add("writable-data", &section.name, || Place { offset: Some(0), ..Place::section(&section.name) });
        }
        // Headers can say anything; what is mapped is what counts.
        if sections.is_empty() && segment.memory > 0 && is_open(end - 1) {
            found.add("writable-data", "memory without a name", || image.place(segment.address));
        }
    }
}
