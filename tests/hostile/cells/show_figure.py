from IPython.display import display
from matplotlib.figure import Figure

figure = Figure()
figure.subplots().plot([1, 2, 3])
display(figure)
