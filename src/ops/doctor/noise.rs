//! The noise floor: equal code against itself. How much the aggregate of a launch varies decides what gain a number of
//! launches can show, and so what this machine is good for.

use kopt_schema::evidence::Terms;
use kopt_schema::machine::Noise;
use kopt_schema::message::{Message, NoiseFloor, Resolution};
use kopt_stats::Schedule;

use super::super::compare::report::share;
use super::devices::Found;
use super::subject::Subject;
use crate::error::Result;
use crate::gate;
use crate::machine::figures::resolves;
use crate::machine::{self, Moment};
use crate::process::Interrupts;
use crate::shell::{GOOD, MIND, Shell, count};

/// Launches of equal code, and of a quick look.
const LAUNCHES: usize = 14;
const QUICK_LAUNCHES: usize = 6;

/// Launches whose resolution is told.
const TOLD: [usize; 3] = [6, 14, 48];

/// At this much from launch to launch, the longest comparison finds a gain of 2 % four times of five or more often.
const QUIET: f64 = 0.015;

/// Measures the noise of the kernel's quick shapes and tells it.
pub fn floor(
    shell: &mut Shell,
    subject: &Subject<'_>,
    interrupts: &Interrupts,
    found: &Found,
    quick: bool,
) -> Result<NoiseFloor> {
    let launches = if quick { QUICK_LAUNCHES } else { LAUNCHES };
    let terms = gate::terms("default", None, false).map_err(|wrong| subject.lost(&wrong))?;
    // A gain that equal code never has: one look, and nothing to confirm after it.
    let terms = Terms { min_gain: 0.99, looks: vec![launches], ..terms };
    let bout = subject.bout(found.shapes.clone(), terms, Vec::new())?;
    let evidence = subject.hold(shell, interrupts, &bout, "noise")?;
    let Some(aggregate) = evidence.verdict.aggregate else {
        return Err(subject.lost(&format!("{} launches took longer than the time they have", launches)));
    };
    let noise = Noise {
        kernel: subject.kernel.member.name.clone(),
        backend: subject.kernel.manifest.backend,
        device: found.device.clone(),
        measured: Moment::now().minute(),
        launch_sigma: aggregate.launch_sigma,
        launches: aggregate.launches,
        load: evidence.machine.load_before,
    };
    let alpha = Schedule::standard().alpha_per_look();
    let resolution = |launches| Resolution { launches, gain: resolves(&noise, launches, alpha) };
    let floor = NoiseFloor {
        shapes: found.shapes.clone(),
        quiet: noise.launch_sigma <= QUIET,
        resolves: TOLD.map(resolution).to_vec(),
        noise,
    };
    tell(shell, &floor);
    shell.message(&Message::Noise(floor.clone()))?;
    Ok(floor)
}

fn tell(shell: &mut Shell, floor: &NoiseFloor) {
    let (noise, style) = (&floor.noise, if floor.quiet { GOOD } else { MIND });
    let word = if floor.quiet { "quiet" } else { "noisy" };
    let (sigma, limit) = (share(noise.launch_sigma), share(QUIET));
    let varies = format!("{word}: equal code varies by {sigma} from launch to launch (quiet is {limit} or less)");
    shell.status("Noise", style, &varies);
    let shapes = count(floor.shapes.len(), "shape");
    let measured = format!("{} launches of {}, {shapes}", noise.launches, noise.kernel);
    shell.status("Measured", style, &format!("on {measured}, {}", load(noise.load, machine::facts().cores)));
    let each: Vec<String> =
        floor.resolves.iter().map(|one| format!("{} after {}", share(one.gain), one.launches)).collect();
    shell.status("Resolution", style, &format!("gains shown four times of five: {} launches", each.join(", ")));
}

/// The load, and what it means when it is more than the cores can carry.
fn load(load: f64, cores: usize) -> String {
    let busy = if load > cores as f64 { ": other work is running, or was a minute ago" } else { "" };
    format!("load {load:.2} on {}{busy}", count(cores, "core"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_beyond_the_cores_is_named() {
        assert_eq!(load(0.3, 2), "load 0.30 on 2 cores");
        assert_eq!(load(1.5, 1), "load 1.50 on 1 core: other work is running, or was a minute ago");
    }
}
