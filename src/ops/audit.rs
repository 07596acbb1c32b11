//! `audit`: the objects of kernels are built and read; what they can remember and reach is told, by rule and place.

use camino::Utf8Path;
use kopt_schema::audit::{Audit, Finding, Severity, Stateless};
use kopt_schema::candidate::{Candidate, Resources};
use kopt_schema::exit::Exit;
use kopt_schema::message::{KernelAudit, KernelResources, Message, RuleInfo};

use super::Target;
use crate::audit::rules::{self, Rule};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::{Found, Kernel};
use crate::referee::entrant::{self, Version};
use crate::revision::{Revision, Revisions};
use crate::shell::table::{Align, Table};
use crate::shell::{BAD, GOOD, MIND, Shell, count, indented};
use crate::workspace::Workspace;

/// What to audit.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Which kernels.
    pub target: Target,
    /// Only what differs from this revision, and only violations that it does not have.
    pub base: Option<String>,
}

/// Audits the selected kernels of the working tree.
///
/// # Errors
/// When they cannot be found or compiled, or git has files where the tool keeps its own. A violation is not an error but
/// [`Exit::Integrity`].
pub fn audit(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let (workspace, kernels) = request.target.kernels(context, shell)?;
    let own = workspace.target.join("kopt");
    // What was compiled before is believed. Where there is no repository, nobody can have brought it along.
    if let Ok(revisions) = Revisions::around(&workspace.root, &own.join("revisions")) {
        revisions.keeps_clear(&own, None)?;
    }
    let base = match &request.base {
        Some(name) => Some(Base::find(context, &workspace, name)?),
        None => None,
    };
    let folder = own.join("candidates");
    let (mut refused, mut audited) = (0, 0);
    for kernel in &kernels {
        let name = &kernel.member.name;
        if let Some(why) = kopt_build::compile::lacking(&kernel.manifest) {
            shell.status("Ignored", MIND, &format!("{name}: not audited, it cannot be compiled here: {why}"));
            continue;
        }
        let old = base.as_ref().and_then(|base| base.kernel(name));
        let versions: Vec<Version<'_>> = old
            .map(|old| version(old, request.base.as_deref().unwrap_or_default()))
            .into_iter()
            .chain([version(kernel, "working tree")])
            .collect();
        let mut entrants = entrant::compile(&folder, &versions)?;
        let Some(new) = entrants.pop() else { continue };
        let old = entrants.pop();
        audited += 1;
        if old.as_ref().is_some_and(|old| old.side.code == new.side.code) {
            shell.status("Unchanged", GOOD, name);
            continue;
        }
        let Some(audit) = new.side.audit else { continue };
        let before = old.and_then(|old| old.side.audit);
        let found: Vec<&Finding> = audit.beyond(before.as_ref()).collect();
        refused += usize::from(!found.is_empty());
        tell(shell, kernel, &audit, before.as_ref());
        shell.message(&Message::Audit(KernelAudit {
            kernel: name.clone(),
            sources: kernel.manifest.sources.clone(),
            include_roots: kernel.manifest.include_roots.clone(),
            flags: kernel.manifest.flags.clone(),
            refused: !found.is_empty(),
            audit: audit.clone(),
        }))?;
        let functions = resources_of(&new.file);
        if !functions.is_empty() {
            shell.say(&resources(&functions));
            shell.message(&Message::Resources(KernelResources { kernel: name.clone(), functions }))?;
        }
    }
    match (refused, audited) {
        (_, 0) => Err(Error::setup("no kernel could be compiled, and so none was audited")
            .hint("`cargo kopt doctor` says what to install")),
        (0, _) => Ok(Exit::Ok),
        (refused, _) => {
            shell.tell(&format!(
                "{BAD}{} refused{BAD:#}: `cargo kopt audit --explain RULE` says why a rule is one\n",
                count(refused, "kernel")
            ));
            Ok(Exit::Integrity)
        }
    }
}

/// What was kept of the compiler's report; nothing where it made none.
fn resources_of(file: &Utf8Path) -> Vec<Resources> {
    let candidate = std::fs::read(file).ok().and_then(|text| serde_json::from_slice::<Candidate>(&text).ok());
    candidate.map(|candidate| candidate.resources).unwrap_or_default()
}

fn resources(functions: &[Resources]) -> String {
    let mut table = Table::new(&[
        ("function", Align::Left),
        ("registers", Align::Right),
        ("spilled", Align::Right),
        ("stack", Align::Right),
        ("shared", Align::Right),
    ]);
    for function in functions {
        let registers = match function.scalar_registers {
            Some(scalar) => format!("{} + {scalar} scalar", function.registers),
            None => function.registers.to_string(),
        };
        let bytes = [function.spills, function.stack, function.shared].map(|bytes| format!("{bytes} B"));
        let [spills, stack, shared] = bytes;
        table.row([function.function.clone(), registers, spills, stack, shared]);
    }
    table.render()
}

fn version<'a>(kernel: &'a Kernel, revision: &str) -> Version<'a> {
    Version { kernel, revision: revision.to_owned(), name: revision.to_owned(), shown: kernel.member.name.clone() }
}

/// The kernels of a revision.
struct Base {
    kernels: Vec<Kernel>,
}

impl Base {
    fn find(context: &Context, workspace: &Workspace, name: &str) -> Result<Self> {
        let revisions = Revisions::around(&workspace.root, &workspace.target.join("kopt/revisions"))?;
        let revision: Revision = revisions.resolve(name)?;
        let export = revisions.export(&revision)?;
        let there = Workspace::find(context, Some(&export.workspace.join("Cargo.toml")))?;
        let members: Vec<_> = there.members.iter().filter(|member| member.is_kernel).collect();
        // One whose manifest was wrong is as good as none: all of the new one is audited.
        Ok(Self { kernels: Found::read(context, &there, &members).kernels })
    }

    fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.member.name == name)
    }
}

/// Says what was found in one kernel.
fn tell(shell: &mut Shell, kernel: &Kernel, audit: &Audit, before: Option<&Audit>) {
    let manifest = &kernel.manifest;
    let (word, style) = match audit.stateless {
        Stateless::Proven | Stateless::Presumed => ("Audited", GOOD),
        Stateless::Violated => ("Refused", BAD),
        Stateless::NotAudited => ("Not audited", MIND),
    };
    let roots = match manifest.include_roots.as_slice() {
        [] => String::new(),
        roots => format!("; includes from {}", roots.join(" ")),
    };
    let (name, class, stateless) = (&kernel.member.name, manifest.class.name(), audit.stateless.name());
    let of = format!("{}{roots}{}", manifest.sources.join(" "), kernel.flags_shown());
    let line = format!("{name}: {class}, {stateless}: {}, from {of}", audit.scope);
    let is_bad = audit.stateless == Stateless::Violated;
    match is_bad {
        true => shell.tell(&format!("{style}{word:>12}{style:#} {line}\n")),
        false => shell.status(word, style, &line),
    }
    let table = findings(audit, before);
    if is_bad {
        shell.tell(&table)
    } else {
        shell.say(&table)
    }
    for allowed in &audit.allowed {
        shell.say(&indented(&format!("allowed: {} ({}): {}", allowed.what, allowed.rule, allowed.why), 4));
    }
}

fn findings(audit: &Audit, before: Option<&Audit>) -> String {
    if audit.findings.is_empty() {
        return String::new();
    }
    let new: Vec<&Finding> = audit.beyond(before).collect();
    let mut table = Table::new(&[
        ("rule", Align::Left),
        ("found", Align::Left),
        ("where", Align::Left),
        ("instruction", Align::Left),
        ("", Align::Left),
    ]);
    for finding in &audit.findings {
        let weight = match finding.severity {
            Severity::Note => "note",
            Severity::Violation if new.contains(&finding) => "",
            Severity::Violation => "in the base, too",
        };
        table.row([
            finding.rule.clone(),
            finding.what.clone(),
            finding.place(),
            finding.instruction.clone().unwrap_or_default(),
            weight.to_owned(),
        ]);
    }
    let mut text = table.render();
    let mut told: Vec<&str> = Vec::new();
    for finding in audit.violations() {
        if let Some(rule) = rules::find(&finding.rule).filter(|rule| !told.contains(&rule.id)) {
            told.push(rule.id);
            text.push_str(&indented(&format!("{}: {}. {}", rule.id, rule.title, rule.instead), 4));
        }
    }
    text
}

/// Lists all rules.
///
/// # Errors
/// When stdout takes no more.
pub fn list(shell: &mut Shell) -> Result<Exit> {
    let mut table =
        Table::new(&[("rule", Align::Left), ("class", Align::Left), ("weight", Align::Left), ("finds", Align::Left)]);
    for rule in rules::all() {
        table.row([rule.id.to_owned(), rule.class.name().to_owned(), weight(rule).to_owned(), rule.title.clone()]);
        shell.message(&Message::Rule(info(rule)))?;
    }
    shell.answer(&table.render())?;
    Ok(Exit::Ok)
}

/// Explains one rule.
///
/// # Errors
/// When there is no rule of that id.
pub fn explain(shell: &mut Shell, id: &str) -> Result<Exit> {
    let Some(rule) = rules::find(id) else {
        let wrong = Error::new(Exit::Usage, format!("there is no rule `{id}`"));
        return Err(match kopt_schema::nearest(id, rules::all().iter().map(|rule| rule.id)) {
            Some(near) => wrong.hint(format!("did you mean `{near}`?")),
            None => wrong.hint("`cargo kopt audit --list` names all rules"),
        });
    };
    let mut text = format!("{} ({}, {})\n\n", rule.id, rule.class.name(), weight(rule));
    text.push_str(&format!("{}.\n\n{}\n\nInstead: {}\n", rule.title, rule.why.trim(), rule.instead));
    let lists = [
        ("Imports", &rule.imports),
        ("Exports", &rule.exports),
        ("Instructions", &rule.mnemonics),
        ("PTX instructions", &rule.opcodes),
        ("PTX operands", &rule.operands),
        ("Fine", &rule.allow),
        ("Fine, in every precision", &rule.math),
        ("Fine in functions of the compiler's library", &rule.toolchain),
    ];
    for (what, names) in lists.iter().filter(|(_, names)| !names.is_empty()) {
        text.push_str(&format!("\n{what}: {}\n", names.join(" ")));
    }
    text.push_str(&format!(
        "\nTo let it pass in a crate, which every verdict then shows:\n\n    [package.metadata.kopt.policy]\n    allow = [\"{}\"]\n",
        rule.id
    ));
    shell.message(&Message::Rule(info(rule)))?;
    shell.answer(&text)?;
    Ok(Exit::Ok)
}

const fn weight(rule: &Rule) -> &'static str {
    match rule.severity {
        Severity::Violation => "violation",
        Severity::Note => "note",
    }
}

fn info(rule: &Rule) -> RuleInfo {
    RuleInfo {
        rule: rule.id.to_owned(),
        class: rule.class,
        severity: rule.severity,
        title: rule.title.clone(),
        why: rule.why.trim().to_owned(),
        instead: rule.instead.clone(),
    }
}
