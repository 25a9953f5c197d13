"""The console: a web page and a REST API over a cluster, as a client of it.

    tidelog console -b 127.0.0.1:9092 --listen 127.0.0.1:8080

A request passes `guard.py` (hosts, origins, sizes), finds its route in `api/`, and asks the cluster with the clients of
`clients.py`, which are those of the user who has logged in (`sessions.py`) or, where the broker asks for no login, everybody's.
`static/` is the page: ES modules as they stand, with two small libraries in `static/vendor/`.
"""
