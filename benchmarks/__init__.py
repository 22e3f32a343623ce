"""Speed, measured and never asserted: `make bench`."""
