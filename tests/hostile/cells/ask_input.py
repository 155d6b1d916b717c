input("Name: ")
