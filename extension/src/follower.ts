/**
 * Follow a run on this Jupyter server, wherever it is shown.
 */
import { followUrl } from './request';
import { RunModel } from './run/model';
import { RunSocket } from './run/socket';

/** A run as it goes on. */
export class Follower {
  constructor(readonly id: string) {
    this.model = new RunModel(id);
    this.socket = new RunSocket({
      model: this.model,
      url: (feed, version, output) =>
        followUrl(id, { feed, version, output: output ?? undefined })
    });
    this.socket.start();
  }

  dispose(): void {
    this.socket.dispose();
    this.model.dispose();
  }

  readonly model: RunModel;
  readonly socket: RunSocket;
}
