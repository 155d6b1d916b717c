/**
 * The view of one run: state, curves, step breakdown, and output.
 */
import { Announcer, viewsInSight } from './announcer';
import { RunCharts } from './charts';
import type { Render } from './displayed';
import { element, setText } from './dom';
import { FailureList } from './failures';
import { HangLine } from './hang';
import { RunHead } from './head';
import { keepKeys } from './keys';
import { SMOOTHING, type IStyle } from './layout';
import type { Aspect, RunModel } from './model';
import { Pacer } from './pacer';
import { connectionRemark, stateWord } from './phrases';
import { StepTable } from './steps';
import { SurveyView } from './survey';
import { readTheme, watchTheme } from './theme';
import { Toolbar } from './toolbar';
import { Transcript } from './transcript';
import { Zoom, type Finer } from './zoom';

/** What a view can have done; what is missing, it does not offer. */
export interface IRunActions {
  /** Ask the run to stop; what is returned is shown. */
  stop?: () => Promise<string | void>;
  /** Ask a run that has ended to continue from its newest snapshot. */
  resume?: () => Promise<void>;
  /** Fetch the curves between two iterations in finer buckets. */
  curves?: Finer;
  /** Have output come into the model from now on, or no more. */
  output?: (follows: boolean) => void;
}

export interface IRunViewOptions {
  model: RunModel;
  actions: IRunActions;
  /** The run's name, while nothing else is known of it. */
  name?: string;
  /** How curves are drawn unless set for this run. */
  style?: IStyle;
  /** Shows what ranks display, where it has to be sanitized. */
  render?: Render;
  /** Whether rank 0's displays are beside this view, so that it need not be opened. */
  isBeside?: () => boolean;
}

/** The settings of single runs, as long as the page is open. */
const chosen = new Map<string, IStyle>();

export class RunView {
  constructor(private readonly options: IRunViewOptions) {
    const { model, actions, name = '' } = options;
    this._head = new RunHead(name, actions);
    this._hang = new HangLine();
    this._failures = new FailureList();
    this._zoom = new Zoom(actions.curves ? this._finer : null);
    this._charts = new RunCharts(model, this._zoom, this._style);
    this._toolbar = new Toolbar(
      this._zoom,
      () => this._charts.whole,
      style => this._choose(style)
    );
    this._toolbar.set(this._style);
    this._steps = new StepTable();
    this._survey = new SurveyView();
    const text = 'Curves appear with the first report.';
    this._empty = element('p', { class: 'wb-note', text });
    this._transcript = actions.output
      ? new Transcript(model, actions.output, options.render)
      : null;
    this.node.append(
      this._head.node,
      this._hang.node,
      this._failures.node,
      this._remark,
      this._toolbar.node,
      this._charts.node,
      this._empty,
      this._steps.node,
      this._survey.node,
      ...(this._transcript ? [this._transcript.node] : []),
      this._announcer.node
    );
    this.node.dataset.run = model.id;
    // Not before the node is in the page has it the page's colours.
    this._theming = new Pacer(this.node, () => this._retheme());
    this._theming.request();
    this._endings = [
      keepKeys(this.node),
      watchTheme(() => this._theming.request())
    ];
    this._showAll();
    model.changed.connect(this._onChange, this);
  }

  /** Its `data-run`, `data-points` and `data-state` tell what it shows to those who look from outside. */
  readonly node = element('div', { class: 'wb-run', role: 'group' });

  /** How curves are drawn by default. */
  setStyle(style: IStyle): void {
    this.options.style = style;
    this._toolbar.set(this._style);
    this._charts.setStyle(this._style);
  }

  /** Leave the failed rank's traceback to the cell's own error, or show it. */
  setRaised(isRaised: boolean): void {
    this._head.setRaised(isRaised);
  }

  dispose(): void {
    this.options.model.changed.disconnect(this._onChange, this);
    this._endings.forEach(end => end());
    this._theming.dispose();
    this._announcer.dispose();
    this._toolbar.dispose();
    this._charts.dispose();
    this._transcript?.dispose();
    this._zoom.dispose();
    this.node.remove();
  }

  private get _style(): IStyle {
    const { model, style } = this.options;
    return (
      chosen.get(model.id) ?? style ?? { log: false, smoothing: SMOOTHING }
    );
  }

  private _choose(style: IStyle): void {
    chosen.set(this.options.model.id, style);
    this._charts.setStyle(style);
  }

  /** What is finer than what is there already; it is asked for only then. */
  private readonly _finer: Finer = async (first, last) => {
    const { model, actions } = this.options;
    const isThinned = [...model.curves.values()].some(one => one.width > 1);
    const found = isThinned ? await actions.curves?.(first, last) : null;
    return found ?? null;
  };

