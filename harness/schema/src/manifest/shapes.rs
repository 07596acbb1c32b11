//! `shapes` of a kernel table, by what its operator asks for, and the `constraints` that are written in their parameters.

use std::collections::BTreeSet;

use super::Shape;
use super::resolve::Resolver;
use super::table::{ShapeTable, ShapeValue};
use crate::diagnostic::Step;
use crate::expression::{Expression, Type};
use crate::operator::{self, ParameterKind};
use crate::spelling::nearest;

impl Resolver<'_> {
    pub(super) fn shapes(&mut self, op: &str, tables: &[ShapeTable]) -> Vec<Shape> {
        if tables.is_empty() {
            let hint = "shapes = [{ rows = 64, cols = 1024 }]".to_owned();
            self.wrong(&["shapes".into()], "a kernel needs at least one shape", hint);
        }
        let mut names = BTreeSet::new();
        let mut shapes: Vec<Shape> = Vec::new();
        for (index, ShapeTable(entries)) in tables.iter().enumerate() {
            let at = |key: &str| [Step::from("shapes"), index.into(), key.into()];
            let mut name = None;
            let mut parameters = Vec::new();
            for (key, value) in entries {
                match (key.as_str(), value) {
                    ("name", ShapeValue::Choice(text)) if is_name(text) => name = Some(text.clone()),
                    ("name", _) => self.wrong(&at("name"), "a name is letters, digits, `.`, `_` and `-`", None),
                    (_, ShapeValue::Size(size)) if *size < 0 => self.wrong(&at(key), "a size is not negative", None),
                    _ => parameters.push((key.clone(), value.clone())),
                }
            }
            if let Some(standard) = operator::standard(op) {
                self.standard_shape(index, standard, &parameters);
                let order = |key: &str| standard.parameters.iter().position(|parameter| parameter.name == key);
                parameters.sort_by_key(|(key, _)| order(key));
            }
            let mut shape = Shape::unnamed(parameters);
            shape.name = name.unwrap_or(shape.name);
            if !names.insert(shape.name.clone()) {
                let path = [Step::from("shapes"), index.into()];
                self.wrong(&path, format!("a shape named `{}` was given before", shape.name), None);
            } else if let Some(twin) = shapes.iter().find(|other| other.parameters == shape.parameters) {
                let message = format!("the same shape as `{}`", twin.name);
                self.wrong(&[Step::from("shapes"), index.into()], message, None);
            }
            shapes.push(shape);
        }
        shapes
    }

    fn standard_shape(
        &mut self,
        index: usize,
        standard: &operator::StandardOperator,
        parameters: &[(String, ShapeValue)],
    ) {
        let at = |key: &str| [Step::from("shapes"), index.into(), key.into()];
        for (key, value) in parameters {
            let Some(known) = standard.parameters.iter().find(|parameter| parameter.name == key) else {
                let names = || standard.parameters.iter().map(|parameter| parameter.name);
                let hint = match nearest(key, names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("valid: {}", names().collect::<Vec<_>>().join(", ")),
                };
                self.wrong(&at(key), format!("operator {} has no parameter `{key}`", standard.name), hint);
                continue;
            };
            match (known.kind, value) {
                (ParameterKind::Size, ShapeValue::Size(_)) => {}
                (ParameterKind::Choice(words), ShapeValue::Choice(word)) if words.contains(&word.as_str()) => {}
                (ParameterKind::Size, ShapeValue::Choice(_)) => self.wrong(&at(key), "needs an integer", None),
                (ParameterKind::Choice(words), given) => {
                    let hint = match given {
                        ShapeValue::Choice(word) => nearest(word, words.iter().copied()),
                        ShapeValue::Size(_) => None,
                    };
                    let hint = match hint {
                        Some(near) => format!("did you mean \"{near}\"?"),
                        None => format!("valid: {}", words.join(", ")),
                    };
                    self.wrong(&at(key), "is none of the valid words", hint);
                }
            }
        }
        for missing in standard.parameters.iter().filter(|known| parameters.iter().all(|(key, _)| key != known.name)) {
            let path = [Step::from("shapes"), index.into()];
            self.wrong(&path, format!("operator {} needs `{}`", standard.name, missing.name), None);
        }
    }

    pub(super) fn constraints<'k>(
        &mut self,
        texts: &[String],
        shapes: &[Shape],
        knobs: impl Iterator<Item = &'k String>,
    ) {
        let mut known: Vec<(String, Type)> = knobs.map(|knob| (knob.clone(), Type::Int)).collect();
        for (key, value) in shapes.iter().flat_map(|shape| &shape.parameters) {
            let kind = if matches!(value, ShapeValue::Size(_)) { Type::Int } else { Type::Text };
            known.push((key.clone(), kind));
        }
        let names: Vec<String> = known.iter().map(|(name, _)| name.clone()).collect();
        let types = |name: &str| known.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
        for (index, text) in texts.iter().enumerate() {
            let path = [Step::from("constraints"), index.into()];
            match Expression::parse(text).and_then(|expression| expression.check(&types, &names)) {
                Ok(Type::Bool) => {}
                Ok(other) => self.wrong(&path, format!("a constraint is a condition, this is {other}"), None),
                Err(error) => self.wrong(&path, error.message, None),
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}
