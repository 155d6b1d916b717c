"""How a run continues on other ranks: snapshots, resumption, replay, departure."""
