//! What is dealt, decoded again and evaluated afresh, is what the deck expects; and what must be noticed is.

use kopt_schema::operator;

use super::*;
use crate::operators;
use crate::tensor::{Tensors, decode};

fn layouts(kernel: &dyn Kernel) -> Vec<&'static EntryLayout> {
    let leak = |symbol: String| {
        let layout = EntryLayout { symbol: Box::leak(symbol.into_boxed_str()), size: 0, fields: &[] };
        &*Box::leak(Box::new(layout))
    };
    kernel.entries().into_iter().map(leak).collect()
}

/// A small shape of every standard operator.
fn decks(dtype: DType) -> Vec<(Box<dyn Kernel>, Case, Deck)> {
    let deck = |operator: &operator::StandardOperator| {
        let kernel = operators::standard(operator.name);
        let shape = kernel.random_shape(&mut Draw::new(7, "shape"));
        let case = Case { shape, dtype };
        let deck = Deck::new(&kernel, &layouts(&kernel), &case, 3, 11).unwrap();
        (kernel, case, deck)
    };
    operator::STANDARD.iter().map(deck).collect()
}

/// The inputs of an entry as they stand in a place.
fn read(deck: &Deck, entry: &Entry, place: usize) -> Tensors {
    let mut tensors = Tensors::default();
    for (index, _) in &entry.bases[0].inputs {
        let buffer = &deck.arena.buffers()[*index];
        let bytes = &deck.arena.inputs.bytes()[deck.arena.span(*index, place)];
        let values = match buffer.dtype {
            DType::I32 => Values::Int((0..buffer.len).map(|at| decode(bytes, at, buffer.dtype) as i32).collect()),
            _ => Values::Float((0..buffer.len).map(|at| decode(bytes, at, buffer.dtype) as f32).collect()),
        };
        tensors.insert(buffer.name, values);
    }
    tensors
}

/// Writes what the reference gives for the inputs as they stand, as a right kernel would.
fn compute(kernel: &dyn Kernel, case: &Case, deck: &mut Deck, outputs: usize, place: usize) {
    let mut results = Vec::new();
    for entry in &deck.entries {
        let tensors = read(deck, entry, place);
        for expected in kernel.expect(entry.layout.symbol, case, &tensors, Distribution::Normal.rounding()) {
            let index = deck.arena.buffers()[entry.first..].iter().position(|b| b.name == expected.name).unwrap();
            results.push((entry.first + index, expected.values));
        }
    }
    for (index, values) in results {
        let (span, dtype) = (deck.arena.span(index, place), deck.arena.buffers()[index].dtype);
        let values = Values::Float(values.iter().map(|value| *value as f32).collect());
        encode(&values, dtype, &mut deck.outputs_mut(outputs).bytes_mut()[span]);
    }
}

#[test]
fn every_symmetry_holds() {
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        for (kernel, case, mut deck) in decks(dtype) {
            let mut draw = Draw::new(3, "deal");
            for outputs in 0..3 {
                let places = deck.deal(6, &mut draw);
                for place in &places {
                    compute(&kernel, &case, &mut deck, outputs, *place);
                }
                let loss = deck.check(outputs, &places);
                assert_eq!(loss.map(|loss| loss.message), None, "{} {dtype:?} {}", kernel.op(), case.shape.name);
                deck.restore(outputs, &places);
                assert!(deck.intact(outputs).is_none() && deck.still(outputs, &places).is_none());
            }
        }
    }
}

#[test]
fn results_of_another_deal_are_wrong() {
    for (kernel, case, mut deck) in decks(DType::F32) {
        let mut draw = Draw::new(3, "deal");
        let places = deck.deal(2, &mut draw);
        for place in &places {
            compute(&kernel, &case, &mut deck, 0, *place);
        }
        // The same places get new contents; the results of the old ones stay.
        let (dealt, again) = (deck.dealt.clone(), deck.dealt[places[0]].clone().unwrap());
        while deck.dealt[places[0]] == dealt[places[0]] {
            let other = deck.draw_deal(&mut draw);
            deck.write(places[0], &other);
            deck.dealt[places[0]] = Some(other);
        }
        let loss = deck.check(0, &places).unwrap();
        assert_eq!(loss.kind, FailureKind::WrongValues, "{} {again:?}", kernel.op());
    }
}

