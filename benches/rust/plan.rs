//! The command line options.

use super::BENCHES;
use parsieve::isa::InstructionSet;

const USAGE: &str = "\
cargo bench --bench main -- [hash] [bloom] [--isa NAME]... [--smoke] [--save | --no-save]

    hash, bloom   run only these benches
    --isa NAME    use only this instruction set (portable, avx2, avx512); can be repeated
    --smoke       run each case once with few values, to check that everything works
    --save        write a record to benches/results (the default for a full run)
    --no-save     do not write a record";

/// The selected benches, instruction sets and effort.
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
                _ => quit(&format!("unknown argument: {argument}\n\n{USAGE}")),
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

    /// Returns true if the run writes a record. A partial or smoke run could be mistaken for a full one, so it needs
    /// `--save`.
    pub(crate) fn saves(&self) -> bool {
        self.save.unwrap_or(!self.smoke && self.arguments.is_empty())
    }

    /// Returns the number of values to use: `full`, or fewer in a smoke run.
    pub(crate) fn num_values(&self, full: usize) -> usize {
        if self.smoke { full.min(10_000) } else { full }
    }
}

fn quit(message: &str) -> ! {
    println!("{message}");
    std::process::exit(2)
}
