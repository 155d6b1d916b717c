from IPython.display import HTML, display

handle = display(HTML("<i>first</i>"), display_id=True)
handle.update(HTML("<i>second</i>"))
