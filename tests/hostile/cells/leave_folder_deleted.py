import os
import tempfile

before = os.getcwd()
folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
