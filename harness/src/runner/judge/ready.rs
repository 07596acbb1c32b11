//! A process gets ready for a launch or a trace: it loads its candidate and maps its memory.

use kopt_schema::message::FailureKind;

use super::{Deck, Entrant, Judge};
use crate::kernel::Case;
use crate::runner::contestant::{Contestant, Loss};

/// Gets the processes of several contestants ready at the same time: loading is slow on a GPU. The first that cannot be, and why.
pub(super) fn at_once<T: Send>(
    started: &mut [(usize, T)],
    get_ready: impl Fn(usize, &mut T) -> Result<(), Loss> + Sync,
) -> Result<(), (usize, Loss)> {
    let get_ready = &get_ready;
    std::thread::scope(|scope| {
        let each = started.iter_mut().map(|(contestant, process)| {
            let contestant = *contestant;
            (contestant, scope.spawn(move || get_ready(contestant, process)))
        });
        let threads: Vec<_> = each.collect();
        threads.into_iter().try_for_each(|(contestant, thread)| {
            let lost = |_| Err(Loss::of_judge("a starting thread was lost"));
            thread.join().unwrap_or_else(lost).map_err(|loss| (contestant, loss))
        })
    })
}

/// Loads a contestant's candidate and maps the memory of these shapes.
pub(super) fn prepare<'a>(
    judge: &Judge,
    shapes: impl Iterator<Item = (&'a Deck, &'a Case)>,
    entrant: &Entrant,
    contestant: &mut Contestant,
) -> Result<(), Loss> {
    let symbols: Vec<String> = judge.layouts.iter().map(|layout| layout.symbol.to_owned()).collect();
    contestant.load(&entrant.candidate, judge.manifest.backend, &symbols)?;
    for (deck, case) in shapes {
        let wire = deck.wire(judge.kernel, case, &entrant.candidate);
        contestant.attach(wire.map_err(|error| Loss::new(FailureKind::Setup, error))?)?;
    }
    Ok(())
}
