//! `list`: the kernel crates of a workspace.

use kopt_schema::exit::Exit;
use kopt_schema::message::{KernelInfo, Message};

use super::{Target, wrong_manifests};
use crate::context::Context;
use crate::error::Result;
use crate::shell::Shell;
use crate::shell::table::{Align, Table};

/// Lists kernels; those with a wrong manifest are complained about, and the others still listed.
///
/// # Errors
/// When cargo cannot say or nothing is selected.
pub fn list(context: &Context, shell: &mut Shell, target: &Target) -> Result<Exit> {
    let (_, found) = target.find(context)?;
    let infos: Vec<KernelInfo> = found.kernels.iter().map(|kernel| kernel.info()).collect();
    if !infos.is_empty() {
        shell.answer(&table(&infos, shell.verbose()).render())?;
    }
    for info in infos {
        shell.message(&Message::Kernel(info))?;
    }
    if found.findings.is_empty() {
        return Ok(Exit::Ok);
    }
    found.complain(shell)?;
    shell.error(&wrong_manifests(&found))?;
    Ok(Exit::Setup)
}

/// With `named`, shapes by their names instead of their number.
fn table(infos: &[KernelInfo], named: bool) -> Table {
    let mut table = Table::new(&[
        ("kernel", Align::Left),
        ("op", Align::Left),
        ("backend", Align::Left),
        ("class", Align::Left),
        ("dtype", Align::Left),
        ("shapes", if named { Align::Left } else { Align::Right }),
        ("sources", Align::Left),
        ("flags", Align::Left),
    ]);
    for info in infos {
        table.row([
            info.kernel.clone(),
            info.op.clone(),
            info.backend.clone(),
            info.class.clone(),
            info.dtype.name().to_owned(),
            if named { info.shapes.join(" ") } else { info.shapes.len().to_string() },
            info.sources.join(" "),
            info.flags.join(" "),
        ]);
    }
    table
}
