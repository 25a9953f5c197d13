"""What a broker tells of itself: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever looks after it."""
