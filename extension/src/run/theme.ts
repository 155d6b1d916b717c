/**
 * Read what a canvas needs of the page's theme, and tell when it changes.
 */

/** The colours and lines of a chart. */
export interface ITheme {
  text: string;
  grid: string;
  font: string;
  curves: readonly string[];
  isDark: boolean;
  /** Whether lines are to differ by more than their colour. */
  isHighContrast: boolean;
}

// Okabe and Ito's colours, which people with any colour vision tell apart; on a dark ground
// those of their colours that stand out there, or lighter kin.
const ON_LIGHT = [
  ...['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#56B4E9', '#E69F00']
];
const ON_DARK = [
  ...['#56B4E9', '#E69F00', '#2BBF95', '#E29BC4', '#9DB2FF', '#F0E442']
];

/** Read the theme at `node`. */
export function readTheme(node: HTMLElement): ITheme {
  const style = getComputedStyle(node);
  const variable = (name: string, otherwise: string) =>
    style.getPropertyValue(name).trim() || otherwise;
  const isDark = isLightColour(style.color);
  const isContrasty = isHighContrast();
  // Borders of a high-contrast theme are as strong as a curve.
  const faint = isDark ? 'rgba(255, 255, 255, 0.25)' : 'rgba(0, 0, 0, 0.2)';
  const family = variable('--jp-ui-font-family', 'system-ui, sans-serif');
  return {
    text: variable('--jp-ui-font-color1', style.color || '#212121'),
    grid: isContrasty ? faint : variable('--jp-border-color2', faint),
    font: `11px ${family}`,
    curves: isDark ? ON_DARK : ON_LIGHT,
    isDark,
    isHighContrast: isContrasty
  };
}

/**
 * Call `callback` whenever the theme may have changed.
 *
 * @returns what ends that
 */
export function watchTheme(callback: () => void): () => void {
  // JupyterLab and VS Code tell by attributes of the body, other pages by the system's wishes.
  const observer = new MutationObserver(callback);
  const attributeFilter = [
    'data-jp-theme-name',
    'data-jp-theme-light',
    'class'
  ];
  observer.observe(document.body, { attributes: true, attributeFilter });
  const queries = ['(prefers-color-scheme: dark)', ...CONTRAST].map(query =>
    matchMedia(query)
  );
  queries.forEach(query => query.addEventListener('change', callback));
  return () => {
    observer.disconnect();
    queries.forEach(query => query.removeEventListener('change', callback));
  };
}

const CONTRAST = ['(prefers-contrast: more)', '(forced-colors: active)'];

function isHighContrast(): boolean {
  const { jpThemeName = '' } = document.body.dataset;
  return (
    /high.?contrast/i.test(`${jpThemeName} ${document.body.className}`) ||
    CONTRAST.some(query => matchMedia(query).matches)
  );
}

/** Whether text of this colour is on a dark background. */
function isLightColour(colour: string): boolean {
  const [red = 0, green = 0, blue = 0] =
    colour.match(/[\d.]+/g)?.map(Number) ?? [];
  return 0.299 * red + 0.587 * green + 0.114 * blue > 128;
}
