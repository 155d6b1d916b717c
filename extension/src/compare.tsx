/**
 * The comparison of several runs: a chart for each quantity, and a table of differences.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';
import * as React from 'react';

import { CompareCharts } from './comparecharts';
import { compareRows, type IRow } from './comparetable';
import { compared } from './comparison';
import { compareIcon } from './icons';
import { LiveRun } from './live';
import { styleOf, type Preferences } from './preferences';
import type { IRun } from './protocol';
import * as request from './request';
import type { Aspect, RunModel } from './run/model';
import { connectionRemark } from './run/phrases';
import { readTheme, watchTheme } from './run/theme';
import { noServer } from './words';

/** Several runs side by side. */
export class CompareTab extends Panel {
  /**
   * @param runs - their ids
   * @param open - opens a run in a tab of its own
   */
  constructor(
    readonly runs: readonly string[],
    private readonly preferences: Preferences,
    open: (id: string) => void
  ) {
    super();
    this.addClass('wb-tab');
    this._lives = runs.map(id => new LiveRun(id, request));
    const models = this._lives.map(one => one.model);
    this._charts = new CompareCharts(models, styleOf(preferences.values));
    this._table = new CompareTable(models, open);
    this.addWidget(new Widget({ node: this._charts.node }));
    this.addWidget(this._table);
    this.title.icon = compareIcon;
    this.title.closable = true;
    this._rename();
    models.forEach(model => model.changed.connect(this._onChanged, this));
    preferences.changed.connect(this._onPreferences, this);
    this._unwatch = watchTheme(() => this._retheme());
    this._lives.forEach(one => one.start());
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._unwatch();
      this.preferences.changed.disconnect(this._onPreferences, this);
      this._charts.dispose();
      this._lives.forEach(one => one.dispose());
      super.dispose();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._retheme();
  }

  private _onChanged(_: RunModel, aspect: Aspect): void {
    if (aspect === 'curves') {
      this._charts.update();
    } else if (aspect === 'run' || aspect === 'connection') {
      this._rename();
      this._table.update();
    }
  }

  private _rename(): void {
    const names = this._lives.map(({ id, model }) => model.run?.name ?? id);
    this.title.label = `Compare ${names.join(', ')}`;
    this.title.caption = this.title.label;
  }

  private _retheme(): void {
    const theme = readTheme(this.node);
    const { classList } = this._charts.node;
    classList.toggle('wb-dark', theme.isDark);
    classList.toggle('wb-highcontrast', theme.isHighContrast);
    this._table.colours = theme.curves;
    this._table.update();
    this._charts.refreshTheme();
  }

  private _onPreferences(): void {
    this._charts.setStyle(styleOf(this.preferences.values));
  }

  private readonly _lives: LiveRun[];
  private readonly _charts: CompareCharts;
  private readonly _table: CompareTable;
  private readonly _unwatch: () => void;
}

/** The parameters and results of runs, a column each. */
class CompareTable extends ReactWidget {
  constructor(
    private readonly models: readonly RunModel[],
    private readonly open: (id: string) => void
  ) {
    super();
    this.addClass('wb-compare-table');
  }

  /** Of the curves, in the order of the runs. */
  colours: readonly string[] = [];

  protected override render(): JSX.Element {
    const { models } = this;
    const known = models.flatMap((model, place) =>
      model.run ? [{ run: model.run, colour: this.colours[place] }] : []
    );
    const remarks = this._remarks();
    const runs = known.map(one => one.run);
    const [parts, said] = [compareRows(runs), compared(runs)];
    return (
      <>
        {remarks.map(remark => (
          <p key={remark} className="wb-refusal" role="status">
            {remark}
          </p>
        ))}
        {said && <p className="wb-compare-said">{said}</p>}
        <table>
          <caption className="wb-heard">{'Runs side by side'}</caption>
          <thead>
            <tr>
              <td />
              {known.map(({ run, colour }) => (
                <th key={run.id} scope="col">
                  {this._name(run, colour)}
                </th>
              ))}
            </tr>
          </thead>
          {parts.map(({ title, rows }) => (
            <tbody key={title}>
              <tr>
                <th scope="rowgroup" colSpan={known.length + 1}>
                  {title}
                </th>
              </tr>
              {rows.map(({ name, words, ...row }) => (
                <tr key={name} className={classOf(row)}>
                  <th scope="row">{name}</th>
                  {words.map((word, place) => (
                    <td key={known[place].run.id}>{word}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          ))}
        </table>
        {known
          .filter(({ run }) => run.verdict?.length)
          .map(({ run }) => (
            <p key={run.id} className="wb-compare-verdict">
              <strong>{run.name}</strong>{' '}
              {run.verdict!.join(' ').split('`').map(codeOrText)}
            </p>
          ))}
      </>
    );
  }

  /** Why some requested runs are not shown. */
  private _remarks(): string[] {
    const { models } = this;
    const missing = models.filter(model => model.connection === 'unknown');
    const lost = models.filter(model => model.connection === 'lost');
    const hasServer = models.every(model => model.connection !== 'no-server');
    const ids = missing.map(model => model.id).join(', ');
    return [
      missing.length && `Not in this machine's store: ${ids}`,
      lost.length && connectionRemark('lost', lost[0].problem),
      !hasServer && noServer()
    ].filter(remark => typeof remark === 'string');
  }

  private _name(run: IRun, colour = 'currentColor'): JSX.Element {
    return (
      <button
        type="button"
        className="wb-compare-name"
        title={`Open run ${run.id}`}
        onClick={() => this.open(run.id)}
      >
        <svg viewBox="0 0 16 4" width="16" height="4" aria-hidden="true">
          <path d="M0 2h16" stroke={colour} strokeWidth="3" />
        </svg>
        {run.name}
      </button>
    );
  }
}

function classOf({ differs, isPart, isNumeric }: Partial<IRow>): string {
  return [
    differs ? 'wb-mod-differs' : '',
    isPart ? 'wb-mod-part' : '',
    isNumeric ? 'wb-mod-numeric' : ''
  ]
    .filter(name => name)
    .join(' ');
}

/** What is between two back quotes is to be typed. */
function codeOrText(words: string, place: number): JSX.Element | string {
  return place % 2 ? <code key={place}>{words}</code> : words;
}
