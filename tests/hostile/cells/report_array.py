import numpy as np

import workbench

workbench.report(a=np.array([1.0, 2.0]))
