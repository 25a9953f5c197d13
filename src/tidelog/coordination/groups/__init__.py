"""Consumer groups: classic and KIP-848 membership, committed offsets, and their records."""
