//! Filters written by other writers.

use arrow_array::{ArrayRef, StringArray};
use parsieve::bloom::{ColumnOptions, Filter, Sbbf};
use std::sync::Arc;

/// A bitset written by parquet-java through Spark (fact B3 of the specification).
const SPARK: [u8; 32] = [
    200, 1, 80, 20, 64, 68, 8, 109, 6, 37, 4, 67, 144, 80, 96, 32, 8, 132, 43, 33, 0, 5, 99, 65, 2, 0, 224, 44, 64, 78,
    96, 4,
];

#[test]
fn the_filter_written_by_spark_is_reproduced_bit_for_bit() {
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..10).map(|n| format!("a{n}"))));
    let spark = Filter::new(Sbbf::from_bitset(&SPARK).unwrap(), None);
    assert_eq!(spark.check(&values, ColumnOptions::default()).unwrap().true_count(), 10);
    let mut ours = Filter::new(Sbbf::new(1).unwrap(), None);
    ours.insert(&values, ColumnOptions::default()).unwrap();
    assert_eq!(ours.sbbf().bitset(), SPARK);
}
