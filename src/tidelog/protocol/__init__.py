"""The wire without I/O: messages declared once for all versions, and the code that reads and writes them."""
