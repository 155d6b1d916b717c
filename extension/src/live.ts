/**
 * Follow a run on this Jupyter server: find out whether it is there, then keep a connection.
 */
import type { Bundle } from './request';
import type { IFrame, IRun, ISurvey } from './protocol';
import { retryDelay } from './run/backoff';
import { RunModel, type Aspect } from './run/model';
import { RunSocket } from './run/socket';
import type { IRunActions } from './run/view';

/** What of `request.ts` is needed of one run. */
export interface IRunApi {
  getRun(id: string): Promise<IRun>;
  stopRun(id: string): Promise<IRun>;
  resumeRun(id: string): Promise<IRun>;
  getBundle(id: string): Promise<Bundle>;
  getSurvey(id: string): Promise<ISurvey>;
  getCurves(
    id: string,
    range: { first: number; last: number; buckets: number }
  ): Promise<IFrame>;
  followUrl(
    id: string,
    known: { feed: string; version: number; stay?: number }
  ): string;
}

/** How a request failed, as `RequestError` says it. */
export interface IRefusal {
  status: number;
  message: string;
  isOurs: boolean;
}

/** Of a part that is zoomed in to: about as many as a screen shows. */
const BUCKETS = 1_000;

const RUN_ID = /^\w[\w.-]*$/;

export class LiveRun {
  /**
   * @param stays - whether the run's notebook is open here: until the page leaves it, or for some
   *   minutes after the run's end, no kernel is to write into its file
   */
  constructor(
    readonly id: string,
    private readonly api: IRunApi,
    create?: (url: string) => WebSocket,
    stays = false
  ) {
    const stay = stays ? { stay: 1 } : {};
    this.model = new RunModel(id);
    this._socket = new RunSocket({
      model: this.model,
      url: (feed, version) => api.followUrl(id, { feed, version, ...stay }),
      create
    });
    this.model.changed.connect(this._onChange, this);
  }

  readonly model: RunModel;

  /** What a view of the run can have done. */
  readonly actions: IRunActions = {
    stop: async () => {
      const run = await this.api.stopRun(this.id);
      this.model.applyMessage({ type: 'run', run });
    },
    resume: async () => {
      const run = await this.api.resumeRun(this.id);
      this.model.applyMessage({ type: 'run', run });
      this._socket.restart();
    },
    curves: (first, last) =>
      this.api.getCurves(this.id, { first, last, buckets: BUCKETS }),
    output: follows => this._socket.followOutput(follows)
  };

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Begin to follow the run. */
  start(): void {
    if (RUN_ID.test(this.id)) {
      this._isStopped = false;
      void this._open();
    } else {
      this.model.setConnection('unknown');
    }
  }

  /** Stop following it, unless its output is requested. */
  stop(): void {
    this._isStopped = true;
    clearTimeout(this._retry);
    this._socket.stop();
  }

  dispose(): void {
    this.stop();
    this._isDisposed = true;
    clearTimeout(this._surveying);
    this._socket.dispose();
    this.model.dispose();
  }

  /** What a measurement found is there once it has ended. */
  private _onChange({ run, survey }: RunModel, aspect: Aspect): void {
    const isDone =
      run?.kind === 'measurement' && run.state === 'finished' && !survey;
    if (aspect === 'run' && isDone && !this._isSurveyed) {
      this._isSurveyed = true;
      void this._survey();
    }
  }

  private async _survey(): Promise<void> {
    try {
      this.model.setSurvey(await this.api.getSurvey(this.id));
    } catch (error) {
      const { status, isOurs } = error as Partial<IRefusal>;
      if (!this._isDisposed && !(status === 404 && isOurs)) {
        const delay = retryDelay(this._failures++);
        this._surveying = setTimeout(() => void this._survey(), delay);
      }
    }
  }

  private async _open(): Promise<void> {
    try {
      const run = await this.api.getRun(this.id);
      if (!this._isStopped) {
        this.model.applyMessage({ type: 'run', run });
        this._socket.start();
      }
    } catch (error) {
      if (!this._isStopped) {
        this._despair(error as Partial<IRefusal>);
      }
    }
  }

  private _despair({ status, message, isOurs }: Partial<IRefusal>): void {
    if (status === 404) {
      this.model.setConnection(isOurs ? 'unknown' : 'no-server');
      return;
    }
    this.model.setConnection('lost', isOurs ? message : '');
    const delay = retryDelay(this._failures++);
    this._retry = setTimeout(() => void this._open(), delay);
  }

  private readonly _socket: RunSocket;
  private _retry: ReturnType<typeof setTimeout> | undefined;
  private _surveying: ReturnType<typeof setTimeout> | undefined;
  private _isSurveyed = false;
  private _failures = 0;
  private _isStopped = false;
  private _isDisposed = false;
}
