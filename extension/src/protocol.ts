/**
 * What the server and a page say to each other: the JSON values, and the binary frames of points.
 *
 * The same frames travel over the WebSocket, in an anywidget's messages, and inside a saved
 * notebook. `workbench/core/frames.py` writes them.
 */

/** The MIME type of a `%%dist_train` cell's output. */
export const RUN_TYPE = 'application/vnd.workbench.run+json';

export type RunState =
  | 'queued'
  | 'submitted'
  | 'running'
  | 'stopping'
  | 'finished'
  | 'failed'
  | 'stopped'
  | 'lost';

export type ClusterState =
  'down' | 'starting' | 'ready' | 'paused' | 'resizing' | 'stopping' | 'failed';

/** Where nodes come from; `local` is this machine alone. */
export type Place = 'local' | 'hosts' | 'ec2' | 'rehearsal';

export type NodeState =
  | 'asked'
  | 'booting'
  | 'verified'
  | 'data ready'
  | 'joined'
  | 'leaving'
  | 'gone';

/** One node, as it was last seen. */
export interface INode {
  id: string;
  /** By which the other nodes reach it, or nothing. */
  address: string;
  type: string;
  zone: string;
  state: NodeState;
  /** Whether it did not come up, or could not be prepared; `message` says why. */
  failed: boolean;
  /** Epoch seconds at which it came into its state. */
  since: number;
  /** Ranks that it carries; 0 while unknown. */
  slots: number;
  /** Dollars an hour now; 0 where it is free. */
  price: number;
  /** Dollars so far. */
  spent: number;
  head: boolean;
  /** One sentence for the reader, or nothing. */
  message: string;
}

/** One way to get nodes that was tried, or is being tried. */
export interface IRung {
  what: string;
  outcome: 'written' | 'bought' | 'refused' | 'lost';
  /** Why it was refused, in a sentence. */
  message: string;
}

/** A run: what was asked for, and what is so. Moments are in epoch seconds, 0 for "not yet". */
export interface IRun {
  id: string;
  name: string;
  kind: 'cell' | 'script' | 'setup' | 'measurement';
  cluster: string;
  state: RunState;
  /** Whether nothing more will come. */
  is_ended: boolean;
  /** Whether somebody asked for it to stop. */
  is_stopping: boolean;
  ranks: number;
  generation: number;
  created: number;
  started: number;
  ended: number;
  /** The server's clock when this was written. */
  now: number;
  iteration: number;
  /** 0 when unknown. */
  iterations_total: number;
  epoch: number;
  epochs_total: number;
  /** From 0 to 1; null when no total is known. */
  fraction: number | null;
  seconds_left: number | null;
  seconds_taken: number;
  /** Iterations a second of late; 0 when unknown. */
  rate: number;
  failed_rank: number;
  failed_host: string;
  /** The failed rank's own traceback. */
  error: string;
  /** One sentence for the reader, or nothing. */
  message: string;
  /** What the run waits for, in a sentence, or nothing. */
  waiting: string;
  parameters: { [name: string]: unknown };
  arguments: string[];
  /** The last value of every name, averaged over the ranks; null where it is not finite. */
  values: { [name: string]: number | null };
}

/** A run of the list, with a small picture of its main curve. */
export interface IListedRun extends IRun {
  /** At most 40 values in the order of iterations; null for a gap. */
  sparkline: (number | null)[];
  /** What `sparkline` shows, such as `main/loss`; empty when nothing was reported. */
  sparkline_name: string;
}

export interface ICluster {
  name: string;
  state: ClusterState;
  /** One sentence for the reader, or nothing. */
  message: string;
  /** Whether it is wanted at all. */
  is_wanted: boolean;
  /** 0 while it is not wanted. */
  ranks_asked: number;
  /** The size that it was last asked to have, wanted or not. */
  ranks_wished: number;
  ranks_actual: number;
  nodes_asked: number;
  /** Nodes that carry ranks. */
  nodes_actual: number;
  /** As many as were asked for last, also while nobody wants the cluster. */
  nodes_defined: number;
  /** Below as many no world goes on. */
  nodes_least: number;
  /** As many as it may grow to while runs wait; 0 when it is not to grow. */
  nodes_most: number;
  oversubscribe: boolean;
  /** Grows with every wish; the later wish stands. */
  revision: number;
  generation: number;
  updated: number;
  /** Where its nodes are; `local` is this machine. */
  where: Place;
  /** Dollars an hour; null when it costs nothing. */
  price: number | null;
  /** Dollars so far; null when it costs nothing. */
  spent: number | null;
  /** Dollars that it may cost in all; null for no bound. */
  budget: number | null;
  /** Epoch seconds at which it ends itself; null for never. */
  expires: number | null;
  /** How many nodes are in which state, `failed` among them; nothing for this machine. */
  node_states: { [state: string]: number };
  /** At most 64 nodes that are not gone, the head first; nothing for this machine. */
  nodes: INode[];
  /** What was tried to get the nodes that are missing, in order; nothing once all are there. */
  rungs: IRung[];
  ranks: { rank: number; host: string; pid: number }[];
  /** Runs that have not ended, oldest first. */
  runs: IRun[];
  /** Which run measured its links last, and when; null if none did. */
  measured: { run: string; time: number } | null;
}

