//! A test or bench executable asked to hand wrong results to its own check.

use camino::Utf8Path;
use kopt_schema::exit::Exit;
use kopt_schema::message::{CERTIFY_ARGUMENT, Message};

use super::{Heard, Job, Runner};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::gate::Certificate;
use crate::manifest::Kernel;

/// Runs `executable` with the mutants of its reference; `heard` is told of each row as it comes.
///
/// # Errors
/// When it cannot be run, fails, or says nothing. That a mutant passes is no error.
pub fn certify(
    context: &Context,
    kernel: &Kernel,
    executable: &Utf8Path,
    heard: &mut dyn FnMut(&Message) -> Result<()>,
) -> Result<Certificate> {
    let runner = Runner::new(context)?;
    let job = Job { kernel, executable, arguments: vec![CERTIFY_ARGUMENT.to_owned()], environment: Vec::new() };
    let mut certificate = Certificate::default();
    let ended = runner.run(&job, &mut |said| {
        if let Heard::Message(message) = said
            && let Message::Certified(row) = &*message
        {
            heard(&message)?;
            certificate.rows.push(row.clone());
        }
        Ok(())
    })?;
    let name = &kernel.member.name;
    let failed = |what: String| {
        let error = Error::new(Exit::Setup, format!("the check of `{name}` could not be certified")).cause(what);
        match ended.printed.trim() {
            "" => error,
            printed => error.cause(format!("it printed:\n{printed}")),
        }
    };
    if let Some(trouble) = ended.trouble().or_else(|| ended.garbled.clone()) {
        return Err(
            failed(trouble).hint(format!("`cargo kopt check -p {name}` shows whether the kernel itself is right"))
        );
    }
    if certificate.tried() == 0 {
        return Err(failed("its executable tried no mutant".to_owned())
            .hint("its operator must have outputs, and the crate the same version of kopt-harness as this tool"));
    }
    Ok(certificate)
}
