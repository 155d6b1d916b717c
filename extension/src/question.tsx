/**
 * What a person is asked before a cluster is deleted, costs more, or trusts a key.
 */
import * as React from 'react';

import type { IQuestion } from './clusters';
import type { ICluster, IKey } from './protocol';
import { whatGoes } from './words';

/** What is asked before a cluster is deleted. */
export function removal(name: string, cluster: ICluster | null): IQuestion {
  const runs = (cluster?.runs ?? []).map(run => run.name);
  const stops = runs.length
    ? `Its ranks end, and its unfinished runs are stopped: ${runs.join(', ')}.`
    : 'Its ranks end.';
  const goes = cluster ? whatGoes(cluster) : '';
  return {
    cluster: name,
    title: `Delete cluster ${name}?`,
    sentence: [goes, stops, 'The results of its runs are kept.']
      .filter(Boolean)
      .join(' '),
    yes: 'Delete',
    isWarning: true
  };
}

/** The sentence of a question, and the keys to compare. */
export function asked({ sentence, keys }: IQuestion): JSX.Element | string {
  return keys ? (
    <div>
      <p>{sentence}</p>
      <Keys keys={keys} />
    </div>
  ) : (
    sentence
  );
}

function Keys({ keys }: { keys: readonly IKey[] }): JSX.Element {
  return (
    <table className="wb-table">
      <thead>
        <tr>
          {['host', 'kind of key', 'fingerprint'].map(title => (
            <th key={title}>{title}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {keys.map(({ address, kind, fingerprint, line }) => (
          <tr key={line}>
            <th scope="row">{address}</th>
            <td>{kind}</td>
            <td>{fingerprint}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
