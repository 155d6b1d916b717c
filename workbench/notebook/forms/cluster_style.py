"""The style of the cluster panel, as JupyterLab's forms and the side panel have it.

Colours are JupyterLab's variables, so the widget follows the theme; the fallback values are for
pages without a theme, such as VS Code.
"""

from __future__ import annotations

from workbench.core.cluster.model import ClusterState
from workbench.view.html import Html, element, join_html
from workbench.view.text import cluster_word

CLASS = "workbench-cluster"
# As in extension/src/clustercard.tsx: no state is shown by colour alone.
_RING = element("circle", cx=5, cy=5, r=3.5, fill="none")
_RIGHT_HALF, _LEFT_HALF = "M5 1.5a3.5 3.5 0 0 1 0 7z", "M5 1.5a3.5 3.5 0 0 0 0 7z"
_SHAPES = {
    ClusterState.DOWN: _RING,
    ClusterState.STARTING: element("path", d=_RIGHT_HALF),
    ClusterState.PAUSED: element("path", d="M3.5 3v4M6.5 3v4"),
    ClusterState.READY: element("circle", cx=5, cy=5, r=3.5),
    ClusterState.RESIZING: element("path", d=_RIGHT_HALF),
    ClusterState.STOPPING: element("path", d=_LEFT_HALF),
    ClusterState.FAILED: element("path", d="M2 2l6 6M8 2l-6 6"),
}
_RULES = f"""
.{CLASS} {{ padding: 0 0 4px; max-width: 100%; }}
.{CLASS} .widget-box {{ margin: 0; overflow: visible; }}
.{CLASS} .widget-hbox {{ align-items: center; column-gap: 8px; }}
.{CLASS} .widget-inline-hbox {{ max-width: calc(100% - 4px); }}
.{CLASS} .widget-label {{ text-align: left; color: var(--jp-ui-font-color2, inherit); }}
.{CLASS} .widget-html-content {{ line-height: 1.4; align-self: center; overflow-wrap: break-word; }}
.{CLASS} .{CLASS}-title {{ font-weight: 600; font-size: var(--jp-ui-font-size2, 15px); }}
.{CLASS} .{CLASS}-state svg {{ fill: var(--jp-inverse-layout-color3, #616161);
  stroke: var(--jp-inverse-layout-color3, #616161); stroke-width: 1; }}
.{CLASS} .{CLASS}-state[data-state="ready"] svg {{ fill: var(--jp-success-color1, #388e3c);
  stroke: var(--jp-success-color1, #388e3c); }}
.{CLASS} .{CLASS}-state[data-state="failed"] svg {{ stroke: var(--jp-error-color1, #d32f2f);
  stroke-width: 2; }}
.{CLASS} .jupyter-button, .{CLASS} .jupyter-button:hover {{ height: 24px; line-height: 22px;
  padding: 0 8px; border: 1px solid var(--jp-border-color1, #bdbdbd);
  border-radius: var(--jp-border-radius, 2px); background: var(--jp-layout-color1, transparent);
  color: var(--jp-ui-font-color1, inherit); box-shadow: none; }}
.{CLASS} .jupyter-button:hover:enabled {{ background: var(--jp-layout-color2, transparent); }}
.{CLASS} .jupyter-button.mod-primary, .{CLASS} .jupyter-button.mod-primary:hover:enabled {{
  border-color: var(--jp-accept-color-normal, var(--jp-brand-color1, #1976d2));
  background: var(--jp-accept-color-normal, var(--jp-brand-color1, #1976d2)); color: white; }}
.{CLASS} .jupyter-button.mod-primary:hover:enabled {{
  background: var(--jp-accept-color-hover, var(--jp-brand-color0, #0d47a1)); }}
.{CLASS} .jupyter-button.mod-danger {{ border-color: var(--jp-error-color1, #d32f2f); }}
.{CLASS} .jupyter-button:disabled {{ border-color: var(--jp-border-color2, #e0e0e0);
  background: none; color: var(--jp-ui-font-color2, inherit); opacity: 0.5; }}
.{CLASS} .jupyter-button:focus-visible {{
  outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 1px; }}
"""


def title_html(cluster: str) -> Html:
    """Return the widget's title with its style sheet."""
    rules = element("style", _RULES)
    title = f"Cluster {cluster}"
    named = element("div", title, class_=f"{CLASS}-title", role="heading", aria_level=4)
    return join_html([rules, named])


def state_html(state: ClusterState, sizes: str) -> Html:
    """Return a state with its icon and the cluster's size, also for screen readers."""
    sides = {"width": 10, "height": 10}
    shape = element("svg", _SHAPES[state], _RING, viewBox="0 0 10 10", **sides, aria_hidden="true")
    text = ", ".join(filter(None, (cluster_word(state), sizes)))
    kind = {"class_": f"{CLASS}-state", "data_state": str(state)}
    return element("span", shape, f" {text}", **kind, role="status")
