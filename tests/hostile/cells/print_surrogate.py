print("bad \udc80 surrogate")
