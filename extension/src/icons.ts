/**
 * The icons of this extension.
 */
import { LabIcon } from '@jupyterlab/ui-components';

const svg = (content: string) =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">${content}</svg>`;

/** A curve as one stroke. Its fill comes from above: the icon classes would colour its own. */
const curve = (path: string, width = 2) =>
  `<g fill="none" stroke-width="${width}" stroke-linecap="round" stroke-linejoin="round"><path class="jp-icon3" stroke="#616161" d="${path}"/></g>`;

const AXES = 'M4 3v17h17';

/** Ranks that are joined to one cluster. */
export const clustersIcon = new LabIcon({
  name: 'workbench-lab:clusters',
  svgstr: svg(
    `<path class="jp-icon3" fill="#616161" d="M4 3h5a1 1 0 0 1 1 1v2h4V4a1 1 0 0 1 1-1h5a1 1 0 0 1 1 1v5a1 1 0 0 1-1 1h-2v4h2a1 1 0 0 1 1 1v5a1 1 0 0 1-1 1h-5a1 1 0 0 1-1-1v-2h-4v2a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1v-5a1 1 0 0 1 1-1h2v-4H4a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1zm4 7v4h1a1 1 0 0 1 1 1v1h4v-1a1 1 0 0 1 1-1h1v-4h-1a1 1 0 0 1-1-1V8h-4v1a1 1 0 0 1-1 1z"/>`
  )
});

/** A curve that falls. */
export const runIcon = new LabIcon({
  name: 'workbench-lab:run',
  svgstr: svg(curve(`${AXES}M7.5 5c1.5 7 4 11 13 11`))
});

/** Two curves that fall. */
export const compareIcon = new LabIcon({
  name: 'workbench-lab:compare',
  svgstr: svg(
    curve(`${AXES}M7.5 5c1.5 7 4 11 13 11M11.5 4c1 4.5 3.5 6.5 9 6.5`)
  )
});

/** A line that grows to both sides. */
export const resizeIcon = new LabIcon({
  name: 'workbench-lab:resize',
  svgstr: svg(curve('M7.5 7.5L3 12l4.5 4.5M16.5 7.5L21 12l-4.5 4.5M3 12h18'))
});

/** Two nodes, and what goes both ways between them. */
export const measureIcon = new LabIcon({
  name: 'workbench-lab:measure',
  svgstr: svg(curve('M4 5v14M20 5v14M8 9h8m-3-3l3 3-3 3M16 15H8m3-3l-3 3 3 3'))
});
