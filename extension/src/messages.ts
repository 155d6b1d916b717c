/**
 * The messages between page and server: written by `extension/messages.py` from
 * `workbench/pages/protocol.py` and `requests.py`, and not to be changed here.
 */

/** The state of a node, in the order in which a node goes through them. */
export type NodeState =
  | 'asked'
  | 'booting'
  | 'verified'
  | 'data ready'
  | 'joined'
  | 'leaving'
  | 'gone';

/** The outcome of a purchase. */
export type PurchaseOutcome = 'written' | 'bought' | 'refused' | 'lost';

/** What a run executes on every rank. */
export type RunKind = 'cell' | 'script' | 'setup' | 'measurement' | 'replay';

/** The state of a run. */
export type RunState =
  | 'queued'
  | 'submitted'
  | 'running'
  | 'stopping'
  | 'finished'
  | 'failed'
  | 'stopped'
  | 'lost';

/** The state of a cluster. */
export type ClusterState =
  'down' | 'starting' | 'ready' | 'paused' | 'resizing' | 'stopping' | 'failed';

/** How a field is entered. */
export type FieldKind =
  | 'whole number'
  | 'number'
  | 'text'
  | 'words, separated by commas'
  | 'several lines'
  | 'yes or no';

/** A part of a step; communication is waiting and moving, if not separate. */
export type StepPart =
  | 'compute'
  | 'communication'
  | 'waiting'
  | 'moving'
  | 'point-to-point'
  | 'data'
  | 'other';

/** What kind of quantity is measured; a share is between 0 and 1, or in percent. */
export type Family = 'loss' | 'share' | 'other';

/** A rank, and what it wrote; or displays at a new place or at an earlier one, with a text for it; or that it took away all of that. */
export type Piece =
  | [number, 'stdout' | 'stderr', string]
  | [number, 'display' | 'update', string, IDisplayed]
  | [number, 'clear', string];

/** A message over the WebSocket of a page that follows a run. */
export type ServerMessage = IHello | IRunNews | ISteps | IOutput | IEnd;

/** A message of such a page. */
export type PageMessage = IAck | IOutputRequest;

/** The MIME type of a run in a cell's output. */
export const RUN_TYPE = 'application/vnd.workbench.run+json';

/** The WebSocket's close code if the run is not known. */
export const UNKNOWN_RUN = 4404;

/** That if the store cannot be read. */
export const STORE_TROUBLE = 4503;

/** The families in the order in which they are shown. */
export const FAMILIES: readonly Family[] = ['loss', 'share', 'other'];

/** The parts of a step with their names, in the order in which they are shown. */
export const STEP_PARTS: readonly (readonly [StepPart, string])[] = [
  ['compute', 'compute'],
  ['communication', 'communication'],
  ['waiting', 'waiting'],
  ['moving', 'moving bytes'],
  ['point-to-point', 'point-to-point'],
  ['data', 'data'],
  ['other', 'other']
];

/** One node, as it was last seen. */
export interface INode {
  id: string;
  /** Its address for the other nodes, or empty. */
  address: string;
  type: string;
  zone: string;
  state: NodeState;
  /** Whether it did not come up, or could not be prepared; `message` says why. */
  failed: boolean;
  /** When it entered its state. */
  since: number;
  /** Number of ranks that it can run; 0 while unknown. */
  slots: number;
  /** Present dollars per hour; 0 if it is free. */
  price: number;
  /** Dollars so far. */
  spent: number;
  /** Part of `spent` for traffic, estimated. */
  traffic: number;
  head: boolean;
  /** One sentence for the reader, or empty. */
  message: string;
  /** When the provider takes it back; empty without an interruption notice. */
  notice?: string;
}

/** One purchase that was tried, or is being tried. */
export interface IPurchase {
  what: string;
  outcome: PurchaseOutcome;
  /** Why it was refused, in a sentence. */
  message: string;
}

/** Which ranks wait for which others. */
export interface IHang {
  /** Whether no rank makes progress; else some ranks are only slow. */
  sure: boolean;
  sentence: string;
  /** What to do; empty if there is nothing to do. */
  advice?: string;
}

/** The step breakdown of a run, as the mean over its ranks. */
export interface IStep {
  /** Seconds of each part, in display order. */
  parts: { [name in StepPart]?: number };
  /** Relative variation of the step time. */
  noise: number;
  /** Examples of all ranks in a step; 0 when unknown. */
  batch: number;
}

