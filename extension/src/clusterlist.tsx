/**
 * The list of all clusters, or why it is empty.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ClusterCard, type IClusterActions } from './clustercard';
import type { ClustersModel } from './clusters';
import { unborn } from './sizing';
import { DEFAULT_CLUSTER } from './tokens';

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
          <>
            <p className="wb-empty">
              {`A cluster is a group of ranks: processes that train one model together. It stays up between cells, so that each %%dist_train cell starts at once.`}
            </p>
            <ClusterCard
              cluster={unborn(DEFAULT_CLUSTER)}
              model={model}
              actions={this.actions}
            />
          </>
        )}
      </>
    );
  }
}
