/**
 * Show all clusters, or why there are none to show.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ClusterCard, type IClusterActions } from './clustercard';
import type { ClustersModel } from './clusters';
import { Action, Oversubscribe, SizeBox } from './controls';
import type { ITrans } from './run/trans';
import { resting, size, type IDraft } from './sizing';
import { DEFAULT_CLUSTER } from './tokens';

/** The clusters, one below the other. */
export class ClusterList extends ReactWidget {
  constructor(
    private readonly model: ClustersModel,
    private readonly trans: ITrans,
    private readonly actions: IClusterActions
  ) {
    super();
    this.addClass('wb-clusters');
    model.changed.connect(this.update, this);
  }

  protected override render(): JSX.Element {
    const { model, trans } = this;
    const { trouble } = model;
    return (
      <>
        {trouble && (
          <p className="wb-refusal" role="alert">
            {trouble.sentence}
          </p>
        )}
        {!trouble && !model.isReady && (
          <p className="wb-empty">{trans.__('Asking the server…')}</p>
        )}
        {trouble?.kind !== 'absent' &&
          model.clusters.map(cluster => (
            <ClusterCard
              key={cluster.name}
              cluster={cluster}
              model={model}
              trans={trans}
              actions={this.actions}
            />
          ))}
        {!trouble && model.isReady && !model.clusters.length && (
          <FirstCluster model={model} trans={trans} />
        )}
      </>
    );
  }
}

/** What stands where no cluster was ever asked for. */
function FirstCluster(props: {
  model: ClustersModel;
  trans: ITrans;
}): JSX.Element {
  const { model, trans } = props;
  const [draft, setDraft] = React.useState<IDraft | null>(null);
  const shown = draft ?? resting(null, model.bounds);
  const wanted = size(shown, model.bounds);
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
        {trans.__(
          'A cluster is a number of ranks: processes that train one model together. It stays up between cells, so that each cell with %1 begins at once.',
          '%%dist_train'
        )}
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
            trans={trans}
            edit={setDraft}
          />
          <Action
            label={trans.__('Start')}
            title={trans.__('Start a cluster with that many ranks')}
            kind="main"
            isEnabled={isEnabled}
            act={start}
          />
        </div>
        <Oversubscribe
          draft={shown}
          model={model}
          trans={trans}
          edit={setDraft}
        />
      </form>
      {refusal && (
        <p className="wb-refusal" role="alert">
          {refusal}
        </p>
      )}
    </section>
  );
}
