//! The policies of a campaign as data: which numbers a verdict is held against. What is done with them stands in
//! [`standing`](mod@crate::standing); nothing here measures or decides.

use std::fmt;
use std::str::FromStr;

/// A preset over the same evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// A gain in the aggregate, and no core shape 5 % slower.
    #[default]
    Default,
    /// As the default, and any credible regression of any shape rolls back.
    Tile,
    /// No gain required: rolled back only beyond a regression of 5 %.
    Service,
    /// The numbers of the default; the campaign adds the measured training step as a shape.
    Training,
    /// The other way round, for pull requests: passes unless slower by more than 2 % is shown twice.
    Gate,
}

impl Policy {
    /// All of them, in the order they are listed to the user.
    pub const ALL: [Self; 5] = [Self::Default, Self::Tile, Self::Service, Self::Training, Self::Gate];

    /// The name, as in configuration and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Tile => "tile",
            Self::Service => "service",
            Self::Training => "training",
            Self::Gate => "gate",
        }
    }

    /// The numbers of this policy.
    #[must_use]
    pub fn rule(self) -> Rule {
        let default = Rule {
            min_gain: 0.01,
            max_regression: 0.05,
            tolerate_regression: true,
            require_gain: true,
            shape_alpha: 0.01,
        };
        match self {
            Self::Default | Self::Training => default,
            Self::Tile => Rule { tolerate_regression: false, ..default },
            Self::Service => Rule { require_gain: false, ..default },
            Self::Gate => Rule { require_gain: false, min_gain: 0.02, max_regression: 0.02, ..default },
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// A name that is no policy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Policy::ALL.map(Policy::name).join(", ");
        write!(formatter, "no policy is called `{}`: choose one of {names}", self.0)
    }
}

impl std::error::Error for UnknownPolicy {}

/// What a candidate is held against. Figures are plain ratios: 0.01 is 1 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The aggregate's estimate must reach this gain, `t_old / t_new - 1`, and a candidate whose upper bound does not
    /// is given up.
    pub min_gain: f64,
    /// No core shape's regression, `t_new / t_old - 1`, may reach this.
    pub max_regression: f64,
    /// Whether a shape may be credibly slower, by less than `max_regression`, and be named as a trade-off.
    pub tolerate_regression: bool,
    /// Whether a gain is needed at all. Where not, a candidate passes by being no slower than `max_regression`, in the
    /// aggregate and in every core shape.
    pub require_gain: bool,
    /// The one-sided level of each shape's bound. For an accept not divided by the number of shapes: all must pass, so more
    /// shapes make a false accept rarer, not more frequent. For calling one of them slower it is: there it is the other way round.
    pub shape_alpha: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!(Policy::default(), Policy::Default);
        let error = "Tile".parse::<Policy>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no policy is called `Tile`: choose one of default, tile, service, training, gate"
        );
    }

    #[test]
    fn the_numbers_of_the_rules() {
        let rule = Policy::Default.rule();
        assert_eq!((rule.min_gain, rule.max_regression, rule.shape_alpha), (0.01, 0.05, 0.01));
        assert!(rule.tolerate_regression && rule.require_gain);
        assert_eq!(Policy::Training.rule(), rule);
        assert_eq!(Policy::Tile.rule(), Rule { tolerate_regression: false, ..rule });
        assert_eq!(Policy::Service.rule(), Rule { require_gain: false, ..rule });
        let gate = Policy::Gate.rule();
        assert_eq!((gate.max_regression, gate.min_gain, gate.require_gain), (0.02, 0.02, false));
    }
}
