//! The closing line: what can be trusted here, and the exit code that follows.

use kopt_schema::exit::Exit;
use kopt_schema::message::{Diagnosis, Message, NoiseFloor, SelfTest};

use super::super::compare::report::share;
use super::selftest::LARGE;
use super::toolchains::Tool;
use crate::error::Result;
use crate::shell::{BAD, GOOD, MIND, Shell};

/// What was found, in the end.
#[derive(Debug)]
pub struct Conclusion {
    missing: Vec<String>,
    quick: bool,
    nowhere: bool,
    resolves: Option<f64>,
    /// The large gain was found.
    found: Option<bool>,
    /// Equal code was accepted.
    fooled: bool,
}

impl Conclusion {
    pub fn new(tools: &[Tool], quick: bool) -> Self {
        let missing = tools.iter().filter(|tool| tool.missing.is_some() && !tool.needed_by.is_empty());
        let missing = missing.map(|tool| tool.name.clone()).collect();
        Self { missing, quick, nowhere: false, resolves: None, found: None, fooled: false }
    }

    /// There is no kernel to measure with.
    pub fn nowhere(&mut self) {
        self.nowhere = true;
    }

    /// What the longest comparison resolves; less than the least gain counts for nothing.
    pub fn resolves(&mut self, floor: &NoiseFloor) {
        let least = kopt_stats::Policy::default().rule().min_gain;
        self.resolves = floor.resolves.last().map(|resolution| resolution.gain.max(least));
    }

    /// What came of the self-test.
    pub fn tested(&mut self, tests: &[SelfTest]) {
        self.found = tests.iter().find(|test| test.injected >= LARGE).map(|test| test.right);
        self.fooled = tests.iter().any(|test| test.injected <= 0.0 && !test.right);
    }

    /// The code that the tool ends with.
    pub fn exit(&self) -> Exit {
        match (self.missing.is_empty(), self.found) {
            (false, _) => Exit::Setup,
            (true, Some(false)) => Exit::Inconclusive,
            (true, _) if self.fooled => Exit::Inconclusive,
            _ => Exit::Ok,
        }
    }

    /// Says it.
    pub fn tell(&self, shell: &mut Shell) -> Result<()> {
        let (style, word) = match (self.exit(), self.found, self.fooled) {
            (Exit::Ok, Some(true), false) => (GOOD, "trusted"),
            (Exit::Ok, None, _) => (MIND, "not measured"),
            (Exit::Setup, ..) => (BAD, "incomplete"),
            _ => (BAD, "not trusted"),
        };
        let text = self.words();
        shell.tell(&format!("{style}{word}{style:#}: {text}\n"));
        let resolves = self.resolves.filter(|gain| gain.is_finite());
        shell.message(&Message::Diagnosis(Diagnosis { missing: self.missing.clone(), resolves, text }))
    }

    fn words(&self) -> String {
        let measured = match (self.found, self.resolves) {
            _ if self.nowhere => {
                "there is no kernel here; inside a workspace with one (`cargo kopt new NAME` makes it), devices, ceilings, \
                 noise and the self-test are looked at too"
                    .to_owned()
            }
            (Some(false), _) if self.quick => format!(
                "a gain of {} was not found by this quick look; start again without --quick, on a quieter machine if need be",
                share(LARGE)
            ),
            (Some(false), _) => format!(
                "a gain of {} was not found: the machine is too noisy to judge; leave it to this and start again",
                share(LARGE)
            ),
            (Some(true), _) if self.fooled => {
                "equal code was accepted, which may happen once in 2,500 times: start again".to_owned()
            }
            (Some(true), Some(gain)) if self.quick => {
                format!("a gain of {} is found; gains above {} can be shown, by this quick look", share(LARGE), share(gain))
            }
            (Some(true), Some(gain)) => {
                format!("comparisons here show gains above {}, and equal code was not accepted", share(gain))
            }
            _ => "nothing was timed".to_owned(),
        };
        match self.missing.is_empty() {
            true => measured,
            false => format!("{} missing, and needed by kernels here; {measured}", self.missing.join(" and ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conclusion() -> Conclusion {
        Conclusion { resolves: Some(0.0142), found: Some(true), ..Conclusion::new(&[], false) }
    }

    #[test]
    fn what_is_missing_comes_before_what_is_noisy() {
        assert_eq!(conclusion().exit(), Exit::Ok);
        assert_eq!(Conclusion { found: Some(false), ..conclusion() }.exit(), Exit::Inconclusive);
        let both = Conclusion { found: Some(false), missing: vec!["nvcc".to_owned()], ..conclusion() };
        assert_eq!(both.exit(), Exit::Setup);
        assert!(both.words().starts_with("nvcc missing, and needed by kernels here; a gain of 5 % was not found"));
        assert_eq!(Conclusion { found: None, ..conclusion() }.exit(), Exit::Ok);
    }

    #[test]
    fn what_can_be_trusted_is_one_line() {
        assert_eq!(conclusion().words(), "comparisons here show gains above 1.42 %, and equal code was not accepted");
        let fooled = Conclusion { fooled: true, ..conclusion() };
        assert!(fooled.words().contains("start again"));
        assert_eq!((conclusion().exit(), fooled.exit()), (Exit::Ok, Exit::Inconclusive));
        assert!(Conclusion { nowhere: true, ..conclusion() }.words().contains("cargo kopt new"));
    }
}
