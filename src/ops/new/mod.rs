//! `new`: a kernel crate that builds, tests and benches at once, inside a workspace or outside of any.
//!
//! The crate is written beside its place, moved there whole, entered in the workspace around it, and looked at as cargo
//! and the build script will. Where one of these fails, all of it is taken back.

mod examples;
mod harness;
mod members;
mod name;
mod place;
mod starter;

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::{Backend, Language};
use kopt_schema::message::{Message, OperatorInfo};
use kopt_schema::operator::{self, StandardOperator};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::{Found, Kernel};
use crate::shell::table::{Align, Table};
use crate::shell::{GOOD, Shell};
use crate::workspace::Workspace;
use harness::Harness;
use place::Place;
use starter::Starter;

/// What to make.
#[derive(Debug, Clone)]
pub struct Request {
    /// The package's name.
    pub name: String,
    /// The operator; by default the one that the package is named after.
    pub op: Option<String>,
    /// The operator is not a standard one: its mathematics stand in the crate.
    pub own: bool,
    /// Where it runs.
    pub backend: Backend,
    /// What it is written in; by default the backend's own language.
    pub language: Option<Language>,
    /// The crate's folder; by default the name.
    pub path: Option<Utf8PathBuf>,
    /// The harness to depend on.
    pub harness: Option<Utf8PathBuf>,
}

/// Makes a kernel crate.
///
/// # Errors
/// When a name is impossible, the place is taken, or a file cannot be written; then nothing is left behind.
pub fn new(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    name::check(&request.name)?;
    let op = operator_of(request)?;
    let language = request.language.unwrap_or(request.backend.language());
    let starter = match request.own {
        true => Starter::own(&op, request.backend, language)?,
        false => Starter::standard(&op, request.backend, language)?,
    };
    let place = Place::find(context, request)?;
    let harness = Harness::find(context, request.harness.as_deref(), &place)?;
    let files = starter.files(&request.name, &harness, place.is_root);
    let made = place.make(&files)?;
    let kernel = look(context, &place, &request.name)?;
    made.keep();
    tell(context, shell, &place, &harness, &kernel)?;
    Ok(Exit::Ok)
}

/// Prints the operators that `new` knows, each with its backends and languages.
///
/// # Errors
/// When stdout takes no more.
pub fn list_operators(shell: &mut Shell) -> Result<Exit> {
    let columns = ["op", "backends", "languages", "what"].map(|name| (name, Align::Left));
    let mut table = Table::new(&columns);
    for operator in operator::STANDARD {
        let (mut backends, mut languages) = (Vec::new(), Vec::new());
        for (backend, language) in examples::offers(operator.name) {
            if !backends.contains(&backend) {
                backends.push(backend);
            }
            if !languages.contains(&language) {
                languages.push(language);
            }
        }
        if backends.is_empty() {
            continue;
        }
        let [on, written] = [names(&backends, Backend::name), names(&languages, Language::name)];
        table.row([operator.name.to_owned(), on, written, operator.summary.to_owned()]);
        shell.message(&Message::Operator(info(operator, backends, languages)))?;
    }
    shell.answer(&table.render())?;
    Ok(Exit::Ok)
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> String {
    all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(" ")
}

/// The operator as a message for machines.
fn info(operator: &StandardOperator, backends: Vec<Backend>, languages: Vec<Language>) -> OperatorInfo {
    OperatorInfo {
        op: operator.name.to_owned(),
        backends,
        languages,
        summary: operator.summary.to_owned(),
        parameters: operator.parameters.iter().map(|parameter| parameter.name.to_owned()).collect(),
    }
}

/// `--op`, or the standard operator that the crate is named after.
fn operator_of(request: &Request) -> Result<String> {
    if let Some(op) = &request.op {
        return Ok(op.clone());
    }
    let named = request.name.replace('-', "_");
    if request.own || operator::standard(&named).is_some() {
        return Ok(named);
    }
    Err(Error::new(Exit::Usage, format!("which operator is `{}`?", request.name))
        .hint("say it with --op; --list-ops names the standard ones, --own makes one of your own"))
}

/// The new crate as cargo and its build script will see it.
fn look(context: &Context, place: &Place, name: &str) -> Result<Kernel> {
    let workspace = Workspace::find(context, Some(&place.folder.join("Cargo.toml")))?;
    let member = workspace
        .member(name)
        .ok_or_else(|| Error::setup(format!("`{}` does not take `{name}` as a member", workspace.root)))?;
    let found = Found::read(context, &workspace, &[member]);
    match (found.kernels.into_iter().next(), found.findings.first()) {
        (Some(kernel), _) => Ok(kernel),
        (None, Some(finding)) => Err(Error::from(finding)),
        (None, None) => Err(Error::new(Exit::Internal, "the new crate has no manifest")),
    }
}

fn tell(context: &Context, shell: &mut Shell, place: &Place, harness: &Harness, kernel: &Kernel) -> Result<()> {
    let (name, manifest) = (&kernel.member.name, &kernel.manifest);
    let folder = context.shown(&place.folder);
    shell.status(
        "Created",
        GOOD,
        &format!(
            "kernel crate `{name}` ({}, {}) in {folder}",
            manifest.op,
            starter::written(manifest.backend, manifest.language)
        ),
    );
    if let Some(workspace) = place.joins() {
        shell.status("Added", GOOD, &format!("it to the members of {}", context.shown(workspace)));
    }
    let enter = if place.folder == context.cwd { String::new() } else { format!("cd {folder} && ") };
    shell.note(&format!("{enter}cargo test && cargo bench"));
    if git2::Repository::discover(&place.folder).is_err() {
        shell.note("`compare`, `optimize` and `gate` know versions by their commits: git init && git add -A && git commit -m start");
    }
    if let Some(harness) = &harness.found {
        shell.note(&format!(
            "it depends on the harness in {harness}, which other machines lack; with one inside of the crate's repository --harness \
             writes a relative path"
        ));
    }
    shell.message(&Message::Kernel(kernel.info()))
}
