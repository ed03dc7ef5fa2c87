//! The instruction set of a batch operation, chosen once per batch and never per value.
//!
//! Each kernel has one portable, branch-free body. `per_instruction_set!` compiles it again inside thin
//! `#[target_feature]` functions, where the compiler vectorizes it. A baseline wheel is therefore fast on every
//! processor.

/// An instruction set that this processor supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionSet(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// The baseline of this architecture.
    pub const PORTABLE: Self = Self(Level::Portable);

    /// Returns the fastest instruction set of this processor.
    pub fn detect() -> Self {
        Self::all().last().copied().unwrap_or(Self::PORTABLE)
    }

    /// Returns all instruction sets of this processor, slowest first.
    pub fn all() -> Vec<Self> {
        #[allow(unused_mut, reason = "only x86-64 has more than the portable one")]
        let mut sets = vec![Self::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
                sets.push(Self(Level::Avx2));
            }
            if std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl")
                && std::is_x86_feature_detected!("bmi2")
            {
                sets.push(Self(Level::Avx512));
            }
        }
        sets
    }

    /// Returns the instruction set with this name, if the processor supports it. For benchmarks and tests.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|set| set.name() == name)
    }

    /// Returns `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        }
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn level(self) -> Level {
        self.0
    }
}

/// Declares `fn name(isa, arguments…)`, which runs a portable body compiled for the chosen instruction set.
///
/// The body must be `#[inline(always)]`, so that each wrapper compiles its own copy.
macro_rules! per_instruction_set {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:path;) => {
        $(#[$meta])*
        $vis fn $name(isa: $crate::isa::InstructionSet, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi2")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    $body($($arg),*)
                }
                match isa.level() {
                    // SAFETY: `InstructionSet::all` returns this level only if the processor has its features.
                    $crate::isa::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    // SAFETY: as above.
                    $crate::isa::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    $crate::isa::Level::Portable => {}
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = isa;
            $body($($arg),*)
        }
    };
}
pub(crate) use per_instruction_set;
