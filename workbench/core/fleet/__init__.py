"""Decide which nodes a cluster needs: requirements, offers, purchases, costs and errors."""