/** What a measurement found; in bytes, seconds and bytes a second. */
export interface ISurvey {
  /** Epoch seconds. */
  time: number;
  /** That it took. */
  seconds: number;
  ranks: number;
  /** Names in the order of their ranks. */
  nodes: string[];
  /** From each node (row) to each (column); null where it was not measured. */
  links: (number | null)[][];
  /** One way, from a node to another, by their places in `nodes`. */
  latencies: [from: number, to: number, seconds: number][];
  /** The link that all wait for, by its ends; null where there is none. */
  slowest: [from: number, to: number] | null;
  /** What a node's network is rated at; 0 when unknown. */
  rating: number;
  exchanges: IExchange[];
  /** Within nodes. */
  rates: { node: string; what: string; bandwidth: number; latency: number }[];
  /** What stands out and what has changed, a sentence each. */
  remarks: string[];
}

/** An allreduce of one size. */
export interface IExchange {
  nbytes: number;
  seconds: number;
  /** Whose algorithms they are: ours, or the MPI library's own. */
  way: string;
  /** Which of them, or nothing. */
  algorithm: string;
  algbw: number;
  busbw: number;
}

/** What GET clusters answers. */
export interface IClusters {
  clusters: ICluster[];
  /** Ranks that this machine carries without oversubscription. */
  slots: number;
  /** The greatest number of ranks that may be asked for. */
  max_ranks: number;
  version: string;
}

/** What PUT turns/{id} answers to a page that is to save a notebook. */
export interface ITurn {
  /** Whether it may do so now, for half a minute or until DELETE; else it asks again. */
  granted: boolean;
}

/** A part of a step; communication is waiting and moving where these were not told apart. */
export type StepPart =
  'compute' | 'communication' | 'waiting' | 'moving' | 'data' | 'other';

/** Where the time of a step goes on each rank, in seconds a step. */
export interface ISteps {
  /** The rank that the others wait for; -1 when unknown. */
  slowest: number;
  /** The names of the parts; what was kept before they were told has the first four. */
  parts?: StepPart[];
  /** At most 32 ranks, in rank order, each with its parts; the slowest is among them. */
  ranks: [rank: number, ...parts: number[]][];
  /** How many ranks measured it. */
  total: number;
  /** The verdict, and what else there is to say of it, a sentence each. */
  says?: string[];
}

export type ServerMessage =
  | { type: 'hello'; feed: string; run: IRun }
  | { type: 'run'; run: IRun }
  | ({ type: 'steps' } & ISteps)
  | {
      type: 'output';
      /** Sequence number up to which output was sent or skipped. */
      after: number;
      /** Pieces that were left out because there were too many. */
      skipped: number;
      pieces: [rank: number, stream: 'stdout' | 'stderr', text: string][];
    }
  /** All was told. The server closes, or waits for the page if it came with `stay=1`. */
  | { type: 'end' };

export type PageMessage =
  /** The page has taken in the points up to `version`; only then more are sent. */
  | { type: 'ack'; version: number }
  /** Send output after this sequence number, once the one before is taken in; null for no more. */
  | { type: 'output'; after: number | null };

/** Close codes of the WebSocket. */
export const UNKNOWN_RUN = 4404;
export const STORE_TROUBLE = 4503;

/** What is kept in the notebook under RUN_TYPE. */
export interface ISavedRun {
  run: string;
  name: string;
  /** Only once the run has ended. */
  saved?: {
    run: IRun;
    steps: ISteps | null;
    /** A frame of points in base64. */
    frame: string;
    /** What it measured, of a measurement. */
    survey?: ISurvey;
  };
}

/** Some buckets of one curve. Each stands for `width` iterations of all ranks. */
export interface ISeriesUpdate {
  name: string;
  /** Whether what the page had of this curve is to be forgotten first. */
  reset: boolean;
  width: number;
  ranks: number;
  /** How many values were not finite so far, and the first such iteration (-1 for none). */
  nonfinite: number;
  nonfinite_first: number;
  /** Iteration in the middle of each bucket. */
  x: Float64Array;
  /** iteration // width: buckets with the same index replace one another. */
  index: Int32Array;
  low: Float32Array;
  median: Float32Array;
  high: Float32Array;
  mean: Float32Array;
  /** The slowest rank's mean; NaN where it reported nothing. */
  slowest: Float32Array;
}

export interface IFrame {
  feed: string;
  version: number;
  /** Points that the run has reported so far, over all names. */
  points: number;
  slowest: number;
  series: ISeriesUpdate[];
}

/**
 * Read a frame: the length of the header (uint32, little-endian), the header in JSON, padded so
 * that the columns begin at a multiple of 8, and the columns of each series.
 *
 * @throws RangeError when the frame is cut short.
 */
export function decodeFrame(buffer: ArrayBuffer): IFrame {
  const length = new DataView(buffer).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
  const header = JSON.parse(text);
  let offset = 4 + length;
  const column = <T>(
    kind: { new (buffer: ArrayBuffer, offset: number, count: number): T },
    bytes: number,
    count: number
  ): T => {
    const values = new kind(buffer, offset, count);
    offset += bytes * count;
    return values;
  };
  const series = header.series.map(
    (one: ISeriesUpdate & { count: number }) => ({
      name: one.name,
      reset: one.reset,
      width: one.width,
      ranks: one.ranks,
      nonfinite: one.nonfinite,
      nonfinite_first: one.nonfinite_first,
      x: column(Float64Array, 8, one.count),
      index: column(Int32Array, 4, one.count),
      low: column(Float32Array, 4, one.count),
      median: column(Float32Array, 4, one.count),
      high: column(Float32Array, 4, one.count),
      mean: column(Float32Array, 4, one.count),
      slowest: column(Float32Array, 4, one.count)
    })
  );
  return {
    feed: header.feed,
    version: header.version,
    points: header.points,
    slowest: header.slowest,
    series
  };
}