#[test]
fn no_row_and_no_column_comes_again_while_there_are_others() {
    for (kernel, _, mut deck) in decks(DType::F32) {
        let mut draw = Draw::new(5, "deal");
        let longest = deck.axes.iter().map(|(_, extent)| *extent).max().unwrap();
        let mut had = HashSet::new();
        for _ in 0..longest {
            for place in deck.deal(1, &mut draw) {
                let deal = deck.dealt[place].as_ref().unwrap();
                for (turned, (axis, extent)) in deal.turns.iter().zip(&deck.axes) {
                    let count = deck.seen.iter().filter(|(base, name, _)| (*base, name) == (deal.base, axis)).count();
                    let again = !had.insert((deal.base, *turned));
                    assert!(!again || count == *extent, "{}: {axis} by {} again", kernel.op(), turned.1);
                }
            }
        }
        deck.shuffle();
        assert!(deck.seen.is_empty());
    }
}

#[test]
fn what_may_not_change_is_noticed() {
    let (_, _, mut deck) = decks(DType::F32).remove(0);
    let places = deck.deal(1, &mut Draw::new(5, "deal"));
    assert_eq!(deck.check(1, &places).unwrap().kind, FailureKind::Unwritten);
    let (index, _) = deck.arena.buffers().iter().enumerate().find(|(_, buffer)| buffer.written).unwrap();
    let span = deck.arena.span(index, places[0]);
    deck.outputs_mut(1).bytes_mut()[span.start] ^= 1;
    assert_eq!(deck.still(1, &places).unwrap().kind, FailureKind::LateWrite);
    assert!(deck.still(0, &places).is_none() && deck.still(2, &places).is_none());
    deck.restore(1, &places);
    assert!(deck.intact(1).is_none());
    // An output, but of no call.
    deck.outputs_mut(1).bytes_mut()[span.start] ^= 1;
    assert_eq!(deck.intact(1).unwrap().kind, FailureKind::LateWrite);
    deck.restore(1, &places);
    // Past the end of the buffer.
    deck.outputs_mut(1).bytes_mut()[span.end] ^= 1;
    assert!(deck.still(1, &places).is_none());
    let loss = deck.intact(1).unwrap();
    assert_eq!(loss.kind, FailureKind::OutOfBounds);
    assert!(loss.message.contains("past the end"), "{}", loss.message);
}

#[test]
fn a_change_is_asked_of_everybody_who_had_the_file_since_it_was_compared() {
    let (_, _, mut deck) = decks(DType::F32).remove(0);
    deck.hand_out(&[0, 1, 2]);
    assert!(deck.returned(1, 1).is_none());
    deck.hand_out(&[1, 2, 0]);
    deck.hand_out(&[1, 0, 2]);
    deck.outputs_mut(2).bytes_mut()[0] ^= 1;
    let (holders, loss) = deck.returned(2, 2).unwrap();
    assert_eq!((holders, loss.kind), (vec![2, 1], FailureKind::LateWrite));
    deck.outputs_mut(1).bytes_mut()[0] ^= 1;
    // The second had it before, when it was compared.
    assert_eq!(deck.returned(1, 0).unwrap().0, [1, 0]);
    deck.outputs_mut(1).bytes_mut()[0] ^= 1;
    deck.hand_out(&[1, 0, 2]);
    deck.outputs_mut(1).bytes_mut()[0] ^= 1;
    assert_eq!(deck.returned(1, 0).unwrap().0, [0]);
}
