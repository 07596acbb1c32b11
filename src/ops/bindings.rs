//! `bindings`: renews the checked-in `kernels/<op>.bindings.rs`, or says whether they fit their headers.

use kopt_schema::exit::Exit;

use super::Target;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::shell::{GOOD, Shell};

/// Renews the bindings of the selected kernels; with `check`, only looks.
///
/// # Errors
/// When the kernels cannot be found, a header cannot be read, or libclang is missing where it is needed.
pub fn bindings(context: &Context, shell: &mut Shell, target: &Target, check: bool) -> Result<Exit> {
    let (_, kernels) = target.kernels(context, shell)?;
    let mut exit = Exit::Ok;
    for kernel in &kernels {
        let (name, folder) = (&kernel.member.name, &kernel.member.folder);
        let failed = |error: kopt_build::BuildError| Error::setup(format!("{name}: no bindings")).because(&error);
        if !check {
            let changed = kopt_build::bindings::write(folder, &kernel.manifest).map_err(failed)?;
            shell.status(if changed { "Renewed" } else { "Fresh" }, GOOD, &format!("bindings of {name}"));
        } else if kopt_build::bindings::check(folder, &kernel.manifest).map_err(failed)? {
            shell.status("Fresh", GOOD, &format!("bindings of {name}"));
        } else {
            let stale = Error::setup(format!("{name}: the checked-in bindings do not fit {}", kernel.manifest.header));
            shell.error(&stale.hint(format!("`cargo kopt bindings -p {name}` renews them; it needs libclang")))?;
            exit = Exit::Setup;
        }
    }
    Ok(exit)
}
