"""The loop that makes wishes true: observe, plan, act, again and again."""
