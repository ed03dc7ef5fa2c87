//! Defects of the programs that write files, by the name and the version that the footer states.

use crate::parquet::meta::schema::{Logical, Physical, SchemaLeaf};

/// A program, and the first two numbers of the first version without some defect.
type FirstRight = (&'static str, u32, u32);

/// Counts the nulls of a chunk again for each page.
const COUNT_TOO_MANY: [FirstRight; 1] = [("Polars", 2, 1)];
/// Leave out nulls. Arrow C++ does not count nulls in dictionaries, and parquet-java not in pages without values.
const COUNT_TOO_FEW: [FirstRight; 3] = [("parquet-cpp", 6, 0), ("parquet-cpp-arrow", 6, 0), ("parquet-mr", 1, 10)];
/// Compare decimals by their bytes.
const COMPARE_BYTES: [FirstRight; 3] = [("parquet-cpp", 4, 0), ("parquet-cpp-arrow", 4, 0), ("Polars", 2, 1)];
/// Lose values next to a NaN: parquet-cpp and Polars in any page, and the others in a page that begins with NaN.
const LOSE_NEXT_TO_NAN: [FirstRight; 5] = [
    ("parquet-cpp", 1, 4),
    ("impala", 3, 0),
    ("Polars", 2, 1),
    ("github.com/parquet-go/parquet-go", 0, 28),
    ("github.com/segmentio/parquet-go", u32::MAX, 0),
];

/// Returns true if a writer is known to compute wrong bounds for the type of a column.
pub(super) fn has_wrong_bounds(created_by: Option<&str>, leaf: &SchemaLeaf) -> bool {
    let is_decimal = matches!(leaf.logical, Some(Logical::Decimal { .. }));
    if is_decimal && matches!(leaf.physical, Physical::FixedLenByteArray | Physical::ByteArray) {
        return is_older(created_by, &COMPARE_BYTES);
    }
    leaf.is_real() && is_older(created_by, &LOSE_NEXT_TO_NAN)
}

/// Returns true if a number of nulls may be wrong.
pub(super) fn is_wrong_count(created_by: Option<&str>, nulls: u64) -> bool {
    (nulls > 0 && is_older(created_by, &COUNT_TOO_MANY)) || is_older(created_by, &COUNT_TOO_FEW)
}

/// Returns true if a writer is known to store wrong bounds or numbers of nulls for some columns.
pub fn has_wrong_statistics(created_by: Option<&str>) -> bool {
    [&COUNT_TOO_MANY[..], &COUNT_TOO_FEW, &COMPARE_BYTES, &LOSE_NEXT_TO_NAN]
        .into_iter()
        .any(|programs| is_older(created_by, programs))
}

/// Returns true if a writer compresses all data pages of version 2, even if their headers deny it, as Arrow C++ did
/// before version 3 of Arrow.
#[cfg(feature = "decode")]
pub(crate) fn always_compresses(created_by: Option<&str>) -> bool {
    created_by.is_some_and(|writer| writer.starts_with("parquet-cpp version "))
}

/// Returns true if the writer is one of these programs in an earlier version, or in an unknown one.
fn is_older(created_by: Option<&str>, programs: &[FirstRight]) -> bool {
    let Some((name, version)) = created_by.map(name_and_version) else { return false };
    programs.iter().any(|&(program, major, minor)| program == name && version.is_none_or(|v| v < (major, minor)))
}

/// Splits the name of a writer from the first two numbers of its version, which are `None` if they are unknown.
fn name_and_version<'a>(created_by: &'a str) -> (&'a str, Option<(u32, u32)>) {
    // Polars adds the name of its language, as in "Polars (python) version 2.1.0".
    let name_of = |program: &'a str| program.split_once(" (").map_or(program, |(name, _)| name);
    let Some((program, version)) = created_by.split_once(" version ") else { return (name_of(created_by), None) };
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().ok());
    (name_of(program), numbers.next().flatten().zip(numbers.next().flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_writers_are_found() {
        let check = |created_by, name, version| assert_eq!(name_and_version(created_by), (name, version));
        check("parquet-cpp version 1.5.1-SNAPSHOT", "parquet-cpp", Some((1, 5)));
        check("parquet-cpp-arrow version 4.0.0", "parquet-cpp-arrow", Some((4, 0)));
        check("impala version 2.11.0-cdh5.14.0 (build d6826)", "impala", Some((2, 11)));
        check(
            "github.com/parquet-go/parquet-go version 0.25.1(build )",
            "github.com/parquet-go/parquet-go",
            Some((0, 25)),
        );
        check("Polars (python) version 2.1.0 (build 7f90)", "Polars", Some((2, 1)));
        check("Polars", "Polars", None);
        check("parquet-cpp version unknown", "parquet-cpp", None);
        check("parquet-cpp", "parquet-cpp", None);
    }

    #[test]
    fn old_writers_compare_only_decimals_in_bytes_wrongly() {
        let decimal = Some(Logical::Decimal { precision: 9, scale: 2 });
        for (physical, logical, is_wrong) in [
            (Physical::FixedLenByteArray, decimal, true),
            (Physical::ByteArray, decimal, true),
            (Physical::Int64, decimal, false),
            (Physical::FixedLenByteArray, None, false),
        ] {
            let leaf = SchemaLeaf::for_test(physical, Some(4), logical);
            assert_eq!(has_wrong_bounds(Some("parquet-cpp version 1.5.1"), &leaf), is_wrong, "{leaf:?}");
            assert!(!has_wrong_bounds(Some("parquet-cpp-arrow version 4.0.0"), &leaf));
        }
    }

    #[test]
    fn statistics_of_some_writers_are_wrong() {
        let old = Some("Polars");
        assert!(has_wrong_statistics(old) && is_wrong_count(old, 1) && !is_wrong_count(old, 0));
        let old = Some("parquet-cpp version unknown");
        assert!(has_wrong_statistics(old) && is_wrong_count(old, 0));
        let old = Some("impala version 2.11.0-cdh5.14.0 (build d6826)");
        assert!(has_wrong_statistics(old) && !is_wrong_count(old, 1));
        for right in [None, Some("parquet-cpp-arrow version 21.0.0"), Some("parquet-mr version 1.13.1 (build x)")] {
            assert!(!has_wrong_statistics(right), "{right:?}");
        }
    }
}
