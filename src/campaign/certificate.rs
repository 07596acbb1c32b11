//! The problem before the kernel: a campaign begins only where the crate's check refuses cheap wrong results.
//!
//! What was found is kept under `target/kopt/certificates`, by the judge's digest: manifest, operator, harness and kernel
//! are all in it, so that whatever a certificate rests on asks for a new one when it changes.

use std::fs;

use kopt_schema::campaign::Target;
use kopt_schema::exit::Exit;

use super::bouts::Bouts;
use super::folder::digest;
use super::opening::Surroundings;
use super::stand;
use crate::error::{Error, Result};
use crate::gate::Certificate;
use crate::gate::certificate::told;
use crate::manifest::Kernel;
use crate::revision::{Revision, Revisions};

/// Mutants that an error names.
const NAMED: usize = 3;

/// SHA-256 of the certificate of the version that a campaign starts from, made where there is none. Cargo has nothing to
/// do when the campaign asks for its judge again. `now` is the crate as it lies in the workspace.
///
/// # Errors
/// [`Exit::Setup`] when the check lets a wrong result pass; when the judge cannot be built or run.
pub(super) fn of_base(around: &mut Surroundings<'_>, now: &Kernel, target: &Target) -> Result<String> {
    let (root, own) = (&around.workspace.root, around.workspace.target.join("kopt"));
    around.audience.doing("building the judge");
    let base = Revision { name: "the campaign's base".to_owned(), commit: target.base.clone() };
    let export = Revisions::around(root, &own.join("revisions"))?.export(&base)?;
    let kernel = stand::kernel_in(around.context, around.audience.shell(), &export.workspace, &target.kernel)?;
    // What is committed and what is compiled must be the same files.
    if let Some(source) = target.kernel_sources.iter().find(|source| !kernel.manifest.sources.contains(source)) {
        let wrong =
            format!("`{source}` may change, and is no source of `{}` in the commit it starts from", target.kernel);
        return Err(Error::setup(wrong).hint("commit the manifest that names it, and begin again"));
    }
    if let Some(shape) = target.target_shapes.iter().find(|name| !has(&kernel, now, name)) {
        let wrong = format!("`{}` has no such shape `{shape}` in the commit it starts from", target.kernel);
        return Err(Error::setup(wrong).hint("commit the manifest that lists it, and begin again"));
    }
    // The kernel's, whose lock is held, and not the campaign's: one on another kernel of the operator may have the same
    // name until it has its folder.
    let folder = own.join("certify").join(&target.kernel);
    let bouts = Bouts::prepare(around.context, around.audience, &export, kernel, &own, &folder, root)?;
    let path = own.join("certificates").join(format!("{}.json", bouts.digest));
    let kept = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Certificate>(&bytes).ok());
    let certificate = match kept {
        Some(certificate) => certificate,
        None => {
            around.audience.doing("certifying the check");
            bouts.certify(around.context)?
        }
    };
    refuse(&certificate, &target.kernel)?;
    let failed =
        |error: &dyn std::error::Error| Error::new(Exit::Output, format!("cannot write `{path}`")).because(error);
    let bytes = serde_json::to_vec(&certificate).map_err(|error| failed(&error))?;
    fs::create_dir_all(own.join("certificates"))
        .and_then(|()| fs::write(&path, &bytes))
        .map_err(|error| failed(&error))?;
    Ok(digest(&bytes))
}

/// Whether the base has the shape as the crate has it now, whatever the order of its parameters.
fn has(base: &Kernel, now: &Kernel, name: &str) -> bool {
    let of = |kernel: &Kernel| {
        let shape = kernel.manifest.shapes.iter().find(|shape| shape.name == name)?;
        let mut parameters = shape.parameters.clone();
        parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
        Some(parameters)
    };
    of(base).is_some_and(|parameters| of(now) == Some(parameters))
}

/// What is wrong with a check that lets mutants pass.
fn refuse(certificate: &Certificate, name: &str) -> Result<()> {
    let passed = certificate.passed();
    if passed.is_empty() {
        return Ok(());
    }
    let mut names: Vec<String> = passed.iter().copied().take(NAMED).map(told).collect();
    names.extend((passed.len() > NAMED).then(|| format!("and {} more", passed.len() - NAMED)));
    Err(Error::setup(format!("the check of `{name}` is too weak for a campaign"))
        .cause(format!("wrong results pass it: {}", names.join(", ")))
        .cause(certificate.advice())
        .hint(format!("`cargo kopt certify -p {name}` shows all of them; tighten the bounds of its operator")))
}
