//! Exponentials for references. Of the time of cross entropy's more than half went into the C library's, one number at a time; what
//! has neither branch nor table is done for several numbers at once, on any processor.

/// Below this the result is no normal number, or hardly one, and given as zero.
const LEAST: f64 = -708.0;

/// Adding it leaves the nearest integer in the last bits.
const SHIFT: f64 = 1.5 * (1u64 << 52) as f64;

/// ln 2 in two parts; the first has so few digits that its multiples are exact.
const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];

/// 1 / n! from the last term that counts to the first: |r| is at most ln 2 / 2, and the next one below 1e-17.
const TERMS: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
];

/// e to the power of a number that is not positive, or NaN. Right to two units in the last place of an f64.
#[inline(always)]
fn of_one(x: f64) -> f64 {
    // x = k ln 2 + r.
    let shifted = x * std::f64::consts::LOG2_E + SHIFT;
    let k = shifted - SHIFT;
    let r = (x - k * LN_2[0]) - k * LN_2[1];
    let beyond = TERMS.iter().fold(0.0, |sum, term| sum * r + term);
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    let exponential = (1.0 + (r + r * r * beyond)) * scale;
    if x < LEAST { 0.0 } else { exponential }
}

/// e to the power of each number less `largest`, which is the largest of them, or NaN. As many as there are numbers.
pub(crate) fn relative_to(largest: f64, numbers: &[f32], exponentials: &mut [f64]) {
    assert_eq!(numbers.len(), exponentials.len(), "one for each number");
    let (numbers, rest) = numbers.as_chunks::<LANES>();
    let (exponentials, of_rest) = exponentials.as_chunks_mut::<LANES>();
    for (exponentials, numbers) in exponentials.iter_mut().zip(numbers) {
        for lane in 0..LANES {
            exponentials[lane] = of_one(f64::from(numbers[lane]) - largest);
        }
    }
    of_rest.iter_mut().zip(rest).for_each(|(e, number)| *e = of_one(f64::from(*number) - largest));
}

/// Numbers whose exponentials are computed side by side.
const LANES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_c_library_to_two_units_in_the_last_place() {
        let mut draw = crate::tensor::Draw::new(1, "exponents");
        for _ in 0..300_000 {
            let unit = f64::from(draw.unit().abs());
            for x in [-unit, -30.0 * unit, -708.0 * unit, -unit * 1e-9] {
                let (ours, theirs) = (of_one(x), x.exp());
                // A unit in the last place is half of this at least.
                assert!((ours - theirs).abs() <= f64::EPSILON * theirs, "{x}: {ours} {theirs}");
            }
        }
    }

    #[test]
    fn many_are_those_of_one_by_one() {
        for len in [0, 1, 7, 8, 9, 31, 64] {
            let numbers: Vec<f32> = (0..len).map(|index| -(index as f32) / 3.0).collect();
            let mut exponentials = vec![f64::NAN; len];
            relative_to(0.5, &numbers, &mut exponentials);
            let one_by_one: Vec<f64> = numbers.iter().map(|number| of_one(f64::from(*number) - 0.5)).collect();
            assert_eq!(exponentials, one_by_one);
        }
    }

    #[test]
    fn ends_and_numbers_that_are_none() {
        assert_eq!([0.0, -0.0].map(of_one), [1.0; 2]);
        assert_eq!([-709.0, -1e5, -1e308, f64::MIN, f64::NEG_INFINITY].map(of_one), [0.0; 5]);
        assert!(of_one(LEAST) > 0.0 && of_one(f64::NAN).is_nan());
    }
}
