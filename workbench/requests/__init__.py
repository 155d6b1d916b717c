"""The user's requests: check them, write the desired state, and wake the supervisor."""
