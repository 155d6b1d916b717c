/**
 * The list of all clusters, or why it is empty.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ClusterCard, type IClusterActions } from './clustercard';
import type { ClustersModel } from './clusters';
import { Action, Oversubscribe, SizeBox } from './controls';
import { resting, size, type IDraft } from './sizing';
import { DEFAULT_CLUSTER } from './tokens';
import { sizeWord } from './words';

/** The clusters, one below the other. */
export class ClusterList extends ReactWidget {
  constructor(
    private readonly model: ClustersModel,
    private readonly actions: IClusterActions
  ) {
    super();
    this.addClass('wb-clusters');
    model.changed.connect(this.update, this);
  }

  protected override render(): JSX.Element {
    const { model } = this;
    const { trouble } = model;
    return (
      <>
        {trouble && (
          <p className="wb-refusal" role="alert">
            {trouble.sentence}
          </p>
        )}
        {!trouble && !model.isReady && <p className="wb-empty">{'Loading…'}</p>}
        {trouble?.kind !== 'absent' &&
          model.clusters.map(cluster => (
            <ClusterCard
              key={cluster.name}
              cluster={cluster}
              model={model}
              actions={this.actions}
            />
          ))}
        {!trouble && model.isReady && !model.clusters.length && (
          <FirstCluster model={model} />
        )}
      </>
    );
  }
}

/** The view without any cluster. */
function FirstCluster(props: { model: ClustersModel }): JSX.Element {
  const { model } = props;
  const [draft, setDraft] = React.useState<IDraft | null>(null);
  const shown = draft ?? resting(null, model.bounds);
  const wanted = size(shown, model.bounds);
  const here = 'this machine';
  const isBusy = model.isBusy(DEFAULT_CLUSTER);
  const refusal = model.refusal(DEFAULT_CLUSTER);
  const isEnabled = wanted !== null && !isBusy;
  const start = () => {
    if (wanted && isEnabled) {
      void model.start(DEFAULT_CLUSTER, wanted);
    }
  };
  return (
    <section className="wb-cluster">
      <p className="wb-empty">
        {`A cluster is a group of ranks: processes that train one model together. It stays up between cells, so that each %%dist_train cell starts at once.`}
      </p>
      <form
        className="wb-controls"
        aria-busy={isBusy}
        noValidate
        onSubmit={event => {
          event.preventDefault();
          start();
        }}
      >
        <div className="wb-controls-row">
          <SizeBox
            draft={shown}
            isWrong={wanted === null}
            model={model}
            edit={setDraft}
          />
          <Action
            label={'Start on this machine'}
            title={`Start cluster ${DEFAULT_CLUSTER}: ${sizeWord(wanted?.ranks ?? 0, false)}, ${here}`}
            kind="main"
            refusal={wanted ? '' : 'The number is out of range.'}
            isBusy={isBusy}
            act={start}
          />
        </div>
        <Oversubscribe draft={shown} model={model} edit={setDraft} />
      </form>
      {refusal && (
        <p className="wb-refusal" role="alert">
          {refusal}
        </p>
      )}
    </section>
  );
}
