"""What supervisor and node send each other, and what a node must have before it joins."""
