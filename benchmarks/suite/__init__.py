"""tidelog beside its peers: systems, drivers, lines and the report.  `benchmarks/compare.py` runs it."""
