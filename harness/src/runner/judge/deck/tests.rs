//! What is dealt, decoded again and evaluated afresh, is what the deck expects; and what must be noticed is. On the host,
//! and on a device where there is one: what they make of the same seeds must be the same.

use std::sync::OnceLock;

use kopt_schema::manifest::Backend;
use kopt_schema::operator;

use super::*;
use crate::distribution::Distribution;
use crate::kernel::Role;
use crate::operators;
use crate::runner::backend::BackendError;
use crate::runner::backend::gpu::hip::standin::StandIn;
use crate::runner::blueprint;
use crate::tensor::{Tensors, Values, decode, encode};
use kopt_schema::DType;

fn layouts(kernel: &dyn Kernel) -> Vec<&'static EntryLayout> {
    let leak = |symbol: String| {
        let layout = EntryLayout { symbol: Box::leak(symbol.into_boxed_str()), size: 0, fields: &[] };
        &*Box::leak(Box::new(layout))
    };
    kernel.entries().into_iter().map(leak).collect()
}

/// The host, and a device if there is one.
fn tables() -> Vec<Option<Arc<Table>>> {
    let device = match Table::open(Backend::Cuda) {
        Ok(table) => Some(Some(Arc::new(table))),
        Err(error) => {
            assert!(matches!(error, BackendError::NoDevice(_)), "{error}");
            None
        }
    };
    std::iter::once(None).chain(device).collect()
}

/// A small shape of every standard operator, in every memory.
fn decks(dtype: DType) -> Vec<(Box<dyn Kernel>, Case, Deck)> {
    let deck = |operator: &operator::StandardOperator, table: Option<&Arc<Table>>| {
        let kernel = operators::standard(operator.name);
        let shape = kernel.random_shape(&mut Draw::new(7, "shape"));
        let case = Case { shape, dtype };
        let deck = Deck::new(&kernel, &layouts(&kernel), &case, 3, 0, 11, table).unwrap();
        (kernel, case, deck)
    };
    let all = |table: Option<Arc<Table>>| operator::STANDARD.iter().map(move |one| deck(one, table.as_ref()));
    // The stand-in for HIP's device runs the judge's kernels one thread after another: two operators are enough for it.
    let hip = Arc::new(Table::over(StandIn::new().driver()).unwrap());
    let by_rows = operator::STANDARD.iter().filter(|one| ["rmsnorm", "softmax"].contains(&one.name));
    let on_hip = by_rows.map(|one| deck(one, Some(&hip)));
    tables().into_iter().flat_map(all).chain(on_hip).collect()
}

/// One of an operator that has a row and a column, in every memory.
fn some() -> Vec<Deck> {
    let decks = decks(DType::F32);
    let name = operator::STANDARD[0].name;
    decks.into_iter().filter(|(kernel, ..)| kernel.op() == name).map(|(.., deck)| deck).collect()
}

/// Turns a bit of a file of outputs.
fn turn_bit(deck: &mut Deck, outputs: usize, at: usize) {
    let byte = deck.store.read(outputs, at..at + 1).unwrap()[0];
    deck.store.write(outputs, at, &[byte ^ 1]);
}

/// The inputs of an entry as they stand in a place.
fn read(deck: &Deck, entry: &Entry, place: usize) -> Tensors {
    let mut tensors = Tensors::default();
    for input in &entry.bases[0].inputs {
        let buffer = &deck.blueprint.buffers[input.buffer];
        let bytes = &deck.store.input(deck.blueprint.span(input.buffer, place));
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
            let index = deck.blueprint.buffers[entry.first..].iter().position(|b| b.name == expected.name).unwrap();
            results.push((entry.first + index, expected.values));
        }
    }
    for (index, values) in results {
        let (span, dtype) = (deck.blueprint.span(index, place), deck.blueprint.buffers[index].dtype);
        let values = Values::Float(values.iter().map(|value| *value as f32).collect());
        let mut bytes = vec![0; span.len()];
        encode(&values, dtype, &mut bytes);
        deck.store.write(outputs, span.start, &bytes);
    }
}

