//! The state audit: from the bytes of a built object to findings. What a kernel can remember between two calls, and what it
//! can reach beyond its arguments, is read from the object that runs and never from its source, where names can be
//! pasted together. Pure: who has the bytes gets the same answer.
//!
//! | module | what |
//! |---|---|
//! | [`rules`] | the rules, as data: one file each, embedded |
//! | `elf` | what the audit reads of an object |
//! | `native` | class `native`: imports, exports, constructors, memory |
//! | `code` | every instruction that can be reached, and every one that cannot |
//! | `instruction` | one instruction |
//! | `device` | class `device`: sections and symbols of a cubin, instructions of its PTX |
//! | `tables` | class `device`: what is done with the compiler's tables |
//! | `launcher` | class `launcher`: imports and memory of its object files |
//! | `lines` | the source line of an address |
//! | `collector` | findings, counted and sorted |
//! | [`words`] | an audit in words |
//!
//! # What it cannot see
//!
//! - Where a jump goes whose address is computed at run time. Code that no direct jump reaches is read in order all the
//!   same; bytes inside other instructions are named by a note.
//! - What a kernel does through pointers that it finds: on the stack, in a register that its caller left, behind an
//!   argument. Memory that is not its own is kept from it by the harness and the sandbox.
//! - What a launcher does with what it may use, and its device code; objects for processors other than x86-64. They are *not
//!   audited*, and never called stateless.

mod code;
mod collector;
mod device;
mod elf;
mod instruction;
mod launcher;
mod lines;
mod native;
pub mod rules;
mod tables;
pub mod words;

use kopt_schema::audit::{Audit, Stateless};
use kopt_schema::manifest::Class;

use collector::Collector;

/// What is audited.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// What the candidate is made of.
    pub class: Class,
    /// The operator: entry points are functions of this name, or of one that begins with it and `_`.
    pub op: &'a str,
    /// The object that runs.
    pub object: &'a [u8],
    /// The object files it was linked from: what they define is the candidate's, and not the toolchain's.
    pub parts: &'a [Vec<u8>],
    /// What the object was assembled from (class `device`).
    pub ptx: Option<&'a str>,
    /// Rules whose findings do not count.
    pub allow: &'a [String],
    /// Whether a name is one that libraries of every process define.
    pub is_taken: &'a dyn Fn(&str) -> bool,
}

/// Audits an object.
#[must_use]
pub fn audit(subject: &Subject<'_>) -> Audit {
    match subject.class {
        Class::Native => native::audit(subject),
        Class::Device => device::audit(subject),
        Class::Launcher => launcher::audit(subject),
    }
}

/// Of an object that nobody has read nothing is said.
fn not_audited(class: Class, why: &str) -> Audit {
    Audit { class, stateless: Stateless::NotAudited, scope: why.to_owned(), findings: Vec::new(), allowed: Vec::new() }
}
