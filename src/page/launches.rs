//! The raw data of evidence as gains: one a launch and shape, and one a block. What a verdict is computed from, and so
//! what a reader may want to see.

use kopt_schema::evidence::{Evidence, StageKind};

use crate::gate;

/// The launches of one shape, in the order they were made.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapeLaunches {
    /// The shape.
    pub shape: String,
    /// The launches.
    pub launches: Vec<Launch>,
}

/// One launch on one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Which stage it belongs to.
    pub stage: StageKind,
    /// Its gain: `t_old / t_new - 1`.
    pub gain: f64,
    /// That of each block.
    pub blocks: Vec<f64>,
}

/// Every launch by shape, in the order of the arrangement. Records that cannot be used are left out.
#[must_use]
pub fn by_shape(evidence: &Evidence) -> Vec<ShapeLaunches> {
    let of = |shape: &str| {
        let launches = evidence.stages.iter().flat_map(|stage| {
            let records = stage.launches.iter().flat_map(|launch| &launch.cases).filter(|case| case.case == shape);
            records.filter(|case| gate::usable(case, gate::CANDIDATE)).map(|case| {
                let block =
                    |block: &kopt_schema::bout::BlockRecord| block.log_gain(gate::INCUMBENT, gate::CANDIDATE).exp_m1();
                Launch {
                    stage: stage.kind,
                    gain: gate::launch_gain(case, gate::INCUMBENT, gate::CANDIDATE).exp_m1(),
                    blocks: case.blocks.iter().map(block).collect(),
                }
            })
        });
        ShapeLaunches { shape: shape.to_owned(), launches: launches.collect() }
    };
    let shapes = evidence.arrangement.iter().flat_map(|arrangement| &arrangement.cases);
    shapes.map(|case| of(&case.name)).filter(|shape| !shape.launches.is_empty()).collect()
}