#[test]
fn every_symmetry_holds() {
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        for (kernel, case, mut deck) in decks(dtype) {
            let mut draw = Draw::new(3, "deal");
            for outputs in 0..3 {
                let places = deck.deal(6, &mut draw).unwrap();
                for place in &places {
                    compute(&kernel, &case, &mut deck, outputs, *place);
                }
                let loss = deck.check(outputs, &places).unwrap();
                assert_eq!(loss.map(|loss| loss.message), None, "{} {dtype:?} {}", kernel.op(), case.shape.name);
                deck.restore(outputs, &places).unwrap();
                assert!(deck.intact(outputs).unwrap().is_none() && deck.still(outputs, &places).unwrap().is_none());
            }
        }
    }
}

#[test]
fn results_of_another_deal_are_wrong() {
    for (kernel, case, mut deck) in decks(DType::F32) {
        let mut draw = Draw::new(3, "deal");
        let places = deck.deal(2, &mut draw).unwrap();
        for place in &places {
            compute(&kernel, &case, &mut deck, 0, *place);
        }
        // The same places get new contents; the results of the old ones stay.
        let (dealt, again) = (deck.dealt.clone(), deck.dealt[places[0]].clone().unwrap());
        while deck.dealt[places[0]] == dealt[places[0]] {
            let other = deck.draw_deal(&mut draw);
            deck.put(vec![(places[0], other.clone())]).unwrap();
            deck.dealt[places[0]] = Some(other);
        }
        let loss = deck.check(0, &places).unwrap().unwrap();
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
            for place in deck.deal(1, &mut draw).unwrap() {
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
    for mut deck in some() {
        let places = deck.deal(1, &mut Draw::new(5, "deal")).unwrap();
        let loss = |found: Result<Option<Loss>, Loss>| found.unwrap().map(|loss| loss.kind);
        assert_eq!(loss(deck.check(1, &places)), Some(FailureKind::Unwritten));
        let index = deck.blueprint.written().next().unwrap();
        let span = deck.blueprint.span(index, places[0]);
        turn_bit(&mut deck, 1, span.start);
        assert_eq!(loss(deck.still(1, &places)), Some(FailureKind::LateWrite));
        assert_eq!((loss(deck.still(0, &places)), loss(deck.still(2, &places))), (None, None));
        deck.restore(1, &places).unwrap();
        assert_eq!(loss(deck.intact(1)), None);
        // An output, but of no call.
        turn_bit(&mut deck, 1, span.end - 1);
        assert_eq!(loss(deck.intact(1)), Some(FailureKind::LateWrite));
        deck.restore(1, &places).unwrap();
        // Past the end of the buffer.
        turn_bit(&mut deck, 1, span.end);
        assert_eq!(loss(deck.still(1, &places)), None);
        let loss = deck.intact(1).unwrap().unwrap();
        assert_eq!(loss.kind, FailureKind::OutOfBounds);
        assert!(loss.message.contains("past the end"), "{}", loss.message);
    }
}

#[test]
fn a_change_is_asked_of_everybody_who_had_the_file_since_it_was_compared() {
    for mut deck in some() {
        deck.hand_out(&[0, 1, 2]);
        assert!(deck.returned(1).unwrap().is_none());
        deck.hand_out(&[1, 2, 0]);
        deck.hand_out(&[1, 0, 2]);
        turn_bit(&mut deck, 2, 0);
        let (holders, loss) = deck.returned(2).unwrap().unwrap();
        assert_eq!((holders, loss.kind), (vec![2, 1], FailureKind::LateWrite));
        turn_bit(&mut deck, 1, 0);
        // The second was gone when it was compared.
        assert_eq!(deck.returned(1).unwrap().unwrap().0, [0]);
        turn_bit(&mut deck, 1, 0);
        deck.hand_out(&[1, 0, 2]);
        turn_bit(&mut deck, 1, 0);
        assert_eq!(deck.returned(1).unwrap().unwrap().0, [0]);
    }
}

#[test]
fn elements_are_right_by_the_same_rule_everywhere() {
    // One output of one axis, so that every element is what this says: value, bound, and what a kernel wrote.
    let (nan, inf, largest) = (f64::NAN, f64::INFINITY, f64::from(f32::MAX));
    let elements: [(f64, f64, f32, bool); 14] = [
        (1.0, 0.1, 1.05, true),
        (1.0, 0.1, 1.2, false),
        (1.0, 1e30, f32::NAN, false),
        (nan, nan, f32::NAN, true),
        (nan, nan, 1.0, false),
        (1.0, nan, 1.0, false),
        (inf, 0.0, f32::INFINITY, true),
        (inf, 0.0, f32::NEG_INFINITY, false),
        (inf, 0.0, f32::MAX, false),
        (-largest * 1.5, 1.0, f32::NEG_INFINITY, true),
        (largest, largest * 1e-3, f32::INFINITY, true),
        (-largest, largest * 1e-3, f32::INFINITY, false),
        (1.0, 0.1, f32::INFINITY, false),
        (0.0, 0.0, -0.0, true),
    ];
    for mut deck in some() {
        let index = deck.blueprint.written().next().unwrap();
        let (span, dtype) = (deck.blueprint.span(index, 0), deck.blueprint.buffers[index].dtype);
        assert_eq!(dtype, DType::F32);
        let (number, entry) = (0, 0);
        for (value, bound, got, right) in elements {
            let mut known = deck.entries[entry].bases[0].outputs[number].expected.clone();
            let len = known.values.len();
            known.values = vec![1.0; len];
            known.bounds = vec![0.1; len];
            let mut bytes = 1f32.to_le_bytes().repeat(len);
            (known.values[len / 2], known.bounds[len / 2]) = (value, bound);
            bytes[4 * (len / 2)..][..4].copy_from_slice(&got.to_le_bytes());
            deck.store.teach(number, &known);
            deck.store.write(0, span.start, &bytes);
            let within = OnceLock::new();
            let claim = |factor| Claim {
                number,
                expected: &known,
                within: &within,
                buffer: index,
                span: span.clone(),
                dtype,
                axes: vec![(len, 0)],
                factor,
            };
            let doubted = !deck.store.doubtful(0, &[claim(1.0)]).unwrap().is_empty();
            let bytes = deck.store.read(0, span.clone()).unwrap();
            let wrong = compare::compare_bytes(&known, &deck.blueprint.buffers[index], &bytes, &deck.blueprint);
            assert_eq!(wrong.is_none(), right, "{value} {bound} {got}");
            // The host leaves to a closer look what it is not sure of; a device does not.
            assert!(doubted != right || (doubted && !deck.store.lens().0), "{value} {bound} {got}");
            assert_eq!(deck.store.doubtful(0, &[claim(2.0)]).unwrap(), [0], "twice as much is expected");
        }
    }
}

#[test]
fn a_device_holds_what_the_host_does() {
    let mut stores: Vec<_> = [DType::F32, DType::Bf16, DType::F16].map(decks).into_iter().flatten().collect();
    for (kernel, case, deck) in &mut stores {
        let mut other = Deck::new(&*kernel, &layouts(&*kernel), case, 3, 0, 11, None).unwrap();
        let (image, wanted) = (deck.store.image().unwrap(), other.store.image().unwrap());
        let common = image.len().min(wanted.len());
        assert!(common > 0 && image[..common] == wanted[..common], "{} {:?}", kernel.op(), case.dtype);
        drop((image, wanted));
        let places = deck.deal(4, &mut Draw::new(9, "deal")).unwrap();
        let other_places = other.deal(4, &mut Draw::new(9, "deal")).unwrap();
        for (place, other_place) in places.iter().zip(&other_places) {
            // Devices have other places, and so draw other deals: the same is dealt to both.
            let dealt = deck.dealt[*place].clone().unwrap();
            other.put(vec![(*other_place, dealt)]).unwrap();
            for (index, buffer) in deck.blueprint.buffers.iter().enumerate().filter(|(_, buffer)| !buffer.written) {
                let got = deck.store.input(deck.blueprint.span(index, *place));
                let wanted = other.store.input(other.blueprint.span(index, *other_place));
                assert!(got == wanted, "{} {:?} {}", kernel.op(), case.dtype, buffer.name);
            }
        }
    }
}

/// The bytes of every input at a place.
fn inputs(deck: &Deck, place: usize) -> Vec<(usize, Vec<u8>)> {
    let read = deck.blueprint.buffers.iter().enumerate().filter(|(_, buffer)| !buffer.written);
    read.map(|(index, _)| (index, deck.store.input(deck.blueprint.span(index, place)))).collect()
}

#[test]
fn in_a_training_run_weights_change_in_place_and_everything_else_has_a_new_place() {
    for (kernel, case, deck) in decks(DType::F32) {
        let mut run = deck.of_training(8, 2, 5).unwrap();
        let mut draw = Draw::new(3, "steps");
        let mut before: Vec<Vec<(usize, Vec<u8>)>> = Vec::new();
        for step in 0..8 {
            run.deal_to(step, &mut draw).unwrap();
            compute(&kernel, &case, &mut run, 1, step);
            assert_eq!(run.check(1, &[step]).unwrap(), None, "{}", kernel.op());
            run.restore(1, &[step]).unwrap();
            assert_eq!(run.still(1, &[step]).unwrap(), None);
            before.push(inputs(&run, step));
        }
        for (index, buffer) in run.blueprint.buffers.iter().enumerate() {
            let starts: HashSet<usize> = (0..8).map(|step| run.blueprint.span(index, step).start).collect();
            let is_weight = blueprint::is_weight(buffer);
            assert_eq!(starts.len(), if is_weight { 1 } else { 8 }, "{} of {}", buffer.name, kernel.op());
            if is_weight {
                let contents = before.iter().map(|step| &step.iter().find(|(one, _)| *one == index).unwrap().1);
                let contents: HashSet<&Vec<u8>> = contents.collect();
                assert!(contents.len() > 4, "{} of {} changes", buffer.name, kernel.op());
            }
        }
    }
}

#[test]
fn what_comes_again_is_what_was_asked_for() {
    for (kernel, case, deck) in decks(DType::F32) {
        let mut run = deck.of_training(3, 1, 5).unwrap();
        let mut draw = Draw::new(9, "steps");
        run.deal_to(1, &mut draw).unwrap();
        let before = inputs(&run, 1);
        run.deal_beside_weights(1, &mut draw).unwrap();
        compute(&kernel, &case, &mut run, 0, 1);
        assert_eq!(run.check(0, &[1]).unwrap(), None, "{}", kernel.op());
        let after = inputs(&run, 1);
        for ((index, before), (_, after)) in before.iter().zip(&after) {
            let buffer = &run.blueprint.buffers[*index];
            // Which rows are whose belongs to the base, and a single row has nowhere to turn.
            if buffer.role == Role::Weight {
                assert!(before == after, "{} of {}", buffer.name, kernel.op());
            } else if buffer.dtype != DType::I32 && case.size("rows") != 1 {
                assert!(before != after, "{} of {}", buffer.name, kernel.op());
            }
        }
        run.repeat_at(1, 0).unwrap();
        assert_eq!(inputs(&run, 0), after, "the same contents elsewhere");
        compute(&kernel, &case, &mut run, 0, 0);
        assert_eq!(run.check(0, &[0]).unwrap(), None);
    }
}

#[test]
fn entries_of_a_step_read_one_weight() {
    for (kernel, case, mut deck) in decks(DType::F32) {
        deck.deal(1, &mut Draw::new(1, "deal")).unwrap();
        let known: f64 = kernel.entries().iter().map(|entry| kernel.cost(entry, &case).bytes_read).sum();
        // Once the contents are known it may be less.
        let mut read: f64 = deck.entries.iter().map(|entry| entry.cost.bytes_read).sum();
        assert!(
            read <= known && (read == known || kernel.op() == "grouped_matmul"),
            "{read} {known} of {}",
            kernel.op()
        );
        let buffers = &deck.blueprint.buffers;
        for (index, buffer) in buffers.iter().enumerate() {
            let twins = buffers.iter().enumerate().skip(index + 1).filter(|(_, other)| other.name == buffer.name);
            for (other, twin) in twins.filter(|(_, twin)| twin.written == buffer.written) {
                let same = deck.blueprint.span(index, 0) == deck.blueprint.span(other, 0);
                assert_eq!(same, twin.role == Role::Weight, "{} of {}", buffer.name, kernel.op());
                read -= if same { twin.bytes() as f64 } else { 0.0 };
            }
        }
        assert_eq!(deck.cost.bytes_read, read, "bytes of {}", kernel.op());
    }
}
