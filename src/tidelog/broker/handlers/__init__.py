"""A file for each API, named as Kafka names it in snake_case.

A new API is a new file here; nothing lists them.  Each holds one function made a handler with
`@handles(...)` (see `broker/dispatch.py`).
"""
