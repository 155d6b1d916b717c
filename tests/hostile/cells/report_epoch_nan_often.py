import workbench

for _ in range(1_000):
    workbench.report(loss=1, epoch=float("nan"))
