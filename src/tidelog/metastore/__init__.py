"""Where cluster metadata is kept: one contract, several stores."""
