x = 1
breakpoint()
y = 2