/** The step breakdown of each rank, in seconds per step. */
export interface ISteps {
  type: 'steps';
  /** The rank that the others wait for; -1 when unknown. */
  slowest: number;
  /** Some ranks in their order, each with its number and its parts; the slowest is among them. */
  ranks: number[][];
  /** The names of the parts. */
  parts?: StepPart[];
  /** The verdict and related advice, a sentence each. */
  says?: string[];
  /** The caption. */
  title?: string;
  /** Of each of `ranks`. */
  labels?: string[];
  /** The place in `ranks` of the one to highlight; -1 for none. */
  marked?: number;
  /** Of all bars, in seconds. */
  longest?: number;
}

/** A curve in words. */
export interface ICurveText {
  name: string;
  /** What it shows, in words that follow its name. */
  description: string;
  /** That values are not finite, likewise; empty if all are. */
  remark: string;
}

/** A mark on a run's curves, where it continued in another attempt, or is to. */
export interface IMark {
  /** That of the snapshot from which it continued. */
  iteration: number;
  /** Why it continued, and what that cost. */
  text: string;
  /** Whether it is to move there; the curves have not come as far yet. */
  is_pending?: boolean;
}

/** The stretches of a run's curves that a later attempt did again, drawn faintly. */
export interface IRedone {
  /** The attempt that did them first. */
  attempt: number;
  /** What is shown where one is pointed at. */
  text: string;
}

/** A run: its desired and its observed state. */
export interface IRun {
  id: string;
  name: string;
  kind: RunKind;
  cluster: string;
  state: RunState;
  /** Whether the run is complete. */
  is_ended: boolean;
  /** Whether a stop was requested. */
  is_stopping: boolean;
  ranks: number;
  generation: number;
  created: number;
  started: number;
  ended: number;
  /** The server's clock when this was written. */
  now: number;
  iteration: number;
  /** From 0 to 1; null when no total is known. */
  fraction: number | null;
  seconds_taken: number;
  failed_rank: number;
  failed_host: string;
  /** The failed rank's own traceback. */
  error: string;
  /** Sentences for the reader, or empty. */
  message: string;
  parameters: { [name: string]: unknown };
  arguments: string[];
  /** The last value of each reported name, in the order in which views show them: the median over the ranks; null where it is not finite. */
  values: { [name: string]: number | null };
  /** The least and the greatest of the ranks' last values, of each curve that is drawn. */
  ranges?: { [name: string]: [number, number] };
  /** Pairs of an iteration and the seconds from the run's start until it was done, both increasing; empty in lists. */
  clock?: [number, number][];
  /** Its state in a word. */
  word?: string;
  /** The parts of the line beside its state. */
  line?: string[];
  /** Those that are drawn, in the run's own messages; empty in lists. */
  curves?: ICurveText[];
  /** Whether frames are left out of the error, which `workbench logs` prints. */
  is_folded?: boolean;
  /** Which ranks wait for which others, now or when it ended. */
  hang?: IHang | null;
  /** Number of rank 0's figures, tables and similar. */
  displays?: number;
  /** The verdict on the step breakdown, a sentence each; final once it has ended. */
  verdict?: string[];
  /** Null without measurements. */
  step?: IStep | null;
  /** Where it continued or is to, in the run's own messages; empty in lists. */
  marks?: IMark[];
  /** Whether Resume is offered; false in lists and in what a notebook keeps. */
  is_resumable?: boolean;
  /** The attempts with stretches that were done again; empty in lists. */
  redone?: IRedone[];
  /** The attempts that failed and were tried again, a sentence each; empty in lists. */
  failures?: string[];
}

/** A run of the list, with a small picture of its main curve. */
export interface IListedRun extends IRun {
  /** Some values in the order of iterations; null for a gap. */
  sparkline: (number | null)[];
  /** What `sparkline` shows, such as `main/loss`; empty when nothing was reported. */
  sparkline_name: string;
  /** Whether it finished without a value to draw, as a cell that only prints does. */
  only_printed?: boolean;
}

/** What a run is made of. */
export interface IAbout {
  /** Texts by what they are, such as `arguments`; of variables only the names. */
  parts: { [name: string]: string };
  /** The script's or the cell's text. */
  source: string;
}

