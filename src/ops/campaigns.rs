//! Which campaign is meant: by its name, by its kernel, or the newest.

use camino::Utf8PathBuf;
use kopt_schema::campaign::Target;
use kopt_schema::exit::Exit;

use crate::campaign::folder::{Folder, Home};
use crate::campaign::{journal, lock};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::{Phase, State};
use crate::workspace::Workspace;

/// What the user said of it.
#[derive(Debug, Clone, Default)]
pub struct Which {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// Its name, or the beginning of it.
    pub name: Option<String>,
    /// Its kernel.
    pub package: Option<String>,
}

/// A campaign that was found.
#[derive(Debug)]
pub struct Chosen {
    /// The workspace around it.
    pub workspace: Workspace,
    /// Its folder.
    pub folder: Folder,
    /// What it is after.
    pub target: Target,
    /// Where it stands.
    pub state: State,
}

impl Which {
    /// Every campaign of the workspace that fits, the oldest first.
    pub fn all(&self, context: &Context) -> Result<(Workspace, Vec<(Folder, Target)>)> {
        let (workspace, which) = self.settled(context)?;
        let found = which.fitting(context, &workspace, Home::of(&workspace.root).campaigns());
        Ok((workspace, found))
    }

    /// The same, and after them those that never began.
    pub fn all_and_unbegun(&self, context: &Context) -> Result<(Workspace, Vec<(Folder, Target)>)> {
        let (workspace, which) = self.settled(context)?;
        let home = Home::of(&workspace.root);
        let known = home.campaigns().into_iter().chain(home.unbegun()).collect();
        let found = which.fitting(context, &workspace, known);
        Ok((workspace, found))
    }

    /// The workspace that is meant, and what was said of the campaign. Where edits are made there is a copy of the workspace, which
    /// has no campaigns: there the user's own is meant, and the campaign whose worktree it is.
    fn settled(&self, context: &Context) -> Result<(Workspace, Self)> {
        let around = Home::around(&context.cwd).filter(|_| self.manifest_path.is_none());
        let Some((root, campaign)) = around else {
            return Ok((Workspace::find(context, self.manifest_path.as_deref())?, self.clone()));
        };
        let name = self.name.clone().or(Some(campaign));
        Ok((Workspace::find(context, Some(&root.join("Cargo.toml")))?, Self { name, ..self.clone() }))
    }

    /// Those of `known` that fit.
    fn fitting(&self, context: &Context, workspace: &Workspace, known: Vec<(Folder, Target)>) -> Vec<(Folder, Target)> {
        let here = workspace.around(&context.cwd).filter(|member| member.is_kernel && self.name.is_none());
        let kernel = self.package.clone().or_else(|| here.map(|member| member.name.clone()));
        let fits = |(folder, target): &(Folder, Target)| {
            self.name.as_ref().is_none_or(|name| folder.name.starts_with(name.as_str()))
                && kernel.as_ref().is_none_or(|kernel| target.kernel == *kernel)
        };
        let mut found: Vec<(Folder, Target)> = known.into_iter().filter(fits).collect();
        // A whole name means that campaign, and not one whose name goes on.
        let exact = |(folder, _): &(Folder, Target)| self.name.as_ref().is_some_and(|name| folder.name == *name);
        if found.iter().any(exact) {
            found.retain(exact);
        }
        found
    }

    /// The one that is meant: the newest that is unfinished where `open` asks for one, else the newest.
    pub fn one(&self, context: &Context, open: bool) -> Result<Chosen> {
        let (workspace, found) = self.all(context)?;
        self.newest(workspace, found, open)
    }

    /// The one that is meant to end: where none is named, one that a process works on comes before any that is paused.
    pub fn to_stop(&self, context: &Context) -> Result<Chosen> {
        let (workspace, mut found) = self.all(context)?;
        if self.name.is_none() {
            let home = Home::of(&workspace.root);
            found.sort_by_cached_key(|(_, target)| lock::is_at_work(&home, target));
        }
        self.newest(workspace, found, true)
    }

    /// The last of those that were found, the oldest first.
    fn newest(&self, workspace: Workspace, found: Vec<(Folder, Target)>, open: bool) -> Result<Chosen> {
        let mut seen = Vec::new();
        for (folder, target) in found.into_iter().rev() {
            let state = journal::look(&folder.events())?;
            let over = state.phase() == Phase::Over && Home::of(&workspace.root).is_tidy(&folder.name);
            let fits = !open || (!over && state.began.is_some());
            if fits || self.name.is_some() {
                return Ok(Chosen { workspace, folder, target, state });
            }
            seen.push(folder.name);
        }
        match seen.first() {
            Some(name) => Err(Error::new(Exit::Setup, "no campaign is unfinished")
                .hint(format!("the newest, {name}, is over: `cargo kopt report {name}`"))),
            None => {
                let unreadable = Home::of(&workspace.root).unreadable(self.name.as_deref());
                Err(unreadable.unwrap_or_else(|| self.none(&workspace)))
            }
        }
    }

    /// That none fits, and which there are.
    pub fn none(&self, workspace: &Workspace) -> Error {
        let names: Vec<String> =
            Home::of(&workspace.root).campaigns().into_iter().map(|(folder, _)| folder.name).collect();
        let what = match (&self.name, &self.package) {
            (Some(name), _) => format!("there is no campaign `{name}`"),
            (None, Some(package)) => format!("there is no campaign on `{package}`"),
            (None, None) => "there is no campaign".to_owned(),
        };
        let error = Error::new(Exit::Setup, what);
        match names.as_slice() {
            [] => error.hint("`cargo kopt optimize -p KERNEL` begins one"),
            names => error.hint(format!("there are: {}", names.join(", "))),
        }
    }
}
