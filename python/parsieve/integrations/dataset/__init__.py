"""Tables as pyarrow datasets: `Table.dataset`."""
