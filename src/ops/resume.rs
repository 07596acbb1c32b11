//! `resume` and `stop`: a campaign taken up again, or brought to its end.

use kopt_schema::exit::Exit;

use super::campaigns::{Chosen, Which};
use super::optimize::live::Live;
use super::optimize::{finish, tell, warn_of_walls};
use crate::campaign::folder::{self, Home};
use crate::campaign::lock;
use crate::campaign::opening::{self, Surroundings};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::Phase;
use crate::process::Interrupts;
use crate::shell::{Shell, TOLD};

/// Goes on with a campaign.
///
/// # Errors
/// When there is none, another process works on it, or something cannot be done.
pub fn resume(context: &Context, shell: &mut Shell, which: &Which) -> Result<Exit> {
    let chosen = which.one(context, true)?;
    let tidy = Home::of(&chosen.workspace.root).is_tidy(&chosen.folder.name);
    if chosen.state.phase() == Phase::Over && tidy {
        return Err(Error::new(Exit::Setup, format!("campaign {} is over", chosen.folder.name))
            .hint(format!("`cargo kopt report {}` shows what came of it", chosen.folder.name)));
    }
    go_on(context, shell, chosen)
}

/// Ends a campaign: after its round where a process works on it, at once where none does. The report follows.
///
/// # Errors
/// When there is none, another one holds its kernel, or something cannot be done.
pub fn stop(context: &Context, shell: &mut Shell, which: &Which) -> Result<Exit> {
    let chosen = which.to_stop(context)?;
    if chosen.state.phase() == Phase::Over {
        shell.status("Over", TOLD, &chosen.folder.name);
        return Ok(Exit::Ok);
    }
    let (name, kernel) = (&chosen.folder.name, &chosen.target.kernel);
    let holder = lock::holder(&Home::of(&chosen.workspace.root), kernel);
    if let Some(other) = holder.as_ref().filter(|holder| !holder.is_of(name)) {
        return Err(Error::new(Exit::Locked, format!("campaign {name} is not running: another one holds `{kernel}`"))
            .cause(other.words.clone())
            .hint(format!("stop that one by its name, or wait for its end; then `cargo kopt stop {name}`")));
    }
    folder::write(&chosen.folder.stop(), b"stop\n")?;
    match holder {
        Some(holder) => {
            shell.status("Stopping", TOLD, &format!("after its round: {}", holder.words));
            Ok(Exit::Ok)
        }
        None => go_on(context, shell, chosen),
    }
}

fn go_on(context: &Context, shell: &mut Shell, chosen: Chosen) -> Result<Exit> {
    warn_of_walls(shell);
    let interrupts = Interrupts::watch()?;
    let mut live = Live::new(shell);
    let workspace = &chosen.workspace;
    let around = Surroundings { context, interrupts: &interrupts, audience: &mut live, workspace };
    let mut campaign = opening::resume(around, chosen.folder)?;
    let progress = campaign.run();
    let ended = finish(context, &campaign, progress)?;
    drop(campaign);
    tell(shell, &ended);
    Ok(Exit::Ok)
}
