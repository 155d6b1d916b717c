/**
 * The renderer of a `%%dist_train` cell's output: the live run, and later the saved result.
 */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { PartialJSONObject } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { LiveRun, type IRefusal, type IRunApi } from './live';
import { RUN_TYPE, type ISavedRun } from './protocol';
import * as request from './request';
import { retryDelay } from './run/backoff';
import type { Render } from './run/displayed';
import { element } from './run/dom';
import type { IStyle } from './run/layout';
import type { Aspect, RunModel } from './run/model';
import { RunView } from './run/view';

/** The longest wait between two attempts to keep a result. */
const KEEPING_DELAY = 30_000;
/** As long a kernel that shows the run itself has to say how it ended. */
const KERNEL_DELAY = 4_000;

export interface IRendererOptions {
  api?: IRunApi;
  /** How curves are drawn by default. */
  style?: () => IStyle;
  /** Emitted when `style` may have changed. */
  styleChanged?: ISignal<unknown, unknown>;
  /** A run is active, and its output has only its id. */
  onLive?: (run: string, widget: Widget) => void;
  /** Shows what ranks display, where it has to be sanitized. */
  render?: Render;
  /** Whether this page has asked for the cell, so that the kernel's outputs get into it. */
  isFed?: (widget: Widget) => boolean;
  /** A run's result was put into the notebook, which has what rank 0 left in the cell. */
  onWhole?: (run: string, widget: Widget) => void;
  /** A run's result was put into the notebook, which is not saved yet. */
  onKept?: (run: string, widget: Widget) => void;
  create?: (url: string) => WebSocket;
}

export class RunRenderer extends Widget implements IRenderMime.IRenderer {
  constructor(
    private readonly options: IRendererOptions,
    private readonly sanitizer: IRenderMime.ISanitizer
  ) {
    super();
    this.addClass('wb-RunRenderer');
    this.addClass('mathjax_ignore'); // where a page typesets whole outputs
    this.addClass('tex2jax_ignore');
    options.styleChanged?.connect(this._onStyle, this);
  }

  /** The run's id; empty before the first rendering. */
  get run(): string {
    return this._live?.id ?? '';
  }