/** The host and process of a rank. */
export interface IRank {
  rank: number;
  host: string;
  pid: number;
}

/** Which run measured a cluster last, and when. */
export interface IMeasured {
  run: string;
  time: number;
}

/** A cluster's nodes and costs. */
export interface IFleet {
  /** Name of the provider of its nodes. */
  provider: string;
  /** What people call the provider. */
  provider_label: string;
  /** Whether it has nodes, rather than this machine alone. */
  has_nodes: boolean;
  /** Whether its nodes are hosts that the user lists, which stay on. */
  lists_hosts: boolean;
  nodes_asked: number;
  /** Number of nodes with ranks. */
  nodes_actual: number;
  /** The last desired number, also of a cluster that is down. */
  nodes_defined: number;
  /** The smallest number of nodes of a world. */
  min_nodes: number;
  /** The number to which it may grow while runs wait; 0 for a fixed size. */
  max_nodes: number;
  /** Dollars per hour; null when it costs nothing. */
  price: number | null;
  /** Dollars so far; null when it costs nothing. */
  spent: number | null;
  /** Dollars of these for traffic, estimated; null when it costs nothing. */
  traffic: number | null;
  /** Dollars that it may cost in total; null for no limit. */
  budget: number | null;
  /** When it is deleted automatically; null for never. */
  expires: number | null;
  /** The number of nodes in each state, including `failed`; empty for this machine. */
  node_states: { [name: string]: number };
  /** Some nodes that are not gone, the head first; empty for this machine. */
  nodes: INode[];
  /** The purchases tried for missing nodes, in order; empty when none is missing. */
  purchases: IPurchase[];
  /** What is charged in place of dollars, such as `core-hours`. */
  unit?: string;
}

/** What a resize means for the run that trains now, by when it is asked to move. */
export interface IResizing {
  /** At its next iteration. */
  step: string;
  /** At the end of its epoch; null if it has none. */
  epoch: string | null;
  /** After it has ended. */
  end: string;
}

/** A cluster: its desired and its observed state. */
export interface ICluster extends IFleet {
  name: string;
  state: ClusterState;
  /** One sentence for the reader, or empty. */
  message: string;
  /** Whether it is desired to be up. */
  is_wanted: boolean;
  /** 0 while it is not desired to be up. */
  ranks_asked: number;
  /** The last desired size, also of a cluster that is down. */
  ranks_wished: number;
  ranks_actual: number;
  oversubscribe: boolean;
  /** Increases with every wish; the latest one is valid. */
  revision: number;
  generation: number;
  updated: number;
  ranks: IRank[];
  /** Those that have not ended, oldest first. */
  runs: IRun[];
  /** Null if no run measured its links. */
  measured: IMeasured | null;
  /** Null if no run trains. */
  resizing?: IResizing | null;
  /** When its nodes are given back because there is nothing to do, while that is announced; null otherwise. */
  releases?: number | null;
}

/** All clusters, and the limits of this machine. */
export interface IClusters {
  clusters: ICluster[];
  /** Ranks that this machine runs without oversubscription. */
  slots: number;
  /** Ranks that a new cluster of this machine has. */
  usual_ranks: number;
  /** The largest number of ranks that can be requested. */
  max_ranks: number;
  version: string;
}

/** A table; the first cell of a row is its name. */
export interface ITable {
  title: string;
  columns: string[];
  rows: string[][];
  /** Whether it is shown at once, and not folded. */
  is_open?: boolean;
}

/** A field of a provider's form. */
export interface IField {
  name: string;
  label: string;
  /** What it does. */
  hint: string;
  kind: FieldKind;
  /** The number that a new form shows. */
  usual: number;
  /** What is shown where no text was entered. */
  example: string;
  /** Whether it is among the settings that are folded at first. */
  is_folded: boolean;
}

/** A provider of nodes, and what its form asks. */
export interface IPlace {
  name: string;
  label: string;
  has_nodes: boolean;
  lists_hosts: boolean;
  fields: IField[];
}

/** What may be asked for a cluster that is not up. */
export interface IForm {
  places: IPlace[];
  /** What was asked for last; null if that was this machine. */
  asked: IFormRequest | null;
}

