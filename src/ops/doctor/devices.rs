//! The processor, the devices that kernels of the workspace run on, and what each can do at most.

use kopt_schema::bout::{JudgeReply, JudgeRequest, LaunchRecord};
use kopt_schema::evidence::Ceilings;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Backend;
use kopt_schema::message::{self, Device, Message};

use super::super::compare::report;
use super::subject::Subject;
use super::toolchains::Tool;
use crate::error::Result;
use crate::gate;
use crate::machine::{self, caches};
use crate::manifest::Kernel;
use crate::process::Interrupts;
use crate::referee::ceilings;
use crate::referee::seeds::Master;
use crate::shell::{GOOD, MIND, Shell};

/// A call that takes longer makes launches too few: such shapes are left out, of noise and self-test.
const LONG_S: f64 = 0.003;

/// A device that was found.
#[derive(Debug)]
pub struct Found {
    /// Its name.
    pub device: String,
    /// What it can do at most.
    pub ceilings: Ceilings,
    /// Shapes of the kernel that are quick enough to be measured often, if that was asked.
    pub shapes: Vec<String>,
}

/// The processor, by what the system says.
pub fn processor(shell: &mut Shell) -> Result<()> {
    let (facts, caches) = (machine::facts(), caches::of_processor());
    let known = if caches.is_empty() { "caches not told".to_owned() } else { caches.join(", ") };
    let load = format!("load {:.2}", facts.load_before);
    let cores = crate::shell::count(facts.cores, "core");
    shell.status("Processor", GOOD, &format!("{}, {cores}, {known}, {load}", facts.processor));
    shell.message(&Message::Device(Device {
        backend: Backend::Cpu.name().to_owned(),
        name: Some(facts.processor),
        cores: Some(facts.cores),
        caches,
        missing: None,
    }))
}

/// A backend whose kernels cannot be compiled here.
pub fn not_looked_for(shell: &mut Shell, kernel: &Kernel, missing: Option<&Tool>) -> Result<()> {
    let name = missing.map_or("a compiler", |tool| &tool.name);
    absent(shell, kernel.manifest.backend, &format!("not looked for: {name} is missing"))
}

/// Asks the kernel's worker for its device and measures what that can do; `timed` tries its shapes, too. Nothing, if
/// there is no such device.
pub fn look(shell: &mut Shell, subject: &Subject<'_>, interrupts: &Interrupts, timed: bool) -> Result<Option<Found>> {
    let backend = subject.kernel.manifest.backend;
    shell.progress().start("ceilings", None);
    shell.progress().at(0, &format!("what the {} device can do at most", backend.name()));
    let found = ask(subject, interrupts, timed);
    shell.progress().finish();
    let found = match found {
        Ok(found) => found,
        Err(error) if error.exit() == Exit::NoDevice => {
            absent(shell, backend, &error.to_string())?;
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if backend != Backend::Cpu {
        shell.status("Device", GOOD, &format!("{}: {}", backend.name(), found.device));
        let name = Some(found.device.clone());
        let backend = backend.name().to_owned();
        shell.message(&Message::Device(Device { backend, name, cores: None, caches: Vec::new(), missing: None }))?;
    }
    shell.status("Ceilings", GOOD, &report::ceilings(&found.ceilings));
    shell.message(&Message::Ceilings(message::Ceilings {
        kernel: subject.kernel.member.name.clone(),
        device: found.device.clone(),
        copy_bytes_per_s: found.ceilings.copy_bytes_per_s,
        read_bytes_per_s: found.ceilings.read_bytes_per_s,
        write_bytes_per_s: found.ceilings.write_bytes_per_s,
        fma_flops_per_s: found.ceilings.fma_flops_per_s,
    }))?;
    Ok(Some(found))
}

fn ask(subject: &Subject<'_>, interrupts: &Interrupts, timed: bool) -> Result<Found> {
    let names = subject.kernel.manifest.shapes.iter().map(|shape| shape.name.clone()).collect();
    let terms = gate::terms("default", None, false).map_err(|wrong| subject.lost(&wrong))?;
    let bout = subject.bout(names, terms, Vec::new())?;
    let (patience, long_patience) = subject.limits();
    let mut judge = subject.judge(interrupts)?;
    let device = match judge.ask(&JudgeRequest::Open(bout.bout()), patience)? {
        JudgeReply::Opened(arrangement) => arrangement.device,
        JudgeReply::Lost(forfeit) => return Err(subject.lost(&forfeit.message)),
        _ => return Err(judge.wrong("answered out of turn")),
    };
    // It waits for a device that others time on.
    let ceilings = ceilings::measure(&mut judge, long_patience)?;
    if !timed {
        return Ok(Found { device, ceilings, shapes: Vec::new() });
    }
    match judge.ask(&JudgeRequest::Launch { seed: Master::secret()?.launch(0), shapes: Vec::new() }, long_patience)? {
        JudgeReply::Launched(record) => Ok(Found { device, ceilings, shapes: quick(&record) }),
        JudgeReply::Lost(forfeit) => Err(subject.lost(&forfeit.message)),
        _ => Err(judge.wrong("answered out of turn")),
    }
}

/// Shapes whose calls are short; the shortest one, if none is.
fn quick(record: &LaunchRecord) -> Vec<String> {
    let seconds = |case: &kopt_schema::bout::CaseRecord| {
        let halves = case.blocks.iter().filter_map(|block| block.device_ns.first()).flatten();
        let times: Vec<f64> = halves.map(|time| *time as f64 / 1e9 / case.calls.max(1) as f64).collect();
        kopt_stats::median(&times)
    };
    let mut cases: Vec<(f64, &String)> = record.cases.iter().map(|case| (seconds(case), &case.case)).collect();
    cases.sort_by(|one, other| one.0.total_cmp(&other.0));
    let short = cases.iter().filter(|(seconds, _)| *seconds < LONG_S).count();
    cases.into_iter().take(short.max(1)).map(|(_, name)| name.clone()).collect()
}

fn absent(shell: &mut Shell, backend: Backend, why: &str) -> Result<()> {
    shell.status("Device", MIND, &format!("{}: {why}", backend.name()));
    shell.message(&Message::Device(Device {
        backend: backend.name().to_owned(),
        name: None,
        cores: None,
        caches: Vec::new(),
        missing: Some(why.to_owned()),
    }))
}
