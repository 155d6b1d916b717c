/**
 * The form about a cluster's nodes: the provider, what it asks, what fits, and what that costs.
 */
import * as React from 'react';

import { Action } from './action';
import type { ClustersModel } from './clusters';
import type {
  ICluster,
  IEstimate,
  IField,
  IForm,
  IFormRequest,
  IOffer,
  IOffers,
  IPlace,
  ITable
} from './protocol';

/** What is entered; numbers as they are typed. */
interface IEntered {
  nodes: string;
  min: string;
  max: string;
  hosts: string;
  type: string;
  values: { [name: string]: string | boolean };
}

/** The form while it is filled in. */
export interface INodesDraft {
  places: readonly IPlace[];
  /** The chosen provider; null while they are not known. */
  place: IPlace | null;
  choose: (place: string) => void;
  entered: IEntered;
  edit: (changes: Partial<IEntered>) => void;
  /** What is asked for; null where a number is not valid. */
  request: IFormRequest | null;
  /** What that comes to, or what was entered before did. */
  estimate: IEstimate;
  /** Why it cannot be started; empty if it can. */
  refusal: string;
  find: () => void;
}

const WHOLE = /^\d{1,4}$/;
const PAUSE = 200;
/** Points of the line of a price history. */
const WIDTH = 120;
const HEIGHT = 24;

