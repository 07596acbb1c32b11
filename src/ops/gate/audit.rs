//! The one place where reading the change, without running it, has its say: what is found here is told beside the
//! measurement. Nothing reads it yet; `Finding`s of a scanner go into the list that this returns.

use crate::manifest::Kernel;

/// What reading the head's kernel, beside the base's where there is one, has found: in words, a line each.
pub fn of_change(_base: Option<&Kernel>, _head: &Kernel) -> Vec<String> {
    Vec::new()
}
