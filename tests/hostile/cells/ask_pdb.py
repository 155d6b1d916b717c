import pdb

x = 1
pdb.set_trace()
y = 2
