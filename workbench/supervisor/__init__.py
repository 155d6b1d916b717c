"""The loop that brings the observed state to the desired one: observe, plan, act."""
