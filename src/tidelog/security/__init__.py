"""Who may do what: logins (SASL), and access rules.  Pure: no sockets, no clock, no metadata store."""
