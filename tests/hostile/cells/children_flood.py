import subprocess

subprocess.run("yes 'a line of a child' | head -c 100000000", shell=True, check=True)
print("the end of the flood")
