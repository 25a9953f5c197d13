"""Sockets: listeners, connections, back-pressure and limits.  Knows frames, not what is in them."""
