import workbench

workbench.report(loss=1, total=2**70)
