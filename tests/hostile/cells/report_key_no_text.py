import workbench

workbench.report(**{1: 2})
