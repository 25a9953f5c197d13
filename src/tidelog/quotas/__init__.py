"""How much a client may use: limits by user and client id, and what was used.  Pure: time is passed in."""
