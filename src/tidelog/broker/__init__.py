"""One broker: settings, wiring, dispatch and a handler for each API."""
