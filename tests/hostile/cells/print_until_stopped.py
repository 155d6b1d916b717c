import workbench

for step in range(1_000_000):
    for line in range(1_000):
        print(f"step {step} line {line}".ljust(99, "."))
    workbench.report(step=step)
