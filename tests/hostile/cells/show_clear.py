from IPython.display import clear_output

print("what goes")
clear_output()
print("what stays")
