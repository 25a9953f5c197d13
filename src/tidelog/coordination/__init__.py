"""Coordinators: consumer groups now, transactions later; their state lives in compacted internal topics."""