/** Follow what may be asked for, and what is entered. */
export function useNodes(cluster: ICluster, model: ClustersModel): INodesDraft {
  const { name, is_wanted: isUp, revision } = cluster;
  const [form, setForm] = React.useState<IForm | null>(null);
  const [chosen, setChosen] = React.useState('local');
  const [drafts, setDrafts] = React.useState<{ [name: string]: IEntered }>({});
  const [found, setFound] = React.useState({
    of: '',
    estimate: {} as IEstimate
  });
  const isFollowing = React.useRef(false);

  React.useEffect(() => {
    let isOver = false;
    if (!isUp) {
      model.form(name).then(
        form => isOver || (setForm(form), setDrafts({})),
        () => undefined
      );
    }
    return () => {
      isOver = true;
    };
  }, [name, isUp, revision]);

  const places = form?.places ?? [];
  const place = places.find(one => one.name === chosen) ?? null;
  const entered = drafts[chosen] ?? initial(place, form);
  const edit = (changes: Partial<IEntered>) => {
    isFollowing.current ||= changes.hosts !== undefined;
    setDrafts(drafts => {
      const before = drafts[chosen] ?? initial(place, form);
      return { ...drafts, [chosen]: { ...before, ...changes } };
    });
  };
  const request = place?.has_nodes ? requestOf(place, entered) : null;
  const key = request && !isUp ? JSON.stringify(request) : '';

  React.useEffect(() => {
    if (!key || found.of === key) {
      return;
    }
    let isOver = false;
    const ask = () =>
      void model.estimate(name, JSON.parse(key)).then(estimate => {
        if (!isOver) {
          take(key, estimate);
        }
      });
    const timer = setTimeout(ask, PAUSE);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [key, found.of]);

  const take = (of: string, estimate: IEstimate) => {
    setFound({ of, estimate });
    if (estimate.hosts && isFollowing.current) {
      isFollowing.current = false;
      edit({ nodes: String(estimate.hosts) });
    }
  };
  const choose = (place: string) => {
    setChosen(place);
    model.clear(name); // what was said is of the other provider
  };
  const find = async () => {
    const estimate = request && (await model.findOffers(name, request));
    if (!estimate) {
      return;
    }
    const { region = '', types = [] } = estimate;
    const hasRegion = 'region' in entered.values;
    const values = { ...entered.values, ...(hasRegion ? { region } : {}) };
    const type = types.includes(entered.type) ? entered.type : '';
    edit({ values, type });
    const answered = requestOf(place!, { ...entered, values, type });
    setFound({ of: JSON.stringify(answered), estimate });
  };

  const isNew = key !== '' && found.of === key;
  const refusal = !request
    ? 'The number is out of range.'
    : !request.nodes
      ? 'With 0 nodes there is nothing to start.'
      : isNew
        ? (found.estimate.refusal ?? '')
        : 'What was entered is being checked.';
  return {
    ...{ places, place, choose, entered, edit, request, refusal },
    estimate: found.estimate,
    find: () => void find()
  };
}

/** What a form shows at first: what was asked for last, or what is usual. */
function initial(place: IPlace | null, form: IForm | null): IEntered {
  const last = form?.asked?.provider === place?.name ? form?.asked : null;
  const values = (place?.fields ?? []).map(({ name, kind, usual }) => {
    const isNumber = kind === 'number' || kind === 'whole number';
    const empty = kind === 'yes or no' ? false : '';
    return [name, last?.values?.[name] ?? (isNumber ? String(usual) : empty)];
  });
  return {
    nodes: String(last?.nodes ?? 2),
    min: String(last?.min_nodes ?? 1),
    max: String(last?.max_nodes ?? 0),
    hosts: last?.hosts ?? '',
    type: last?.type ?? '',
    values: Object.fromEntries(values)
  };
}

function requestOf(place: IPlace, entered: IEntered): IFormRequest | null {
  const { nodes, min, max, hosts, type, values } = entered;
  const numbers = [nodes, min, max].map(text => text.trim());
  if (!numbers.every(text => WHOLE.test(text))) {
    return null;
  }
  const [few, least, most] = numbers.map(Number);
  return {
    provider: place.name,
    ...{ nodes: few, min_nodes: least, max_nodes: most },
    ...(place.lists_hosts ? { hosts } : { type }),
    values
  };
}

/** The choice of the provider. */
export function ProviderBox(props: { nodes: INodesDraft }): JSX.Element | null {
  const { places, place, choose } = props.nodes;
  return (
    (places.length > 1 && (
      <label className="wb-field wb-mod-wide">
        {'Provider'}
        <select
          value={place?.name}
          onChange={event => choose(event.target.value)}
        >
          {places.map(({ name, label }) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      </label>
    )) ||
    null
  );
}

/** What the chosen provider asks. */
export function NodesForm(props: {
  cluster: string;
  nodes: INodesDraft;
  model: ClustersModel;
}): JSX.Element {
  const { cluster, model, nodes } = props;
  const { place, entered, edit, estimate } = nodes;
  const fields = place?.fields ?? [];
  const size = (name: 'nodes' | 'min' | 'max', label: string, hint: string) => (
    <label className="wb-field">
      {label}
      <input
        type="number"
        min={0}
        value={entered[name]}
        title={hint}
        aria-invalid={!WHOLE.test(entered[name].trim())}
        onChange={event => edit({ [name]: event.target.value })}
      />
    </label>
  );
  const field = (one: IField) => (
    <FieldBox
      key={one.name}
      field={one}
      value={entered.values[one.name]}
      edit={value => edit({ values: { ...entered.values, [one.name]: value } })}
    />
  );
  const folded = fields.filter(one => one.is_folded);
  return (
    <>
      {place?.lists_hosts && (
        <HostsBox {...{ cluster, model, entered, edit }} />
      )}
      <div className="wb-fields">
        {size('nodes', 'Nodes', 'How many nodes')}
        {size(
          'min',
          'Min nodes',
          'Keep running with at least this many nodes; 0 if all may go when idle'
        )}
        {size(
          'max',
          'Max nodes',
          'Add nodes up to this number while runs are queued; 0 = fixed size'
        )}
        {fields.filter(one => !one.is_folded).map(field)}
      </div>
      {folded.length > 0 && (
        <details className="wb-more">
          <summary title={folded.map(one => one.label).join(', ')}>
            {'More settings'}
          </summary>
          <div className="wb-fields">{folded.map(field)}</div>
        </details>
      )}
      {!place?.lists_hosts && (
        <>
          <div className="wb-controls-row">
            <Action
              label={'Show what fits'}
              title={'Instance types, prices, quota and permissions'}
              refusal={nodes.request ? '' : 'The number is out of range.'}
              isBusy={model.isBusy(cluster)}
              act={nodes.find}
            />
          </div>
          {estimate.offers && <Offers offers={estimate.offers} />}
          {estimate.offers && (
            <label className="wb-field wb-mod-wide">
              {'Instance type'}
              <select
                value={entered.type}
                onChange={event => edit({ type: event.target.value })}
              >
                <option value="">{'any that fits'}</option>
                {estimate.types?.map(type => (
                  <option key={type}>{type}</option>
                ))}
              </select>
            </label>
          )}
          {estimate.findings && <Findings table={estimate.findings} />}
        </>
      )}
      {estimate.says && (
        <p className="wb-said" role="status">
          {estimate.says}
        </p>
      )}
    </>
  );
}

function FieldBox(props: {
  field: IField;
  value: string | boolean | undefined;
  edit: (value: string | boolean) => void;
}): JSX.Element {
  const { field, value, edit } = props;
  const { label, hint: title, example: placeholder, kind } = field;
  const isNumber = kind === 'number' || kind === 'whole number';
  if (kind === 'yes or no') {
    return (
      <label className="wb-oversubscribe" title={title}>
        <input
          type="checkbox"
          checked={value === true}
          onChange={event => edit(event.target.checked)}
        />
        {label}
      </label>
    );
  }
  const shared = {
    value: String(value ?? ''),
    ...{ title, placeholder },
    onChange: (event: { target: { value: string } }) => edit(event.target.value)
  };
  return (
    <label className={`wb-field${isNumber ? '' : ' wb-mod-wide'}`}>
      {label}
      {kind === 'several lines' ? (
        <textarea rows={4} {...shared} />
      ) : isNumber ? (
        <input type="number" min={0} step="any" {...shared} />
      ) : (
        <input type="text" {...shared} />
      )}
    </label>
  );
}

/** The hosts, typed or read from a file. */
function HostsBox(props: {
  cluster: string;
  model: ClustersModel;
  entered: IEntered;
  edit: (changes: Partial<IEntered>) => void;
}): JSX.Element {
  const { cluster, model, entered, edit } = props;
  const [path, setPath] = React.useState('');
  const read = async () => {
    const found = await model.readHosts(cluster, path);
    if (found) {
      edit({ hosts: found.text });
    }
  };
  return (
    <div className="wb-fields">
      <label className="wb-field wb-mod-wide">
        {'Hosts'}
        <textarea
          rows={4}
          value={entered.hosts}
          placeholder="172.31.41.13 slots=1"
          title={"One per line, in mpiexec's format"}
          onChange={event => edit({ hosts: event.target.value })}
        />
      </label>
      <div className="wb-field wb-mod-wide">
        <label className="wb-field">
          {'Host file'}
          <input
            type="text"
            value={path}
            placeholder="/path/to/hosts"
            title={'A file to read them from, where Jupyter runs'}
            onChange={event => setPath(event.target.value)}
          />
        </label>
        <Action
          label={'Read file'}
          title={"Put the file's hosts into the box above"}
          refusal={path.trim() ? '' : 'Name a file first.'}
          isBusy={model.isBusy(cluster)}
          act={() => void read()}
        />
      </div>
    </div>
  );
}

/** The types that fit, in a table with a small picture of each price history. */
function Offers({ offers }: { offers: IOffers }): JSX.Element {
  return (
    <div className="wb-scrolled">
      <table className="wb-table">
        <caption>{offers.title}</caption>
        <Head columns={offers.columns} />
        <tbody>
          {offers.rows.map(offer => (
            <tr key={offer.cells[0]}>
              <th scope="row">{offer.cells[0]}</th>
              {offer.cells.slice(1).map((cell, column) => (
                <td key={column}>{cell || <History offer={offer} />}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Head({ columns }: { columns: readonly string[] }): JSX.Element {
  return (
    <thead>
      <tr>
        {columns.map(title => (
          <th key={title} scope="col">
            {title}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function History({ offer }: { offer: IOffer }): JSX.Element {
  return (
    <span className="wb-history" title={offer.chart}>
      <svg
        role="img"
        aria-label={offer.chart}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        width={WIDTH}
        height={HEIGHT}
      >
        <polyline points={historyPoints(offer.history)} />
      </svg>
      {offer.range}
    </span>
  );
}

/** The line of a price history, in which a price holds until the next one. */
export function historyPoints(history: readonly [number, number][]): string {
  const [first, last] = [history[0][0], history[history.length - 1][0]];
  const prices = history.map(([, price]) => price);
  const low = Math.min(...prices);
  const across = WIDTH / (last - first || 1);
  const up = (HEIGHT - 4) / (Math.max(...prices) - low || 1);
  return history
    .flatMap(([at, price], place) => {
      const y = (HEIGHT - 2 - up * (price - low)).toFixed(1);
      const until = history[place + 1]?.[0] ?? at;
      return [at, until].map(x => `${(across * (x - first)).toFixed(1)},${y}`);
    })
    .join(' ');
}

/** The findings of a dry run; without problems they are folded. */
function Findings({ table }: { table: ITable }): JSX.Element {
  return (
    <details className="wb-more" open={table.is_open}>
      <summary>{table.title}</summary>
      <div className="wb-scrolled">
        <table className="wb-table">
          <Head columns={table.columns} />
          <tbody>
            {table.rows.map((row, place) => (
              <tr key={place}>
                <th scope="row">{row[0]}</th>
                {row.slice(1).map((cell, column) => (
                  <td key={column}>{cell}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