/** One instance type that fits. */
export interface IOffer {
  /** Its row in the table; the price history is drawn in place of the empty one. */
  cells: string[];
  /** Pairs of epoch seconds and $/h, oldest first. */
  history: [number, number][];
  /** The price history in words. */
  chart: string;
  /** Its least and greatest price. */
  range: string;
}

/** The instance types that fit, the best first. */
export interface IOffers {
  title: string;
  columns: string[];
  rows: IOffer[];
}

/** What the nodes of a form come to. */
export interface IEstimate {
  /** Why they cannot be started; empty if they can. */
  refusal?: string;
  /** The total with remarks, or why there is none. */
  says?: string;
  /** Dollars an hour of all nodes; null without a price. */
  price?: number | null;
  /** The number of listed hosts. */
  hosts?: number;
  /** The region searched. */
  region?: string;
  /** The instance types to choose from. */
  types?: string[];
  /** Null until they are asked for. */
  offers?: IOffers | null;
  /** Those of a dry run of what starting and deleting needs; null without one. */
  findings?: ITable | null;
}

/** A host key that is not trusted yet. */
export interface IKey {
  address: string;
  /** Its algorithm. */
  kind: string;
  fingerprint: string;
  /** The line of known_hosts. */
  line: string;
}

/** The host keys to confirm; empty if all are trusted. */
export interface IKeys {
  keys: IKey[];
}

/** The text of a host file, and how many hosts it names. */
export interface IHosts {
  text: string;
  count: number;
}

/** What the provider has left of a deleted cluster, and what it cost, in sentences. */
export interface IProof {
  sentence: string;
}

/** The results of a measurement. */
export interface ISurvey {
  /** Its size and its time. */
  heading: string;
  /** What stands out and what has changed, a sentence each. */
  remarks: string[];
  tables: ITable[];
  /** The picture in words. */
  description: string;
  /** A PNG in base64; empty without one, or if the notebook has it already. */
  picture?: string;
}

/** A sweep of the list. */
export interface IListedSweep {
  id: string;
  name: string;
  /** How far it is, or why it is over. */
  progress: string;
  is_over: boolean;
}

/** The newest sweeps first. */
export interface ISweeps {
  sweeps: IListedSweep[];
}

/** A sweep with its trials. */
export interface ISweep extends IListedSweep {
  /** How far it is; or how it ended, with the best trial. */
  lines: string[];
  /** Of the table of trials. */
  headers: string[];
  /** The best trials first. */
  rows: string[][];
  /** A PNG, in base64; empty without a trial that has finished with a value. */
  picture: string;
  /** The picture in words. */
  says: string;
}

/** The part of a frame's header about one curve. */
export interface ISeriesHeader {
  name: string;
  /** Whether the earlier buckets of this curve are to be discarded first. */
  reset: boolean;
  /** Iterations of all ranks in each bucket. */
  width: number;
  /** How many ranks reported it. */
  ranks: number;
  /** Number of buckets in this frame. */
  count: number;
  /** Its quantity; curves of one quantity share axes. */
  quantity?: string;
  /** A share is between 0 and 1, or in percent. */
  family?: Family;
  /** Whether it was measured on validation data. */
  is_validation?: boolean;
  /** That of a stretch which a later attempt did again; 0 for the curve itself. */
  attempt?: number;
}

/** The header of a frame. */
export interface IFrameHeader {
  type: 'points';
  /** The feed whose versions are meant. */
  feed: string;
  /** The newest version that the frame contains. */
  version: number;
  /** Number of points that the run has reported, over all names. */
  points: number;
  /** The rank whose means are in the column `slowest`; -1 for none. */
  slowest: number;
  series: ISeriesHeader[];
}

/** What a rank displays in one place. */
export interface IDisplayed {
  place: number;
  /** By MIME type, as the rank sent it: not to be trusted. Images are in base64, JSON is text. */
  data: { [name: string]: string };
  /** By an image's MIME type: its size in pixels. */
  metadata: { [name: string]: { [name in 'width' | 'height']?: number } };
}

/** Some output of the ranks. */
export interface IOutput {
  type: 'output';
  /** Sequence number up to which output was sent or skipped. */
  after: number;
  /** Number of pieces that were left out because there were too many. */
  skipped: number;
  pieces: Piece[];
}

/** The first message to a page that follows a run. */
export interface IHello {
  type: 'hello';
  feed: string;
  run: IRun;
}

