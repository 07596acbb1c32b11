//! `certify`: are the checks of kernel crates strong enough to refuse cheap wrong results?

use kopt_schema::exit::Exit;

use super::Target;
use crate::build::{self, Role};
use crate::context::Context;
use crate::error::Result;
use crate::gate::Certificate;
use crate::gate::certificate::{share, told};
use crate::manifest::Kernel;
use crate::runner::certify;
use crate::shell::table::{Align, Table};
use crate::shell::{BAD, GOOD, Shell, count};

/// Certifies the checks of the selected kernels.
///
/// # Errors
/// When they cannot be found, built or run. A check that is too weak is not an error but [`Exit::Setup`].
pub fn certify(context: &Context, shell: &mut Shell, target: &Target) -> Result<Exit> {
    let (workspace, kernels) = target.kernels(context, shell)?;
    let executables = build::executables(context, shell.manner(), &workspace, &kernels, Role::Correctness)?;
    let mut exit = Exit::Ok;
    for (kernel, executable) in kernels.iter().zip(&executables) {
        let rows = kernel.manifest.shapes.len();
        shell.progress().start(&kernel.member.name, Some(rows));
        let mut at = 0;
        let certificate = certify::certify(context, kernel, executable, &mut |message| {
            at += 1;
            shell.progress().at(at, "mutants");
            shell.message(message)
        });
        shell.progress().finish();
        if !tell(shell, kernel, &certificate?) {
            exit = Exit::Setup;
        }
    }
    Ok(exit)
}

/// Says what came of it; whether the check is strong enough.
fn tell(shell: &mut Shell, kernel: &Kernel, certificate: &Certificate) -> bool {
    let (name, passed) = (&kernel.member.name, certificate.passed());
    let tried = count(certificate.tried(), "mutant");
    if passed.is_empty() {
        let nearest = certificate.nearest().map_or(String::new(), |nearest| {
            format!("; the nearest, {}, is {} bounds off", told(nearest), share(nearest.1.excess))
        });
        let honest = certificate
            .honest()
            .map_or(String::new(), |honest| format!("; the kernel itself uses {} of its bounds", share(honest)));
        shell.status("Certified", GOOD, &format!("{name}: {tried}, all refused{nearest}{honest}"));
        return true;
    }
    shell.tell(&format!("{BAD}{:>12}{BAD:#} {name}: {} of {tried} pass its check\n", "Too weak", passed.len()));
    let mut table = Table::new(&[
        ("entry", Align::Left),
        ("shape", Align::Left),
        ("output", Align::Left),
        ("mutant", Align::Left),
        ("error / bound", Align::Right),
        ("kernel's", Align::Right),
    ]);
    for (row, taken) in passed {
        table.row([
            row.entry.clone(),
            row.case.clone(),
            taken.output.clone(),
            taken.mutant.clone(),
            share(taken.excess),
            row.honest.map_or(String::new(), share),
        ]);
    }
    shell.tell(&table.render());
    shell.tell(&format!("{}\n", certificate.advice()));
    false
}
