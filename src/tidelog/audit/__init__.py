"""Did everything arrive?  Every tier counts what passes it, and a checker compares the counts.

    producer = Producer(bootstrap_servers="…", audit=True)      # counts, and publishes to `_audit`
    tidelog mirror … --audit mirror                              # so does a mirror
    tidelog audit count offline orders -b …                      # and whoever reads
    tidelog audit report -b …                                    # who has how many of what, when

Messages are counted by topic and by the window of time that their timestamp lies in, which is the same in every tier.
"""
