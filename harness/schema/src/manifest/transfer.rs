//! `[package.metadata.kopt.transfer]`: what a gain is worth in training, and how that is found out.

use super::resolve::{LONGEST_S, Resolver};
use super::table::Transfer;
use super::{Script, TransferSettings};
use crate::training::SLOTS;

/// Seconds after which a script counts as hanging, where the manifest says nothing.
const TIMEOUT_S: f64 = 600.0;
/// How far losses may be apart, likewise.
const LOSS_TOLERANCE: f64 = 1e-3;

impl Resolver<'_> {
    pub(super) fn transfer(&mut self, table: Transfer) -> Option<TransferSettings> {
        let at = |key: &'static str| ["transfer".into(), key.into()];
        match (table.slot, table.command) {
            (Some(_), Some(_)) => {
                let hint = "take one away: a slot of the harness's model, or a training script of your own".to_owned();
                self.wrong(&at("slot"), "a kernel is trained with in a slot or by a command, not both", hint);
                None
            }
            (None, None) => {
                let hint = format!("slot = \"{}\", or command = \"python train.py\"", SLOTS[0]);
                self.wrong(&["transfer".into()], "it names neither a slot nor a command", hint);
                None
            }
            (Some(slot), None) => {
                for (key, given) in [("timeout_s", table.timeout_s), ("loss_tolerance", table.loss_tolerance)] {
                    if given.is_some() {
                        self.wrong(&at(key), format!("`{key}` is of a command; a slot has its own"), None);
                    }
                }
                if !SLOTS.contains(&slot.as_str()) {
                    let near = crate::nearest(&slot, SLOTS).map(|near| format!("did you mean `{near}`? "));
                    let hint = format!("{}there are {}", near.unwrap_or_default(), SLOTS.join(", "));
                    self.wrong(&at("slot"), format!("the model has no slot `{slot}`"), hint);
                }
                Some(TransferSettings::Slot(slot))
            }
            (None, Some(command)) => {
                let timeout_s = table.timeout_s.unwrap_or(TIMEOUT_S);
                let loss_tolerance = table.loss_tolerance.unwrap_or(LOSS_TOLERANCE);
                if command.trim().is_empty() {
                    let hint = "command = \"python train.py\"".to_owned();
                    self.wrong(&at("command"), "a training script is a command", hint);
                }
                if !(timeout_s > 0.0 && timeout_s <= LONGEST_S) {
                    self.wrong(&at("timeout_s"), "a time limit is above zero, and a day at most", None);
                }
                if !(0.0..1.0).contains(&loss_tolerance) {
                    let hint = "relative to the loss; 0.001 is usual for f32".to_owned();
                    self.wrong(&at("loss_tolerance"), "a tolerance is from 0 to less than 1", hint);
                }
                Some(TransferSettings::Script(Script { command, timeout_s, loss_tolerance }))
            }
        }
    }
}
