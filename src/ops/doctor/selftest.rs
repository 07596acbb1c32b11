//! The self-test: real decisions whose answers are known, since the incumbent was slowed down by a known share, or not at
//! all.

use kopt_schema::bout::Handicap;
use kopt_schema::evidence::{Evidence, Injection, Terms};
use kopt_schema::message::{Message, SelfTest};
use kopt_stats::Schedule;

use super::super::compare::report;
use super::devices::Found;
use super::subject::Subject;
use crate::error::Result;
use crate::gate;
use crate::process::Interrupts;
use crate::shell::table::{Align, Table};
use crate::shell::{Shell, units};

/// The injection that must be found.
pub const LARGE: f64 = 0.05;

/// What is injected; nothing at last.
const INJECTED: [f64; 4] = [LARGE, 0.02, 0.01, 0.0];

/// Launches of each stage of a quick look.
const QUICK_LAUNCHES: usize = 6;

/// Decides each, and shows what came of it.
pub fn run(
    shell: &mut Shell,
    subject: &Subject<'_>,
    interrupts: &Interrupts,
    found: &Found,
    quick: bool,
) -> Result<Vec<SelfTest>> {
    let injected = if quick { &INJECTED[..1] } else { &INJECTED[..] };
    let mut table = Table::new(&[
        ("self-test", Align::Left),
        ("gain [interval]", Align::Right),
        ("decision", Align::Left),
        ("launches", Align::Left),
        ("time", Align::Right),
        ("", Align::Left),
    ]);
    let mut tests = Vec::new();
    for share in injected.iter().copied() {
        let handicap = Handicap { case: None, share };
        let injection = (share > 0.0).then_some(Injection { contestant: 0, handicap });
        let bout = subject.bout(found.shapes.clone(), terms(subject, quick)?, injection.into_iter().collect())?;
        let evidence = subject.hold(shell, interrupts, &bout, &named(share))?;
        let test = SelfTest {
            kernel: subject.kernel.member.name.clone(),
            injected: share,
            ruling: evidence.verdict.ruling,
            right: evidence.verdict.ruling.is_accepted() == (share > 0.0),
            aggregate: evidence.verdict.aggregate,
            launches: evidence.verdict.launches,
            seconds: evidence.seconds,
        };
        table.row(row(&test, &evidence));
        shell.message(&Message::SelfTest(test.clone()))?;
        tests.push(test);
    }
    shell.say(&table.render());
    Ok(tests)
}

/// The terms of a comparison; a quick one looks once.
fn terms(subject: &Subject<'_>, quick: bool) -> Result<Terms> {
    let terms = gate::terms("default", None, false).map_err(|wrong| subject.lost(&wrong))?;
    let screen_alpha = Schedule::standard().alpha_per_look();
    Ok(if quick { Terms { looks: vec![QUICK_LAUNCHES], screen_alpha, ..terms } } else { terms })
}

fn row(test: &SelfTest, evidence: &Evidence) -> [String; 6] {
    let close = test.injected > 0.0 && test.injected <= evidence.terms.min_gain;
    let said = match (test.right, test.injected > 0.0) {
        (true, true) => "found",
        // What is exactly the least gain falls short of it as often as not.
        (false, true) if close => "not found: at the least gain, half are",
        (false, true) => "not found",
        (true, false) => "right",
        (false, false) => "wrong: there is no gain",
    };
    [
        named(test.injected),
        test.aggregate.as_ref().map(report::gain).unwrap_or_default(),
        test.ruling.name().to_owned(),
        report::launches(&evidence.stages),
        units::seconds(test.seconds),
        said.to_owned(),
    ]
}

fn named(share: f64) -> String {
    if share > 0.0 { format!("{} injected", report::share(share)) } else { "equal code".to_owned() }
}
