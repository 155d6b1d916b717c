/**
 * Follow one run over a WebSocket that reconnects after every cut and resumes.
 *
 * A frame is acknowledged once it is taken in and the page is visible, so a hidden page costs the
 * server only the run's state. When the run has ended, all is acknowledged at once,
 * since only then the server says that this was all.
 */
import {
  decodeFrame,
  STORE_TROUBLE,
  UNKNOWN_RUN,
  type PageMessage,
  type ServerMessage
} from '../protocol';
import { retryDelay } from './backoff';
import type { RunModel } from './model';

/** Milliseconds without a word after which a connection counts as dead. */
const SILENCE = 30_000;
/** The same for a page that was asleep: the server says something every 5 s. */
const SILENCE_AFTER_SLEEP = 12_000;
const OPENING = 15_000;
const LOOK_EVERY = 5_000;

export interface IRunSocketOptions {
  model: RunModel;
  /** Where to follow the run from what is known already. */
  url: (feed: string, version: number) => string;
  create?: (url: string) => WebSocket;
}

export class RunSocket {
  constructor(private readonly options: IRunSocketOptions) {
    document.addEventListener('visibilitychange', this._onWake);
    window.addEventListener('online', this._onOnline);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Begin to follow, or follow again after the end. */
  start(): void {
    if (!this._socket && !this._isDisposed) {
      this._isOver = false;
      clearInterval(this._watch);
      this._watch = setInterval(() => this._look(SILENCE), LOOK_EVERY);
      this._open();
    }
  }

  /** Follow again after the end, since the run was resumed. */
  restart(): void {
    if (this._isOver) {
      this._drop(); // nothing comes any longer over a connection that is kept after the end
      this.start();
    }
  }

  /** Stop following, unless output is requested. */
  stop(): void {
    this._isOver = true;
    clearInterval(this._watch);
    clearTimeout(this._retry);
    this._drop();
  }

  /** Have what ranks write sent from now on, or no more. */
  followOutput(follows: boolean): void {
    if (follows === this._followsOutput) {
      return;
    }
    this._followsOutput = follows;
    this._owesOutput = false;
    if (this._isOver) {
      if (follows) {
        this.restart();
      }
    } else if (this._isOpen) {
      this._send({
        type: 'output',
        after: follows ? this.options.model.output.after : null
      });
    }
  }

  dispose(): void {
    this._isDisposed = true;
    document.removeEventListener('visibilitychange', this._onWake);
    window.removeEventListener('online', this._onOnline);
    this.stop();
  }

  private get _isOpen(): boolean {
    return this._socket?.readyState === 1;
  }

  private _open(): void {
    clearTimeout(this._retry);
    this._drop();
    const { model, url } = this.options;
    const create = this.options.create ?? (where => new WebSocket(where));
    const socket = create(url(model.feed, model.version));
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => this._onOpen();
    socket.onmessage = event => this._onMessage(event.data);
    socket.onclose = event => this._onClose(event.code, event.reason);
    this._socket = socket;
    this._heard = Date.now();
    this._owed = null;
    this._owesOutput = false;
  }

  private _onOpen(): void {
    if (this._followsOutput) {
      this._send({ type: 'output', after: this.options.model.output.after });
    }
  }

  private _onMessage(data: string | ArrayBuffer): void {
    const { model } = this.options;
    this._heard = Date.now();
    if (typeof data !== 'string') {
      const frame = decodeFrame(data);
      model.applyFrame(frame);
      this._owed = frame.version;
    } else {
      const message = JSON.parse(data) as ServerMessage;
      if (message.type === 'hello') {
        this._failures = 0;
        model.setConnection('live');
      }
      this._isOver = message.type === 'end';
      this._owesOutput ||= message.type === 'output' && this._followsOutput;
      model.applyMessage(message);
    }
    this._settle();
  }

  /** Acknowledge received points, unless the page is hidden. */
  private _settle(): void {
    const { model } = this.options;
    if (document.hidden && !model.run?.is_ended) {
      return;
    }
    if (this._owed !== null) {
      this._send({ type: 'ack', version: this._owed });
      this._owed = null;
    }
    if (this._owesOutput) {
      this._owesOutput = false;
      this._send({ type: 'output', after: model.output.after });
    }
  }

  private _onClose(code: number, reason: string): void {
    const { model } = this.options;
    this._socket = null;
    if (this._isOver) {
      this.stop();
      return;
    }
    if (code === UNKNOWN_RUN) {
      this.stop();
      model.setConnection('unknown', reason);
      return;
    }
    model.setConnection('lost', code === STORE_TROUBLE ? reason : '');
    this._retry = setTimeout(() => this._open(), retryDelay(this._failures++));
  }

  private _send(message: PageMessage): void {
    if (this._isOpen) {
      this._socket?.send(JSON.stringify(message));
    }
  }

  /** Forget the connection without a word to the model. */
  private _drop(): void {
    if (this._socket) {
      const socket = this._socket;
      this._socket = null;
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  /** The page may have slept. */
  private readonly _onWake = (): void => {
    if (!document.hidden) {
      this._onOnline();
      this._settle();
    }
  };

  private readonly _onOnline = (): void => {
    if (this._isOver) {
      return;
    }
    if (this._socket) {
      this._look(SILENCE_AFTER_SLEEP);
    } else {
      this._open();
    }
  };

  /** Open the connection again when it is dead. */
  private _look(patience: number): void {
    if (!this._socket) {
      return;
    }
    const { model } = this.options;
    const silence = Date.now() - this._heard;
    const isSpeaking = model.run?.state === 'running';
    const isDead = this._isOpen
      ? isSpeaking && silence > patience
      : silence > OPENING;
    if (isDead) {
      model.setConnection('lost');
      this._open();
    }
  }

  private _watch: ReturnType<typeof setInterval> | undefined;
  private _retry: ReturnType<typeof setTimeout> | undefined;
  private _socket: WebSocket | null = null;
  private _heard = 0;
  private _failures = 0;
  private _owed: number | null = null;
  private _owesOutput = false;
  private _followsOutput = false;
  /** Whether nothing more is to come. */
  private _isOver = true;
  private _isDisposed = false;
}
