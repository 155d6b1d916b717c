import os

for _ in range(40):
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
print("forty")
