/**
 * The output of all ranks or of one, shown when it is opened.
 */
import type { IDisplayed } from '../protocol';
import { displayed, type Render } from './displayed';
import { element, setText } from './dom';
import type { RunModel } from './model';
import type { ILine } from './output';
import { Pacer } from './pacer';

const ALL = 'all';
/** Pixels from the end within which the view follows the newest lines. */
const AT_END = 24;

export class Transcript {
  /**
   * @param follow - has output come, or no more
   * @param render - shows what has to be sanitized
   */
  constructor(
    private readonly model: RunModel,
    private readonly follow: (follows: boolean) => void,
    private readonly render?: Render
  ) {
    this._choice.setAttribute('aria-label', 'Ranks');
    this._text.setAttribute('aria-label', 'Output by rank');
    this.node.append(
      element('summary', { text: 'Output by rank' }),
      element('div', { class: 'wb-outputbar' }, this._choice, this._remark),
      this._text
    );
    this._text.append(this._lines, this._partial);
    this.node.addEventListener('toggle', () => this._onToggle());
    this._choice.addEventListener('change', () => this._restart());
    this.node.firstElementChild!.addEventListener('click', () => {
      this._isChosen = true;
    });
    this._pacer = new Pacer(this.node, () => this._draw());
  }

  readonly node = element('details', { class: 'wb-output' });

  /** Something may be new. */
  update(): void {
    if (this.node.open) {
      this._pacer.request();
    }
  }

  /**
   * Show output and displays, unless the user has opened or closed this.
   *
   * @param rank - the one to show; all unless given
   */
  open(rank?: number): void {
    if (!this._isChosen && !this.node.open) {
      this._isChosen = true;
      this._offer((rank ?? 0) + 1);
      this._choice.value = rank === undefined ? ALL : String(rank);
      this.node.open = true;
    }
  }

  dispose(): void {
    this._pacer.dispose();
  }

  private _onToggle(): void {
    this.follow(this.node.open);
    this._restart();
  }

  private _restart(): void {
    this._forget();
    this.update();
  }

  private _forget(): void {
    this._lines.replaceChildren();
    this._nodes.clear();
    this._shown = 0;
  }

  private _draw(): void {
    const { output, run, connection } = this.model;
    if (this._clearings !== output.clearings) {
      this._clearings = output.clearings;
      this._forget();
    }
    this._offer(Math.max(run?.ranks ?? 0, ...output.ranks.map(r => r + 1)));
    const wanted = this._choice.value;
    const isWanted = ({ rank }: ILine) =>
      wanted === ALL || rank === Number(wanted);
    const isAtEnd =
      this._text.scrollTop + this._text.clientHeight >
      this._text.scrollHeight - AT_END;
    const first = output.lines[0]?.number ?? 0;
    while (Number(this._block()?.dataset.last ?? Infinity) < first) {
      this._block()!.remove();
    }
    const news = output.lines.slice(Math.max(0, this._shown - first));
    if (news.length) {
      this._shown = news[news.length - 1].number + 1;
      const block = element('span', { 'data-last': String(this._shown - 1) });
      block.append(...this._printed(news.filter(isWanted), wanted === ALL));
      this._lines.append(block);
    }
    this._refresh();
    const partial = output.partial.filter(isWanted);
    this._partial.replaceChildren(...this._printed(partial, wanted === ALL));
    this._text.hidden = !this._text.textContent && !this._nodes.size;
    setText(this._remark, this._says(output.isCut, connection === 'ended'));
    if (isAtEnd) {
      this._text.scrollTop = this._text.scrollHeight;
    }
  }

  /** Show what places have now, where it is not what they had. */
  private _refresh(): void {
    for (const [place, { node, what }] of this._nodes) {
      const now = this.model.output.displayed(place);
      if (!node.isConnected && !this._lines.contains(node)) {
        this._nodes.delete(place);
      } else if (now && now !== what) {
        const made = displayed(now, this.render);
        node.replaceWith(made);
        this._nodes.set(place, { node: made, what: now });
      }
    }
  }

  private _block(): HTMLElement | null {
    return this._lines.firstElementChild as HTMLElement | null;
  }

  private _says(isCut: boolean, isOver: boolean): string {
    const { model } = this;
    if (!model.output.ranks.length) {
      return isOver ? 'There is no output.' : 'There is no output yet.';
    }
    return isCut
      ? `Earlier output is left out; see all of it with \`workbench logs ${model.id}\`.`
      : '';
  }

  /** Lines as elements; neighbours of one kind share an element. */
  private _printed(lines: ILine[], namesRank: boolean): HTMLElement[] {
    const made: HTMLElement[] = [];
    let kind = '';
    for (const { rank, stream, text, place } of lines) {
      const what = this.model.output.displayed(place);
      const printed = `${text}\n`;
      if (namesRank) {
        const label = element('span', {
          class: 'wb-rank',
          text: `rank ${rank}`.padEnd(8)
        });
        made.push(label);
        kind = '';
      }
      if (what) {
        const node = displayed(what, this.render);
        this._nodes.set(place, { node, what });
        made.push(node);
        kind = '';
      } else if (kind === stream) {
        made[made.length - 1].append(printed);
      } else {
        made.push(element('span', { class: `wb-${stream}`, text: printed }));
        kind = stream;
      }
    }
    return made;
  }

  /** Offer a choice of as many ranks. */
  private _offer(ranks: number): void {
    const { _choice } = this;
    if (!_choice.options.length) {
      _choice.append(element('option', { value: ALL, text: 'all ranks' }));
    }
    for (let rank = _choice.options.length - 1; rank < ranks; rank++) {
      const text = `rank ${rank}`;
      _choice.append(element('option', { value: String(rank), text }));
    }
  }

  private readonly _choice = element('select');
  private readonly _remark = element('span', { class: 'wb-outputremark' });
  private readonly _text = element('pre', {
    tabindex: '0',
    role: 'group',
    hidden: true
  });
  private readonly _lines = element('span');
  private readonly _partial = element('span');
  private readonly _pacer: Pacer;
  /** What is displayed, by its place. */
  private readonly _nodes = new Map<
    number,
    { node: HTMLElement; what: IDisplayed }
  >();
  private _clearings = 0;
  private _isChosen = false;
  /** The number of the first line that was not shown yet. */
  private _shown = 0;
}
