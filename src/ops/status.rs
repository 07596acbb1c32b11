//! `status`: where campaigns stand.

use kopt_schema::exit::Exit;
use kopt_schema::message::{CampaignStatus, Message};

use super::campaigns::Which;
use crate::campaign::folder::Home;
use crate::campaign::{journal, lock};
use crate::context::Context;
use crate::error::Result;
use crate::ledger::{Phase, State};
use crate::shell::table::{Align, Table};
use crate::shell::{Shell, units};

/// Tells where each campaign stands, the newest last.
///
/// # Errors
/// When cargo cannot say where, or output cannot be written.
pub fn status(context: &Context, shell: &mut Shell, which: &Which) -> Result<Exit> {
    let (workspace, found) = which.all_and_unbegun(context)?;
    let home = Home::of(&workspace.root);
    let unreadable = home.unreadable(which.name.as_deref());
    if let Some(error) = &unreadable {
        shell.error(error)?;
    }
    if found.is_empty() && unreadable.is_none() {
        if which.name.is_some() || which.package.is_some() {
            return Err(which.none(&workspace));
        }
        shell.answer("No campaign. `cargo kopt optimize -p KERNEL` begins one.\n")?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[
        ("campaign", Align::Left),
        ("phase", Align::Left),
        ("round", Align::Right),
        ("accepted", Align::Right),
        ("gain so far [95 %]", Align::Right),
        ("time", Align::Right),
        ("cost", Align::Right),
        ("", Align::Left),
    ]);
    let mut damaged = unreadable.is_some();
    for (folder, target) in found {
        let begun = folder.has_begun();
        let looked = if begun { journal::look(&folder.events()) } else { Ok(State::default()) };
        let state = match looked {
            Ok(state) => state,
            Err(error) => {
                shell.error(&error)?;
                damaged = true;
                continue;
            }
        };
        let running = lock::is_at_work(&home, &target);
        let status = of(&state, &target, running, &home);
        table.row([
            status.campaign.clone(),
            status.phase.clone(),
            format!("{}/{}", status.round, status.max_rounds),
            status.accepted.to_string(),
            status.gain.map_or_else(String::new, |[gain, low, high]| {
                format!("{:+.1} % [{:+.1}, {:+.1}]", 100.0 * gain, 100.0 * low, 100.0 * high)
            }),
            units::duration(status.elapsed_s),
            status.cost_usd.map_or_else(String::new, |cost| format!("{cost:.2} USD")),
            match (running, state.phase()) {
                (true, _) => "running".to_owned(),
                (false, Phase::Over) => String::new(),
                (false, _) if !begun => format!("never began: `cargo kopt forget {}` removes it", folder.name),
                (false, _) => "not running: `cargo kopt resume` goes on".to_owned(),
            },
        ]);
        shell.message(&Message::Status(status))?;
    }
    shell.answer(&table.render())?;
    Ok(if damaged { Exit::Locked } else { Exit::Ok })
}

fn of(state: &State, target: &kopt_schema::campaign::Target, running: bool, home: &Home) -> CampaignStatus {
    let accepted = state.accepted().count();
    let finished = state.rounds.iter().filter(|round| round.outcome.is_some()).count();
    let worktree = home.worktree(&target.campaign);
    CampaignStatus {
        campaign: target.campaign.clone(),
        kernel: target.kernel.clone(),
        phase: name(&state.phase()).to_owned(),
        running,
        round: state.rounds.last().map_or(1, |round| round.number),
        max_rounds: target.max_rounds,
        accepted,
        rolled_back: finished - accepted,
        gain: state.chain_gain().map(|(gain, low, high)| [gain, low, high]),
        incumbent: state.incumbent().to_owned(),
        branch: target.git_branch.clone(),
        worktree: home
            .path
            .parent()
            .map_or(worktree.as_path(), |root| worktree.strip_prefix(root).unwrap_or(&worktree))
            .to_string(),
        elapsed_s: state.elapsed_s,
        cost_usd: state.spent().cost_usd,
        false_accept: state.false_accept_bound(),
    }
}

const fn name(phase: &Phase) -> &'static str {
    match phase {
        Phase::DefineTarget => "define-target",
        Phase::Prepare => "prepare",
        Phase::ReadTips => "read-tips",
        Phase::Baseline => "baseline",
        Phase::Analyze => "analyze",
        Phase::Propose { .. } => "propose",
        Phase::Validate { .. } => "validate",
        Phase::Learn { .. } => "learn",
        Phase::Report => "report",
        Phase::Over => "over",
    }
}
