"""What tidelog's own tests use, shipped so that yours can: a broker in a child process, a clock set by hand,
a disk that fails on demand.  Import each from its module; this package imports nothing by itself."""
