//! Which instruction set a batch runs on: chosen once for a batch, never for a value.
//!
//! Each kernel is one portable, branch-free body. [`per_instruction_set!`] compiles it again inside thin
//! `#[target_feature]` functions, where the compiler vectorises it, so that a baseline wheel runs fast everywhere.

/// An instruction set that this processor has.
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
    /// What any processor of this architecture has.
    pub const PORTABLE: Self = Self(Level::Portable);

    /// The fastest that this processor has.
    pub fn detect() -> Self {
        Self::all().last().copied().unwrap_or(Self::PORTABLE)
    }

    /// All that this processor has, slowest first.
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

    /// The set of that name, if this processor has it; benches and tests choose by it.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|set| set.name() == name)
    }

    /// `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        }
    }

    pub(crate) fn level(self) -> Level {
        self.0
    }
}

/// Declares `fn name(isa, arguments…)` that runs a portable body compiled for the chosen instruction set.
///
/// The body must be `#[inline(always)]`, so that it is compiled anew inside each wrapper.
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
                    // SAFETY: `InstructionSet::all` makes this level only where the processor has its features.
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
