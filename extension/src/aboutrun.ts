/**
 * Say what a run is made of, in a fold that is filled when it is first opened.
 */
import type { IAbout } from './protocol';
import { element } from './run/dom';

export class AboutRun {
  constructor(private readonly ask: () => Promise<IAbout>) {
    const text = 'About this run';
    this.node.append(element('summary', { text }), this._held);
    this.node.addEventListener('toggle', () => void this._fill());
  }

  readonly node = element('details', { class: 'wb-about' });

  private async _fill(): Promise<void> {
    if (!this.node.open || this._held.childElementCount) {
      return;
    }
    try {
      this._show(await this.ask());
    } catch (error) {
      this._held.textContent = (error as Error).message;
    }
  }

  private _show({ parts, source }: IAbout): void {
    const names = titles();
    const list = element('dl');
    for (const [part, text] of Object.entries(parts)) {
      list.append(
        element('dt', { text: names[part] ?? part }),
        element('dd', { text })
      );
    }
    this._held.replaceChildren(list);
    if (source) {
      this._held.append(element('pre', { text: source }));
    }
  }

  private readonly _held = element('div');
}

/** What the server's parts are called. */
function titles(): { [part: string]: string } {
  return {
    asked: 'Asked',
    source: 'Source',
    arguments: 'Arguments',
    notebook: 'Notebook',
    'git commit': 'Git commit',
    folder: 'Folder',
    variables: 'Variables',
    files: 'Files'
  };
}
