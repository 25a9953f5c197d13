"""The whole cluster in one process, under a simulated clock, network and disk: a seed replays a failure.

    python -m tidelog.testing.simulation --seeds 1000
    python -m tidelog.testing.simulation --seed 17 --trace

The brokers and clients are the real ones; `loop`, `network`, `disk` and `store` stand for the machine below them,
`nemesis` breaks things, `workload` uses the cluster, and `checker` judges what the clients saw.
"""
