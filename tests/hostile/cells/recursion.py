def deeper():
    return deeper()


deeper()
