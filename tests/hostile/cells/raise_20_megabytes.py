raise ValueError("x" * 20_000_000)
