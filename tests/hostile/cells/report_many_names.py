import workbench

for i in range(3):
    workbench.report(**{f"metric_{n}": n / (i + 1) for n in range(10_000)})
