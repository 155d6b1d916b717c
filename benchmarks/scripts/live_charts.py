"""Charts of others that live below a notebook's cell, each given the same points to draw.

Each gets a curve that is thinned to ``MOST`` points, which none of them would do by itself.
"""

import json
import os
import time
from io import BytesIO

import numpy as np
from IPython.display import Image, display

MOST = 2_000
MORE = 100
EVERY_SECONDS = 0.1


class Plotly:
    def __init__(self, x, y):
        import plotly.graph_objects as go

        self.figure = go.FigureWidget(go.Scatter(x=x, y=y, mode="lines"))
        self.figure.update_layout(width=900, height=400)
        display(self.figure)

    def update(self, x, y):
        (line,) = self.figure.data
        with self.figure.batch_update():
            line.x, line.y = x, y


class Bqplot:
    def __init__(self, x, y):
        import bqplot

        scales = {"x": bqplot.LinearScale(), "y": bqplot.LinearScale()}
        self.lines = bqplot.Lines(x=x, y=y, scales=scales)
        axes = [
            bqplot.Axis(scale=scales["x"]),
            bqplot.Axis(scale=scales["y"], orientation="vertical"),
        ]
        layout = {"width": "900px", "height": "400px"}
        display(bqplot.Figure(marks=[self.lines], axes=axes, layout=layout, animation_duration=0))

    def update(self, x, y):
        with self.lines.hold_sync():
            self.lines.x, self.lines.y = x, y


class Matplotlib:
    def __init__(self, x, y):
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(9, 4))
        self.axes = self.figure.subplots()
        (self.line,) = self.axes.plot(x, y)
        self.handle = display(self.picture(), display_id=True)

    def update(self, x, y):
        self.line.set_data(x, y)
        self.axes.relim()
        self.axes.autoscale_view()
        self.handle.update(self.picture())

    def picture(self):
        file = BytesIO()
        self.figure.savefig(file, format="png")
        return Image(file.getvalue())


class Live:
    """A curve that grows, and the chart that shows it."""

    def __init__(self, chart, points):
        self.x = np.arange(points, dtype=float)
        self.y = losses(self.x)
        self.chart = chart(*thinned(self.x, self.y))

    def go(self, updates, path):
        """Add points periodically, and record the times."""
        moments = []
        due = time.time()
        for _ in range(updates):
            more = self.x[-1] + 1 + np.arange(MORE)
            self.x = np.concatenate([self.x, more])
            self.y = np.concatenate([self.y, losses(more)])
            self.chart.update(*thinned(self.x, self.y))
            moments.append(time.time())
            due += EVERY_SECONDS
            time.sleep(max(0, due - time.time()))
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(moments, file)
        os.replace(f"{path}.new", path)


def losses(iterations):
    """Return what a training may report."""
    random = np.random.default_rng(int(iterations[0]))
    return np.exp(-iterations / 5e4) + random.normal(0, 0.02, len(iterations))


def thinned(x, y):
    """Return least and greatest of each bucket, in at most ``MOST`` points."""
    width = -(-len(x) // (MOST // 2))
    whole = len(x) // width * width
    rows = y[:whole].reshape(-1, width)
    y = np.stack([rows.min(axis=1), rows.max(axis=1)], axis=1).ravel()
    return np.repeat(x[:whole:width], 2), y
