for i in range(60_000):
    print(f"line {i}".ljust(100, "."))
