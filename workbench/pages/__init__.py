"""What pages and Python say to each other."""
