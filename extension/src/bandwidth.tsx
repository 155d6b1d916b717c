/**
 * Measure a cluster's links, show the progress, and open the result.
 */
import * as React from 'react';

import { Action } from './action';
import type { ClustersModel } from './clusters';
import type { ICluster, IRun } from './protocol';
import { percent } from './run/numbers';
import { canMeasure, measuring, moment, standing } from './words';

/** The measurement of one cluster. */
export function Bandwidth(props: {
  cluster: ICluster;
  model: ClustersModel;
  measure: () => void;
  open: (id: string) => void;
}): JSX.Element {
  const { cluster, model, measure, open } = props;
  const { measured } = cluster;
  const run = measuring(cluster);
  const shown = run?.id ?? measured?.run;
  const isBusy = model.isBusy(run?.id ?? cluster.name);
  const refusal = run && model.refusal(run.id);
  return (
    <div className="wb-bandwidth" role="group" aria-label={'Bandwidth'}>
      {run && <Progress run={run} />}
      <div className="wb-controls-row">
        {run ? (
          <Action
            key="measure" // one button, which keeps the focus
            label={'Cancel measuring'}
            title={'Stop the measurement of this cluster'}
            isBusy={run.is_stopping || isBusy}
            act={() => void model.stopRun(run.id)}
          />
        ) : (
          <Action
            key="measure"
            label={'Measure bandwidth'}
            title={
              'Measure links between nodes, allreduce, disks and devices (up to two minutes)'
            }
            refusal={
              canMeasure(cluster) ? '' : 'The cluster has no ranks to measure.'
            }
            isBusy={isBusy}
            act={measure}
          />
        )}
        {shown && (
          <Action
            label={run ? 'Show' : 'Show result'}
            title={
              run
                ? 'Show the measurement in a tab'
                : 'Show the last measurement'
            }
            act={() => open(shown)}
          />
        )}
        {!run && measured && (
          <span className="wb-bandwidth-when">
            {`measured ${moment(measured.time, Date.now() / 1000)}`}
          </span>
        )}
      </div>
      {refusal && (
        <p className="wb-refusal" role="alert">
          {refusal}
        </p>
      )}
    </div>
  );
}

/** How much of a measurement is done. */
function Progress({ run }: { run: IRun }): JSX.Element {
  return (
    <div className="wb-bandwidth-progress">
      <progress
        max={1}
        value={run.fraction ?? undefined}
        aria-label={'Progress of the measurement'}
      >
        {run.fraction === null ? '' : percent(run.fraction)}
      </progress>
      <span>{standing(run)}</span>
    </div>
  );
}
