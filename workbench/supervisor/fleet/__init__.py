"""Keep a cluster's nodes as desired: buy, log in, prepare, renew leases, release."""