  /** Show the run that `model` is about; what is shown of the same run already stays. */
  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const data = runOf(model);
    if (this.isDisposed || !data) {
      return;
    }
    this._model = model;
    if (data.run !== this._live?.id) {
      this._begin(data);
    }
    this._view!.setRaised(!!data.raised);
    if (data.saved && this._wasLive) {
      this._tellKept(); // the kernel may have been quicker than we are
    }
    if (this._picture && !data.saved && this._isFollowed) {
      this._showKept(); // where no page can follow a run, the kernel draws it
    }
    const { connection } = this._live!.model;
    const isAway = connection !== 'live' && connection !== 'ended';
    if (data.saved && isAway && connection !== 'saved') {
      this._showSaved(data);
    } else if (!data.saved && !this._isFollowed) {
      this._followIfTrusted();
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      clearTimeout(this._retry);
      this.options.styleChanged?.disconnect(this._onStyle, this);
      this._view?.dispose();
      this._live?.dispose();
      this._view = this._live = this._model = null;
      super.dispose();
    }
  }

  private _begin({ run, name }: ISavedRun): void {
    this._view?.dispose();
    this._live?.dispose();
    this._hideKept();
    this._isFollowed = this._wasLive = this._wasKept = false;
    this._isOutdated = false;
    clearTimeout(this._retry);
    const { style, create, render, api = request } = this.options;
    this._live = new LiveRun(run, api, create, true);
    const { model, actions } = this._live;
    this._view = new RunView({
      ...{ model, actions, name, render },
      style: style?.(),
      isBeside: () => this._isBeside
    });
    this.node.append(this._view.node);
    model.changed.connect(this._onChange, this);
  }

  /** Whether the output and displays of rank 0 are separate outputs of the cell. */
  private get _isBeside(): boolean {
    const data = this._model && runOf(this._model);
    const { isFed } = this.options;
    return !!data?.streamed && (!!data.saved || !!isFed?.(this));
  }

  /** Show what the notebook holds; where it cannot be read, the run itself. */
  private _showSaved({ saved }: ISavedRun): void {
    try {
      this._live!.stop();
      this._live!.model.load(saved!, this._model!.data['image/png']);
      this._hideKept(); // these curves are the same, and more
    } catch (error) {
      console.warn('workbench: what was saved cannot be read', error);
      this._followIfTrusted();
    }
  }

  /** Follow the run; one that another person's notebook names, when it is asked for. */
  private _followIfTrusted(): void {
    if (this._model!.trusted) {
      this._follow();
      return;
    }
    this._showKept();
    this._view!.node.hidden = true;
    const label = 'Follow this run';
    const button = element('button', { class: 'wb-follow', text: label });
    button.addEventListener('click', () => this._follow());
    this._picture!.append(button);
  }

  private _follow(): void {
    this._hideKept();
    this._view!.node.hidden = false;
    this._isFollowed = true;
    this._live!.start();
  }

  private _onChange(model: RunModel, aspect: Aspect): void {
    const { run, connection } = model;
    if (aspect === 'run' && run && !run.is_ended && !this._wasLive) {
      this._wasLive = true;
      this.options.onLive?.(model.id, this);
    }
    if (
      aspect === 'run' &&
      run &&
      !run.is_ended &&
      runOf(this._model!)?.saved
    ) {
      this._isOutdated = true; // the run was resumed, so that what is kept is not its end
      this._wasKept = false;
    }
    if (aspect !== 'connection') {
      return;
    }
    if (
      connection === 'ended' &&
      this._isBeside &&
      this._isToKeep(this._live!)
    ) {
      this._retry = setTimeout(() => void this._keep(0), KERNEL_DELAY);
    } else if (connection === 'ended') {
      void this._keep(0);
    }
    if (connection === 'unknown' || connection === 'no-server') {
      this._showKept();
    }
  }

  /** Show what the notebook holds: its picture, or beside the saved curves what ranks wrote. */
  private _showKept(): void {
    const kept = this._live!.model.curves.size
      ? this._outputOf(this._model!)
      : this._pictureOf(this._model!);
    this._hideKept();
    this._picture = kept;
    this.node.append(kept);
  }

  private _hideKept(): void {
    this._picture?.remove();
    this._picture = null;
  }

  /** Have the notebook keep the result, unless it does so already. */
  private async _keep(failures: number): Promise<void> {
    const live = this._live;
    if (!live || !this._isToKeep(live)) {
      return;
    }
    const { api = request } = this.options;
    try {
      const data = (await api.getBundle(live.id)) as PartialJSONObject;
      if (this._isToKeep(live)) {
        const isBeside = this._isBeside;
        this._isOutdated = false;
        this._model!.setData({ data });
        if (!isBeside) {
          this.options.onWhole?.(live.id, this);
        }
        this._tellKept();
      }
    } catch (error) {
      const { status, isOurs } = error as Partial<IRefusal>;
      if (this._live === live && !(status === 404 && isOurs)) {
        const delay = retryDelay(failures, KEEPING_DELAY);
        this._retry = setTimeout(() => void this._keep(failures + 1), delay);
      }
    }
  }

  /** Say so once, when the notebook knows of the change as well. */
  private _tellKept(): void {
    if (!this._wasKept) {
      this._wasKept = true;
      const { run } = this;
      setTimeout(() => this.options.onKept?.(run, this));
    }
  }

  private _isToKeep(live: LiveRun): boolean {
    const isHere = this._live === live && !!this._model;
    return isHere && (this._isOutdated || !runOf(this._model!)?.saved);
  }

  /** What can be shown of the output without its run. */
  private _pictureOf({ data }: IRenderMime.IMimeModel): HTMLElement {
    const node = element('div', { class: 'wb-kept' });
    const text = textOf(data['text/plain']);
    const png = textOf(data['image/png']).trim();
    const html = textOf(data['text/html']);
    if (png) {
      const src = `data:image/png;base64,${png}`;
      node.append(element('img', { src, alt: text }));
    } else if (html) {
      node.innerHTML = this.sanitizer.sanitize(html);
    } else {
      node.append(element('pre', { text }));
    }
    return node;
  }

  /** The output of ranks, from the saved result. */
  private _outputOf({ data }: IRenderMime.IMimeModel): HTMLElement {
    const whole = element('div');
    whole.innerHTML = this.sanitizer.sanitize(textOf(data['text/html']));
    const node = element('div', { class: 'wb-kept' });
    node.append(...whole.querySelectorAll('details'));
    return node;
  }

  private _onStyle(): void {
    const { style } = this.options;
    if (style) {
      this._view?.setStyle(style());
    }
  }

  private _model: IRenderMime.IMimeModel | null = null;
  private _live: LiveRun | null = null;
  private _view: RunView | null = null;
  private _picture: HTMLElement | null = null;
  private _retry: ReturnType<typeof setTimeout> | undefined;
  private _isFollowed = false;
  private _wasLive = false;
  private _wasKept = false;
  private _isOutdated = false;
}

/** Makes renderers of runs, also in notebooks that are not trusted. */
export function createRendererFactory(
  options: IRendererOptions
): IRenderMime.IRendererFactory {
  return {
    safe: true,
    mimeTypes: [RUN_TYPE],
    createRenderer: ({ sanitizer }) => new RunRenderer(options, sanitizer)
  };
}

function runOf(model: IRenderMime.IMimeModel): ISavedRun | null {
  const data = model.data[RUN_TYPE] as unknown as ISavedRun | undefined;
  return typeof data?.run === 'string' ? data : null;
}

/** A text of a MIME bundle, which may be in lines. */
function textOf(value: unknown): string {
  return Array.isArray(value) ? value.join('') : String(value ?? '');
}
