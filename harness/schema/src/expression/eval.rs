//! Tree to type, and tree to value.

use super::{ExpressionError, Kind, Node, Operator, Scope, Type, Value, unknown};

type Types<'a> = &'a dyn Fn(&str) -> Option<Type>;

fn error<T>(node: &Node, message: impl Into<String>) -> Result<T, ExpressionError> {
    Err(ExpressionError { message: message.into(), span: node.span.clone() })
}

pub(super) fn type_of(node: &Node, types: Types<'_>, names: &[String]) -> Result<Type, ExpressionError> {
    let of = |node: &Node| type_of(node, types, names);
    let want = |node: &Node, wanted: Type, operator: &str| match of(node)? {
        found if found == wanted => Ok(()),
        found => error(node, format!("`{operator}` takes {}, this is {found}", plural(wanted))),
    };
    match &node.kind {
        Kind::Literal(value) => Ok(value.type_of()),
        Kind::Name(name) => types(name).ok_or_else(|| unknown("name", name, names, node.span.clone())),
        Kind::Unary(operator, inner) => {
            let wanted = if *operator == Operator::Not { Type::Bool } else { Type::Int };
            want(inner, wanted, operator.symbol()).map(|()| wanted)
        }
        Kind::Binary(operator, a, b) => match operator {
            Operator::Equal | Operator::NotEqual => match (of(a)?, of(b)?) {
                (a, b) if a == b => Ok(Type::Bool),
                (a, b) => error(node, format!("cannot compare {a} with {b}")),
            },
            Operator::And | Operator::Or => {
                want(a, Type::Bool, operator.symbol())?;
                want(b, Type::Bool, operator.symbol()).map(|()| Type::Bool)
            }
            _ => {
                want(a, Type::Int, operator.symbol())?;
                want(b, Type::Int, operator.symbol())?;
                Ok(if operator.compares() { Type::Bool } else { Type::Int })
            }
        },
        Kind::Choice(condition, yes, no) => {
            want(condition, Type::Bool, "?")?;
            match (of(yes)?, of(no)?) {
                (a, b) if a == b => Ok(a),
                (a, b) => error(node, format!("the two sides of `:` differ: {a} and {b}")),
            }
        }
        Kind::Call(name, arguments) => {
            arguments.iter().try_for_each(|argument| want(argument, Type::Int, name)).map(|()| Type::Int)
        }
    }
}

pub(super) fn value_of(node: &Node, scope: &dyn Scope) -> Result<Value, ExpressionError> {
    // Types first: a wrong expression is wrong whatever the values are and whichever side is taken.
    type_of(node, &|name| scope.value(name).map(|value| value.type_of()), &scope.names())?;
    compute(node, scope)
}

fn compute(node: &Node, scope: &dyn Scope) -> Result<Value, ExpressionError> {
    let integer = |node: &Node| match compute(node, scope)? {
        Value::Int(value) => Ok(value),
        other => error(node, format!("needs an integer, is {}", other.type_of())),
    };
    let condition = |node: &Node| match compute(node, scope)? {
        Value::Bool(value) => Ok(value),
        other => error(node, format!("needs a condition, is {}", other.type_of())),
    };
    let checked = |value: Option<i64>| match value {
        Some(value) => Ok(Value::Int(value)),
        None => error(node, "overflows 64 bits"),
    };
    match &node.kind {
        Kind::Literal(value) => Ok(value.clone()),
        Kind::Name(name) => scope.value(name).ok_or_else(|| unknown("name", name, &scope.names(), node.span.clone())),
        Kind::Unary(Operator::Not, inner) => Ok(Value::Bool(!condition(inner)?)),
        Kind::Unary(_, inner) => checked(integer(inner)?.checked_neg()),
        Kind::Binary(Operator::And, a, b) => Ok(Value::Bool(condition(a)? && condition(b)?)),
        Kind::Binary(Operator::Or, a, b) => Ok(Value::Bool(condition(a)? || condition(b)?)),
        Kind::Binary(Operator::Equal, a, b) => Ok(Value::Bool(compute(a, scope)? == compute(b, scope)?)),
        Kind::Binary(Operator::NotEqual, a, b) => Ok(Value::Bool(compute(a, scope)? != compute(b, scope)?)),
        Kind::Binary(operator, a, b) => {
            let (a, b) = (integer(a)?, integer(b)?);
            if matches!(operator, Operator::Divide | Operator::Remainder) && b == 0 {
                return error(node, "division by zero");
            }
            match operator {
                Operator::Add => checked(a.checked_add(b)),
                Operator::Subtract => checked(a.checked_sub(b)),
                Operator::Multiply => checked(a.checked_mul(b)),
                Operator::Divide => checked(a.checked_div(b)),
                Operator::Remainder => checked(a.checked_rem(b)),
                Operator::Less => Ok(Value::Bool(a < b)),
                Operator::LessEqual => Ok(Value::Bool(a <= b)),
                Operator::Greater => Ok(Value::Bool(a > b)),
                _ => Ok(Value::Bool(a >= b)),
            }
        }
        Kind::Choice(chosen, yes, no) => compute(if condition(chosen)? { yes } else { no }, scope),
        Kind::Call(name, arguments) => {
            let values = arguments.iter().map(integer).collect::<Result<Vec<_>, _>>()?;
            match (name.as_str(), values.as_slice()) {
                ("min", [first, rest @ ..]) => Ok(Value::Int(rest.iter().fold(*first, |a, b| a.min(*b)))),
                ("max", [first, rest @ ..]) => Ok(Value::Int(rest.iter().fold(*first, |a, b| a.max(*b)))),
                ("ceil_div" | "align_up", [_, unit]) if *unit <= 0 => {
                    error(node, format!("`{name}` needs a second argument above zero"))
                }
                ("ceil_div", [a, unit]) => checked(a.checked_add(unit - 1).map(|sum| sum.div_euclid(*unit))),
                ("align_up", [a, unit]) => {
                    checked(a.checked_add(unit - 1).and_then(|sum| sum.div_euclid(*unit).checked_mul(*unit)))
                }
                ("next_pow2", [a]) => checked(
                    u64::try_from((*a).max(1))
                        .ok()
                        .and_then(u64::checked_next_power_of_two)
                        .and_then(|v| v.try_into().ok()),
                ),
                _ => error(node, format!("unknown function `{name}`")),
            }
        }
    }
}

const fn plural(wanted: Type) -> &'static str {
    match wanted {
        Type::Int => "integers",
        Type::Bool => "conditions",
        Type::Text => "texts",
    }
}

impl Operator {
    const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::And => "&&",
            Self::Or => "||",
            Self::Not => "!",
        }
    }

    const fn compares(self) -> bool {
        matches!(self, Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual)
    }
}
