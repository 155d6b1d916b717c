"""What any rented machine needs: its boot text, keys, the first login, an environment, a lease."""
