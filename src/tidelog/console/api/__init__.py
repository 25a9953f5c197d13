"""The REST API under `/api/v1`, a module for each kind of thing: `ROUTER` of each is found by itself."""
