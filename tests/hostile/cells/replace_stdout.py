import io
import sys

sys.stdout = io.StringIO()
print("this is not seen")
