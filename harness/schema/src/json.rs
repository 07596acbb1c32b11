//! JSON of what a judge reads and writes now and then. The code for a type is made where it is first asked for: here, where
//! it is compiled once and not optimised, instead of in the harness, which is. What passes between judge and worker for each
//! timed call is not among it.

use serde_json::Result;

use crate::bout::{JudgeReply, JudgeRequest};
use crate::candidate::Candidate;
use crate::manifest::Manifest;
use crate::message::Message;

/// Has a JSON form.
pub trait Json: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// When the text is not its form.
    fn from_json(text: &[u8]) -> Result<Self>;

    /// Its form, on one line.
    ///
    /// # Errors
    /// When a part of it has none.
    fn to_json(&self) -> Result<String>;
}

macro_rules! json {
    ($($of:ty),*) => {
        $(impl Json for $of {
            #[inline(never)]
            fn from_json(text: &[u8]) -> Result<Self> {
                serde_json::from_slice(text)
            }

            #[inline(never)]
            fn to_json(&self) -> Result<String> {
                serde_json::to_string(self)
            }
        })*
    };
}

json!(Candidate, JudgeReply, JudgeRequest, Manifest, Message);
