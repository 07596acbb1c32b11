//! JUnit, for systems that show test results: a suite with one case a kernel.

use std::time::Duration;

use kopt_schema::message::GateKernel;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{GateReport, Weight, time_shown, weight};
use crate::shell::units;

/// The document.
///
/// # Errors
/// When it cannot be written as XML.
pub fn junit(report: &GateReport<'_>) -> Result<String, String> {
    let mut suite = TestSuite::new("gate");
    suite.set_time(seconds(report.result.seconds));
    suite.add_property(("base", report.scope.base.as_str()));
    suite.add_property(("head", report.scope.head.as_str()));
    suite.add_property(("tolerance", report.result.tolerance.to_string().as_str()));
    for kernel in report.kernels {
        suite.add_test_case(case(kernel, &report.result.inconclusive));
    }
    let mut document = Report::new("cargo kopt gate");
    document.set_time(seconds(report.result.seconds));
    document.add_test_suite(suite);
    document.to_string().map_err(|error| error.to_string())
}

fn case(kernel: &GateKernel, inconclusive: &str) -> TestCase {
    use kopt_schema::message::GateOutcome::{Inconclusive, NotComparedAllowed, NotHere, Removed};
    let status = match (weight(kernel, inconclusive), kernel.outcome) {
        (Weight::Fails, outcome) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(outcome.name()).set_message(kernel.text.as_str());
            status.set_description(lines(kernel).join("\n"));
            status
        }
        (_, Inconclusive | NotComparedAllowed | NotHere | Removed) => {
            let mut status = TestCaseStatus::skipped();
            status.set_type(kernel.outcome.name()).set_message(kernel.text.as_str());
            status
        }
        _ => TestCaseStatus::success(),
    };
    let mut case = TestCase::new(kernel.kernel.as_str(), status);
    case.set_classname("kopt.gate").set_time(seconds(kernel.seconds));
    case.set_system_out(lines(kernel).join("\n"));
    case
}

/// Everything that is known of a kernel, as text.
fn lines(kernel: &GateKernel) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", kernel.outcome.name(), kernel.text)];
    lines.extend(kernel.allowed.iter().map(|reason| format!("allowed by a commit: {reason}")));
    lines.extend(kernel.notes.iter().cloned());
    lines.extend(kernel.audit.iter().cloned());
    lines.extend(kernel.judging.iter().map(|file| format!("the change edits what judges it: {file}")));
    if let Some(verdict) = &kernel.verdict {
        lines.extend(verdict.aggregate.iter().map(|one| format!("time, mean over shapes: {}", time_shown(one))));
        lines.extend(verdict.shapes.iter().map(|shape| {
            let (old, new) = (units::seconds(shape.incumbent_s), units::seconds(shape.candidate_s));
            format!("time of {}: {} ({old} to {new})", shape.shape, time_shown(&shape.estimate))
        }));
    }
    lines
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}
