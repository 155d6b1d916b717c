class Table:
    def _repr_html_(self):
        return "<table><tr><td>cell of a table</td></tr></table>"


Table()