/** The run's present state. */
export interface IRunNews {
  type: 'run';
  run: IRun;
}

/** The run is complete; the server closes, or waits for a page that stays. */
export interface IEnd {
  type: 'end';
}

/** What a notebook keeps of a run that has ended. */
export interface ISaved {
  run: IRun;
  steps: ISteps | null;
  /** A frame of points, in base64. */
  frame: string;
  /** What it measured, of a measurement. */
  survey?: ISurvey | null;
}

/** What is in the cell's output for the page to show the run. */
export interface ISavedRun {
  run: string;
  name: string;
  /** Whether the kernel puts what rank 0 writes and displays into the cell, beside this. */
  streamed?: boolean;
  /** Whether the cell's own error shows the failed rank's traceback. */
  raised?: boolean;
  /** Only once the run has ended. */
  saved?: ISaved | null;
}

/** The newest runs first. */
export interface IRuns {
  runs: IListedRun[];
}

/** The names of the runs of a cluster that were asked to stop. */
export interface IStopped {
  stopped: string[];
}

/** The name of the cluster that was taken off all lists. */
export interface IRemoved {
  removed: string;
}

/** The answer to a page that is to save a notebook. */
export interface ITurn {
  /** Whether it may do so now, for half a minute or until DELETE; else it asks again. */
  granted: boolean;
}

/** The answer to a request that was refused, or failed; its reason tells it from others'. */
export interface IRefusal {
  reason: 'workbench';
  /** Why, in a sentence. */
  message: string;
  /** Dollars an hour, where only a yes to them is missing. */
  price?: number | null;
}

/** The nodes that a form asks for. */
export interface IFormRequest {
  /** Its name. */
  provider: string;
  nodes?: number;
  min_nodes?: number;
  max_nodes?: number;
  /** One on each line, in mpiexec's format, if the provider lists hosts. */
  hosts?: string;
  /** The chosen instance type; empty for any that fits. */
  type?: string;
  /** What was entered, by the names of the provider's fields; numbers as text. */
  values?: { [name: string]: string | boolean };
}

/** The hosts whose keys are asked for. */
export interface IKeysRequest {
  form: IFormRequest;
  /** The lines of known_hosts that the person has confirmed. */
  trusted?: string[];
}

/** The host file to read, as its path on the machine of the server or kernel. */
export interface IHostFileRequest {
  path: string;
}

/** What is left of a deleted cluster is asked for. */
export interface IProofRequest {
  /** The dollars that the page showed last; the store may know less by the end. */
  spent?: number;
}

/** The desired size of a cluster, in ranks or in nodes. */
export interface ISizeRequest {
  /** Without `ranks` and `nodes` the size is the server's default. */
  ranks?: number | null;
  /** Whether there may be more ranks than cores. */
  oversubscribe?: boolean;
  nodes?: number | null;
  /** The nodes to start, in place of a size. */
  form?: IFormRequest | null;
  /** The confirmed price of all nodes together in $/h. */
  agreed?: number | null;
  /** Whether nodes may be added in other zones from now on. */
  across_zones?: boolean;
  /** When a run that trains moves to a new size. */
  at?: 'step' | 'epoch' | 'end';
}

/** By how much a cluster's time to live is extended. */
export interface IExtensionRequest {
  seconds: number;
}

/** The notebook that a page saves, as its path on this server. */
export interface INotebookRequest {
  path: string;
}

/** Which runs are listed; those of all clusters without `cluster`. */
export interface IRunsQuery {
  cluster?: string | null;
  limit?: number;
}

/** A part of a run's curves, from iteration `first` to `last`. */
export interface ICurvesQuery {
  first: number;
  last: number;
  buckets: number;
}

/** What a page that follows a run has of it. */
export interface IFollowQuery {
  /** The feed that it followed before, or empty. */
  feed?: string;
  /** The version of that feed's curves that it has. */
  version?: number;
  /** 1 to stay connected after the end. */
  stay?: number;
}

/** The page has drawn the points up to `version`; only then more are sent. */
export interface IAck {
  type: 'ack';
  version: number;
}

/** The page requests output, once it has taken the earlier output. */
export interface IOutputRequest {
  type: 'output';
  /** The sequence number after which it starts; null for no more output. */
  after: number | null;
}
