//! What is known of the machine, around a comparison: before it, whether it can show what it is asked for; after it, what
//! the judge has found out.

use kopt_schema::evidence::{Evidence, Terms};
use kopt_schema::machine::Noise;
use kopt_stats::Policy;

use crate::machine::figures::{Store, resolves};
use crate::referee::Match;
use crate::shell::Shell;

/// Warns of a gain that cannot be told from this machine's noise.
pub fn warn(shell: &mut Shell, store: &Store, bout: &Match<'_>) {
    if let Some(note) = &store.note {
        shell.note(note);
    }
    let (kernel, backend) = (&bout.kernel.member.name, bout.kernel.manifest.backend);
    let noise = store.noise_of(kernel, backend);
    if let Some(warning) = noise.and_then(|noise| unresolved(noise, kernel, &bout.terms)) {
        shell.warn(&warning);
    }
}

fn unresolved(noise: &Noise, kernel: &str, terms: &Terms) -> Option<String> {
    let policy: Policy = terms.policy.parse().unwrap_or_default();
    let last = terms.looks.last().copied().filter(|_| policy.rule().require_gain)?;
    let least = resolves(noise, last, terms.screen_alpha / terms.looks.len().max(1) as f64);
    if least <= terms.min_gain {
        return None;
    }
    let with = if noise.kernel == kernel { String::new() } else { format!(" with {}", noise.kernel) };
    Some(format!(
        "this machine resolves about {:.1} % in {last} launches; a gain of {:.1} % cannot be told from noise here \
         (`cargo kopt doctor` measured that{with} on {})",
        100.0 * least,
        100.0 * terms.min_gain,
        noise.measured.split(' ').next().unwrap_or_default()
    ))
}

/// Keeps the ceilings, where the judge has measured them. They can be measured again: a file that cannot be written stops
/// nothing.
pub fn keep(shell: &mut Shell, store: &mut Store, evidence: &Evidence) {
    let Some(ceilings) = &evidence.ceilings else { return };
    if store.keep_ceilings(ceilings)
        && let Err(error) = store.write()
    {
        shell.warn(&error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kopt_schema::manifest::Backend;

    #[test]
    fn a_gain_below_what_the_machine_resolves_is_warned_of_beforehand() {
        let noise = |launch_sigma| Noise {
            kernel: "softmax-cpu".to_owned(),
            backend: Backend::Cpu,
            device: "Some CPU".to_owned(),
            measured: "2026-11-15 05:01".to_owned(),
            launch_sigma,
            launches: 14,
            load: 0.1,
        };
        let terms = |policy: &str, quick| crate::gate::terms(policy, None, quick).unwrap();
        let told = |sigma, policy: &str, quick| unresolved(&noise(sigma), "softmax-cpu", &terms(policy, quick));
        assert_eq!(told(0.01, "default", false), None);
        let warned = told(0.05, "default", false).unwrap();
        assert_eq!(
            warned,
            "this machine resolves about 2.7 % in 48 launches; a gain of 1.0 % cannot be told from noise here \
             (`cargo kopt doctor` measured that on 2026-11-15)"
        );
        assert!(told(0.012, "default", true).unwrap().contains("in 14 launches"));
        // A policy that asks for no gain needs none to be shown.
        assert_eq!(told(0.05, "service", false), None);
        let other = unresolved(&noise(0.05), "matmul-cpu", &terms("default", false)).unwrap();
        assert!(other.contains("measured that with softmax-cpu on"), "{other}");
    }
}
