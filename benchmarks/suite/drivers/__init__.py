"""Programs that put load on a system, one file each, compiled on first use."""
