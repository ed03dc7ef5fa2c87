//! JSON text, read strictly and without an object for each value.
//!
//! A [`Scanner`] reads what all parsers read in the same way. It refuses everything else, so that its caller can leave
//! the text to a complete parser.

mod bindings;
mod scanner;
mod text;

pub use bindings::Bindings;
pub use scanner::{Number, Scalar, Scanner};
pub use text::Text;
