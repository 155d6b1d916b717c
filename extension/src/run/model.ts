/**
 * The model of one run on a page, from any source.
 */
import { Signal, type ISignal } from '@lumino/signaling';

import {
  decodeFrame,
  type IFrame,
  type IRun,
  type ISavedRun,
  type ISeriesUpdate,
  type ISteps,
  type ISurvey,
  type ServerMessage
} from '../protocol';
import { Output } from './output';
import { Series } from './series';

/** How a page knows what it knows; `saved`: out of the notebook itself. */
export type Connection =
  'connecting' | 'live' | 'lost' | 'saved' | 'unknown' | 'no-server' | 'ended';

/** What may be new. */
export type Aspect =
  'run' | 'curves' | 'steps' | 'survey' | 'output' | 'connection';

// An answer that overtook another is older by less; a clock that was set back, by more.
const OVERTAKEN_SECONDS = 10;

/** One run, its curves and its output. */
export class RunModel {
  constructor(readonly id: string) {}

  /** Emitted when something is not what it was. */
  get changed(): ISignal<this, Aspect> {
    return this._changed;
  }

  /** Null while nothing is known. */
  get run(): IRun | null {
    return this._run;
  }

  get curves(): ReadonlyMap<string, Series> {
    return this._curves;
  }

  /** The stretches of a curve that later attempts did again. */
  redone(name: string): Series[] {
    return [...(this._redone.get(name)?.values() ?? [])];
  }

  get steps(): ISteps | null {
    return this._steps;
  }

  /** What it measured, of a measurement that is over. */
  get survey(): ISurvey | null {
    return this._survey;
  }

  get connection(): Connection {
    return this._connection;
  }

  /** What is wrong with the connection, in a sentence; often nothing. */
  get problem(): string {
    return this._problem;
  }

  /** Which feed's versions are meant; empty while nothing came. */
  get feed(): string {
    return this._feed;
  }

  /** The newest version of the curves that was taken in. */
  get version(): number {
    return this._version;
  }

  /** Points that the run has reported, over all names. */
  get points(): number {
    return this._points;
  }

  /** The rank that the others wait for, whose line the curves have; -1 when unknown. */
  get slowest(): number {
    // Of two messages one comes first: until they agree, no rank is called the slowest.
    const isAgreed = !this._steps || this._steps.slowest === this._slowest;
    return isAgreed ? this._slowest : -1;
  }

  readonly output = new Output();

  /** Take in points; those of another feed replace all that were there. */
  applyFrame(frame: IFrame): void {
    if (frame.feed !== this._feed) {
      this._forget();
    }
    this._feed = frame.feed;
    this._version = frame.version;
    this._points = frame.points;
    this._slowest = frame.slowest;
    for (const update of frame.series) {
      this._series(update).apply(update);
    }
    this._changed.emit('curves');
  }

  applyMessage(message: ServerMessage): void {
    switch (message.type) {
      case 'hello':
      case 'run':
        this._takeRun(message.run);
        break;
      case 'steps':
        this.setSteps(message);
        break;
      case 'output':
        this.output.after = message.after;
        this.output.isCut ||= message.skipped > 0;
        for (const piece of message.pieces) {
          this.output.take(piece);
        }
        this._changed.emit('output');
        break;
      case 'end':
        this.setConnection('ended');
    }
  }

  setSteps(steps: ISteps | null): void {
    this._steps = steps;
    this._changed.emit('steps');
  }

  setSurvey(survey: ISurvey): void {
    this._survey = survey;
    this._changed.emit('survey');
  }

  setConnection(connection: Connection, problem = ''): void {
    if (connection !== this._connection || problem !== this._problem) {
      this._connection = connection;
      this._problem = problem;
      this._changed.emit('connection');
    }
  }

  /**
   * Take what was saved with the notebook.
   *
   * @param picture - the PNG beside it, which is that of a measurement
   * @throws when it cannot be read
   */
  load(saved: NonNullable<ISavedRun['saved']>, picture?: unknown): void {
    const bytes = Uint8Array.from(atob(saved.frame), letter =>
      letter.charCodeAt(0)
    );
    const frame = decodeFrame(bytes.buffer);
    if (saved.survey) {
      const own = saved.survey.picture || String(picture ?? '');
      this.setSurvey({ ...saved.survey, picture: own }); // first, so that no request is sent for it
    }
    this._takeRun(saved.run);
    this.setSteps(saved.steps);
    this._forget();
    this.applyFrame(frame);
    this.setConnection('saved');
  }

  dispose(): void {
    Signal.clearData(this);
  }

  /** The curve or the stretch that is meant. */
  private _series({ name, attempt }: ISeriesUpdate): Series {
    const stretches = this._redone.get(name) ?? new Map<number, Series>();
    const found = attempt ? stretches.get(attempt) : this._curves.get(name);
    const series = found ?? new Series(name);
    if (attempt) {
      this._redone.set(name, stretches.set(attempt, series));
    } else {
      this._curves.set(name, series);
    }
    return series;
  }

  private _forget(): void {
    this._curves.clear();
    this._redone.clear();
  }

  private _takeRun(run: IRun): void {
    const late = this._run ? this._run.now - run.now : 0;
    if (late <= 0 || late > OVERTAKEN_SECONDS) {
      this._run = run;
      this._changed.emit('run');
    }
  }

  private readonly _changed = new Signal<this, Aspect>(this);
  private readonly _curves = new Map<string, Series>();
  private readonly _redone = new Map<string, Map<number, Series>>();
  private _run: IRun | null = null;
  private _steps: ISteps | null = null;
  private _survey: ISurvey | null = null;
  private _connection: Connection = 'connecting';
  private _problem = '';
  private _feed = '';
  private _version = 0;
  private _points = 0;
  private _slowest = -1;
}
