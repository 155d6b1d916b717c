/**
 * Offer how the charts of a run are drawn: logarithmic, smoothed, zoomed.
 */
import { element, setText } from './dom';
import type { IStyle } from './layout';
import { number } from './numbers';
import type { Range, Zoom } from './zoom';

const SMOOTHEST = 10; // percent of what is in sight

const ICONS = {
  in: 'M7 1a6 6 0 1 0 3.7 10.7l3.3 3.3 1-1-3.3-3.3A6 6 0 0 0 7 1zm0 1.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM6.3 4.5v1.8H4.5v1.4h1.8v1.8h1.4V7.7h1.8V6.3H7.7V4.5z',
  out: 'M7 1a6 6 0 1 0 3.7 10.7l3.3 3.3 1-1-3.3-3.3A6 6 0 0 0 7 1zm0 1.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM4.5 6.3v1.4h5V6.3z',
  all: 'M1 1h5v1.5H3.6l3 3-1.1 1.1-3-3V6H1zm9 0h5v5h-1.5V3.6l-3 3-1.1-1.1 3-3H10zM5.5 9.4l1.1 1.1-3 3H6V15H1v-5h1.5v2.4zm5 0 3 3V10H15v5h-5v-1.5h2.4l-3-3z'
};

export class Toolbar {
  /**
   * @param whole - what there is to be shown
   * @param onStyle - called with another style
   */
  constructor(
    private readonly zoom: Zoom,
    private readonly whole: () => Range | null,
    private readonly onStyle: (style: IStyle) => void
  ) {
    this._out = button('Zoom out', ICONS.out, () => this._scale(2));
    this._all = button('Reset zoom', ICONS.all, () => zoom.set(null));
    this.node.setAttribute('aria-label', 'How curves are drawn');
    this.node.append(
      element('label', {}, this._log, 'Log scale'),
      element(
        'label',
        { title: 'Draw curves over the time since the run started.' },
        this._time,
        'Time'
      ),
      element(
        'label',
        {
          title:
            'Strong line: moving average over this share of the iterations in sight. Faint line: as reported. The tables show values as reported.'
        },
        'Smoothing',
        this._smoothing,
        this._reach
      ),
      button('Zoom in', ICONS.in, () => this._scale(0.5)),
      this._out,
      this._all
    );
    this._log.addEventListener('change', () => this._tell());
    this._time.addEventListener('change', () => this._tell());
    this._smoothing.addEventListener('input', () => this._tell());
    zoom.changed.connect(this._onZoom, this);
    this._onZoom();
  }

  readonly node = element('div', { class: 'wb-toolbar', role: 'group' });

  /** Show a style that was set elsewhere. */
  set(style: IStyle): void {
    this._log.checked = style.log;
    this._time.checked = style.time ?? false;
    this._smoothing.value = String(style.smoothing);
    this._showReach();
  }

  dispose(): void {
    this.zoom.changed.disconnect(this._onZoom, this);
  }

  private _tell(): void {
    this._showReach();
    const smoothing = Number(this._smoothing.value);
    const [log, time] = [this._log.checked, this._time.checked];
    this.onStyle({ log, smoothing, time });
  }

  private _showReach(): void {
    setText(this._reach, `${number(Number(this._smoothing.value))} %`);
  }

  private _scale(factor: number): void {
    const whole = this.whole();
    if (whole) {
      this.zoom.scale(factor, whole);
    }
  }

  private _onZoom(): void {
    const isAll = this.zoom.range === null;
    this._out.disabled = isAll;
    this._all.disabled = isAll;
  }

  private readonly _log = element('input', { type: 'checkbox' });
  private readonly _time = element('input', { type: 'checkbox' });
  private readonly _smoothing = element('input', {
    type: 'range',
    min: '0',
    max: String(SMOOTHEST),
    step: '0.5',
    value: '0'
  });
  private readonly _reach = element('span', {
    class: 'wb-reach',
    'aria-hidden': 'true'
  });
  private readonly _out: HTMLButtonElement;
  private readonly _all: HTMLButtonElement;
}

function button(
  title: string,
  icon: string,
  act: () => void
): HTMLButtonElement {
  const made = element('button', {
    type: 'button',
    class: 'wb-icon',
    title,
    'aria-label': title
  });
  made.innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${icon}"/></svg>`;
  made.addEventListener('click', act);
  return made;
}
