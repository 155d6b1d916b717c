import workbench

workbench.report(loss=1, iteration=2**63)
