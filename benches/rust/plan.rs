//! What the command line asks for.

use super::BENCHES;
use parsieve::isa::InstructionSet;

const USAGE: &str = "\
cargo bench --bench main -- [hash] [bloom] [--isa NAME]... [--smoke] [--save | --no-save]

  hash, bloom   only these benches
  --isa NAME    only on this instruction set (portable, avx2, avx512); several are allowed
  --smoke       each case once and small: does it run, and do all agree
  --save        write benches/results; a full run does so by itself
  --no-save     write nothing";

/// The chosen benches, instruction sets and effort.
pub(crate) struct Plan {
    only: Vec<String>,
    save: Option<bool>,
    pub(crate) smoke: bool,
    pub(crate) isas: Vec<InstructionSet>,
    pub(crate) arguments: Vec<String>,
}

impl Plan {
    pub(crate) fn from_arguments() -> Self {
        let mut plan = Self { only: vec![], save: None, smoke: false, isas: vec![], arguments: vec![] };
        // `cargo bench` adds `--bench`.
        let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
        while let Some(argument) = arguments.next() {
            plan.arguments.push(argument.clone());
            match argument.as_str() {
                "--smoke" => plan.smoke = true,
                "--save" => plan.save = Some(true),
                "--no-save" => plan.save = Some(false),
                "--isa" => {
                    let name = arguments.next().unwrap_or_default();
                    plan.isas.push(InstructionSet::by_name(&name).unwrap_or_else(|| {
                        let names: Vec<_> = InstructionSet::all().into_iter().map(InstructionSet::name).collect();
                        quit(&format!("this machine has no instruction set {name:?}; it has {}", names.join(", ")))
                    }));
                    plan.arguments.push(name);
                }
                "--help" | "-h" => quit(USAGE),
                name if BENCHES.iter().any(|(bench, _)| *bench == name) => plan.only.push(argument),
                _ => quit(&format!("{argument} means nothing here\n\n{USAGE}")),
            }
        }
        if plan.isas.is_empty() {
            plan.isas = InstructionSet::all();
        }
        plan
    }

    pub(crate) fn runs(&self, bench: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == bench)
    }

    /// A record of a part, or of a smoke run, would pass for the whole: only on request.
    pub(crate) fn saves(&self) -> bool {
        self.save.unwrap_or(!self.smoke && self.arguments.is_empty())
    }

    /// So many values, or few in a smoke run.
    pub(crate) fn num_values(&self, most: usize) -> usize {
        if self.smoke { most.min(10_000) } else { most }
    }
}

fn quit(message: &str) -> ! {
    println!("{message}");
    std::process::exit(2)
}