  private _onChange(_: RunModel, aspect: Aspect): void {
    switch (aspect) {
      case 'run':
        this._showRun();
        break;
      case 'curves':
        this._showPoints();
        this._charts.update();
        this._zoom.grow(this._charts.whole?.[1] ?? 0);
        this._showEmptiness();
        break;
      case 'steps':
        this._steps.show(this.options.model.steps);
        this._showEmptiness();
        this._charts.updateWords(); // which mark the rank that is marked there
        break;
      case 'survey':
        this._survey.show(this.options.model.survey);
        this._showEmptiness();
        break;
      case 'output':
        this._transcript?.update();
        break;
      case 'connection':
        this._showConnection();
        this._showEmptiness();
        this._transcript?.update();
    }
  }

  private _showAll(): void {
    const { model } = this.options;
    this._showPoints();
    this._showRun();
    this._showConnection();
    this._showEmptiness();
    this._steps.show(model.steps);
    this._survey.show(model.survey);
  }

  /** The number of received points, for tests and benchmarks. */
  private _showPoints(): void {
    this.node.dataset.points = String(this.options.model.points);
  }

  private _showRun(): void {
    const { name = '' } = this.options;
    const { run } = this.options.model;
    this.node.setAttribute('aria-label', `Run ${run?.name ?? name}`);
    if (!run) {
      return;
    }
    this._head.show(run);
    this._failures.show(run);
    const hang = this._hang.show(run);
    if (hang) {
      this._announce(hang);
    }
    this.node.dataset.state = run.state;
    if (run.displays && !this.options.isBeside?.()) {
      this._transcript?.open(0);
    }
    this._charts.updateWords(); // and the last values, as they are stored
    const word = stateWord(run);
    if (this._word && word !== this._word) {
      this._announce(`Run ${run.name}: ${word}`);
    }
    this._word = word;
    this._showEmptiness();
  }

  private _announce(sentence: string): void {
    const [first = this.node] = viewsInSight(this.options.model.id);
    if (first === this.node) {
      this._announcer.say(sentence);
    }
  }

  private _showConnection(): void {
    const { model } = this.options;
    const { connection, problem } = model;
    const remark = connectionRemark(connection, problem);
    if (remark && this._remark.hidden) {
      this._announce(remark);
    }
    setText(this._remark, remark);
    this._remark.hidden = !remark;
  }

  /** Leave out what there is no reason to show: a cell that only prints has its output. */
  private _showEmptiness(): void {
    const { model, isBeside } = this.options;
    const { run, connection } = model;
    const isEmpty = !this._charts.size;
    const isKnown = connection !== 'unknown' && connection !== 'no-server';
    // Of a run that is over, the curves may still be on their way.
    const isAll = connection === 'ended' || connection === 'saved';
    const isPlain = isEmpty && isAll && isUneventful(model);
    this.node.classList.toggle('wb-plain', isPlain);
    this._charts.node.hidden = isEmpty;
    this._toolbar.node.hidden = isEmpty;
    this._empty.hidden =
      !isEmpty ||
      !isKnown ||
      !run ||
      run.is_ended ||
      run.kind === 'measurement';
    if (this._transcript) {
      const isSaid = !!isBeside?.() && run?.ranks === 1;
      this._transcript.node.hidden = !isKnown || isSaid;
      if (isPlain && connection === 'ended' && !isBeside?.()) {
        this._transcript.open();
      }
    }
  }

  private _retheme(): void {
    const { isDark, isHighContrast } = readTheme(this.node);
    this.node.classList.toggle('wb-dark', isDark);
    this.node.classList.toggle('wb-highcontrast', isHighContrast);
    this._charts.refreshTheme();
  }

  private readonly _head: RunHead;
  private readonly _hang: HangLine;
  private readonly _failures: FailureList;
  private readonly _zoom: Zoom;
  private readonly _charts: RunCharts;
  private readonly _toolbar: Toolbar;
  private readonly _steps: StepTable;
  private readonly _survey: SurveyView;
  private readonly _theming: Pacer;
  private readonly _transcript: Transcript | null;
  private readonly _announcer = new Announcer();
  private readonly _remark = element('p', { class: 'wb-remark', hidden: true });
  private readonly _empty: HTMLElement;
  private readonly _endings: (() => void)[];
  private _word = '';
}

/** Whether there is nothing to be said of a run beside what its ranks wrote. */
function isUneventful({ run, steps, survey }: RunModel): boolean {
  return (
    run?.state === 'finished' &&
    run.kind !== 'measurement' &&
    !steps?.ranks.length &&
    !survey
  );
}
