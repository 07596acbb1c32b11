//! Which shapes are compared: those that both versions list, less what the user leaves out. Every other one is named
//! with its reason, because a shape that vanishes from a table is how a regression hides.

use kopt_schema::evidence::LeftOut;
use kopt_schema::manifest::{Manifest, Shape, ShapeValue};

use super::sides::Sides;
use crate::error::{Error, Result};

/// Names of the shapes to compare, as the base names them, and the others.
///
/// # Errors
/// When a name is unknown, or nothing is left.
pub fn common(sides: &Sides, wanted: &[String], quick: bool) -> Result<(Vec<String>, Vec<LeftOut>)> {
    let (base, head) = (&sides.base.kernel.manifest, &sides.head.kernel.manifest);
    let (mut shapes, mut left_out) = shared(base, head);
    if shapes.is_empty() {
        let error = Error::setup(format!("BASE and HEAD have no shape of {} in common", sides.name));
        let error = left_out.iter().fold(error, |error, one| error.cause(format!("{}: {}", one.shape, one.why)));
        return Err(error.hint("times of different sizes cannot be compared; list a shape of the base in HEAD too"));
    }
    if !wanted.is_empty() {
        known(wanted, &shapes, &left_out)?;
        let chosen = |shape: &Shape| wanted.contains(&shape.name);
        keep(&mut shapes, &mut left_out, chosen, "not asked for");
    }
    if quick {
        let three = representative(&shapes);
        keep(&mut shapes, &mut left_out, |shape| three.contains(&shape.name), "left out by --quick");
    }
    Ok((shapes.into_iter().map(|shape| shape.name.clone()).collect(), left_out))
}

/// Shapes of the base that the head has with the same parameters, under whatever name, and all others.
fn shared<'a>(base: &'a Manifest, head: &Manifest) -> (Vec<&'a Shape>, Vec<LeftOut>) {
    let (mut shapes, mut left_out) = (Vec::new(), Vec::new());
    let out = |shape: &Shape, why: &str| LeftOut { shape: shape.name.clone(), why: why.to_owned() };
    for shape in &base.shapes {
        match head.shapes.iter().any(|other| same(shape, other)) {
            true => shapes.push(shape),
            false if head.shapes.iter().any(|other| other.name == shape.name) => {
                left_out.push(out(shape, "sizes differ"))
            }
            false => left_out.push(out(shape, "only in BASE")),
        }
    }
    for shape in &head.shapes {
        if !base.shapes.iter().any(|other| same(shape, other) || other.name == shape.name) {
            left_out.push(out(shape, "only in HEAD"));
        }
    }
    (shapes, left_out)
}

/// Whether two shapes are one, under whatever names.
pub fn same(one: &Shape, other: &Shape) -> bool {
    one.parameters.len() == other.parameters.len() && one.parameters.iter().all(|pair| other.parameters.contains(pair))
}

fn keep(shapes: &mut Vec<&Shape>, left_out: &mut Vec<LeftOut>, chosen: impl Fn(&Shape) -> bool, why: &str) {
    let out = |shape: &&&Shape| LeftOut { shape: shape.name.clone(), why: why.to_owned() };
    left_out.extend(shapes.iter().filter(|shape| !chosen(shape)).map(|shape| out(&shape)));
    shapes.retain(|shape| chosen(shape));
}

fn known(wanted: &[String], shapes: &[&Shape], left_out: &[LeftOut]) -> Result<()> {
    for name in wanted {
        if shapes.iter().any(|shape| shape.name == *name) {
            continue;
        }
        if let Some(out) = left_out.iter().find(|out| out.shape == *name) {
            return Err(Error::setup(format!("shape `{name}` cannot be compared: {}", out.why)));
        }
        let names: Vec<&str> = shapes.iter().map(|shape| shape.name.as_str()).collect();
        let error = Error::setup(format!("there is no shape `{name}`"));
        return Err(match kopt_schema::nearest(name, names.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("shapes of both versions: {}", names.join(", "))),
        });
    }
    Ok(())
}

/// The smallest, the middle and the largest. What a shape costs only the harness knows; the product of its sizes puts
/// them in the same order for operators that read every element, and needs no judge.
fn representative(shapes: &[&Shape]) -> Vec<String> {
    let mut ordered: Vec<&&Shape> = shapes.iter().collect();
    ordered.sort_by(|one, other| volume(one).total_cmp(&volume(other)));
    let places = [0, ordered.len() / 2, ordered.len().saturating_sub(1)];
    places.iter().filter_map(|place| Some(ordered.get(*place)?.name.clone())).collect()
}

fn volume(shape: &Shape) -> f64 {
    let size = |value: &ShapeValue| match value {
        ShapeValue::Size(size) => *size as f64,
        ShapeValue::Choice(_) => 1.0,
    };
    shape.parameters.iter().map(|(_, value)| size(value)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(shapes: &str) -> Manifest {
        let text = format!("[package.metadata.kopt]\nop = \"softmax\"\nbackend = \"cpu\"\nshapes = [{shapes}]\n");
        kopt_schema::manifest::parse("Cargo.toml", &text, None).unwrap().unwrap()
    }

    fn names(shapes: &[&Shape]) -> Vec<String> {
        shapes.iter().map(|shape| shape.name.clone()).collect()
    }

    #[test]
    fn shapes_are_matched_by_their_sizes_and_the_rest_is_named() {
        let base = manifest(
            "{ rows = 1, cols = 8 }, { name = \"a\", rows = 2, cols = 8 }, { name = \"b\", rows = 3, cols = 8 }, { rows = 4, cols = 8 }",
        );
        let head = manifest(
            "{ cols = 8, rows = 1 }, { name = \"a\", rows = 2, cols = 9 }, { name = \"c\", rows = 3, cols = 8 }, { rows = 5, cols = 8 }",
        );
        let (shapes, left_out) = shared(&base, &head);
        assert_eq!(names(&shapes), ["1x8", "b"]);
        let told: Vec<String> = left_out.iter().map(|one| format!("{}: {}", one.shape, one.why)).collect();
        assert_eq!(told, ["a: sizes differ", "4x8: only in BASE", "5x8: only in HEAD"]);
        assert!(known(&["b".to_owned()], &shapes, &left_out).is_ok());
        let wrong = |name: &str| known(&[name.to_owned()], &shapes, &left_out).unwrap_err();
        assert_eq!(wrong("a").to_string(), "shape `a` cannot be compared: sizes differ");
        assert_eq!(wrong("1x9").failure().hint.as_deref(), Some("did you mean `1x8`?"));
        assert_eq!(wrong("zebra").failure().hint.as_deref(), Some("shapes of both versions: 1x8, b"));
    }

    #[test]
    fn a_quick_comparison_takes_the_smallest_the_middle_and_the_largest() {
        let five = manifest(
            "{ rows = 9, cols = 9 }, { rows = 1, cols = 2 }, { rows = 3, cols = 3 }, { rows = 1, cols = 3 }, { rows = 4, cols = 4 }",
        );
        assert_eq!(representative(&five.shapes.iter().collect::<Vec<_>>()), ["1x2", "3x3", "9x9"]);
        let one = manifest("{ rows = 9, cols = 9 }");
        let (mut shapes, mut left_out) = shared(&one, &one);
        let three = representative(&shapes);
        keep(&mut shapes, &mut left_out, |shape| three.contains(&shape.name), "x");
        assert_eq!((names(&shapes).len(), left_out.len()), (1, 0));
    }
}
