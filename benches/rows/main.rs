//! The floors of `benches/python/rows.py`: the `parquet` crate reads rows of known files.
//!
//! With the argument `serve`, the program reads one request per line of its input, as JSON, and writes one answer per
//! line. So the Python program can run it alternately with the other contenders. See `request.rs` for both forms.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "benches read clocks, arguments and files")]
#![allow(clippy::print_stdout, reason = "benches print their results")]

mod read;
mod request;

use read::Footers;
use request::{Answer, Request};
use std::io::{self, BufRead, Write};

fn main() {
    if !std::env::args().any(|argument| argument == "serve") {
        println!("benches/python/rows.py starts this program, with the argument `serve`");
        return;
    }
    let mut footers = Footers::default();
    for line in io::stdin().lock().lines() {
        let request = Request::parse(&line.expect("the input is text"));
        let (seconds, batches) = footers.answer(&request);
        println!("{}", Answer::new(seconds, &batches).to_json());
        io::stdout().flush().expect("the output is open");
    }
}
