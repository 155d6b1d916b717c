/**
 * Show what was measured between nodes: what stands out, the picture that the notebook keeps too,
 * and its figures in tables.
 */
import type { ISurvey, ITable } from '../protocol';
import { element } from './dom';

export class SurveyView {
  constructor() {
    this.node.setAttribute('aria-label', 'Bandwidth');
    this.node.hidden = true;
  }

  readonly node = element('div', {
    class: 'wb-survey wb-section',
    role: 'group'
  });

  show(survey: ISurvey | null): void {
    this.node.hidden = !survey;
    if (survey && survey !== this._shown) {
      this._shown = survey;
      this.node.replaceChildren(
        element('p', { class: 'wb-note', text: survey.heading }),
        ...survey.remarks.map(text =>
          element('p', { class: 'wb-verdict', text })
        ),
        ...drawing(survey),
        ...survey.tables.map(folded)
      );
    }
  }

  private _shown: ISurvey | null = null;
}

function drawing({ picture, description }: ISurvey): HTMLElement[] {
  if (!picture) {
    return [];
  }
  const src = `data:image/png;base64,${picture}`;
  const image = element('img', { src, alt: 'Links and allreduces' });
  const said = element('figcaption', { text: description });
  return [element('figure', {}, image, said)];
}

/** A table that can be opened to see its figures. */
function folded({ title, columns, rows, is_open }: ITable): HTMLElement {
  const head = columns.map(text => element('th', { scope: 'col', text }));
  const body = rows.map(([name, ...amounts]) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row', text: name }),
      ...amounts.map(text => element('td', { text }))
    )
  );
  return element(
    'details',
    { open: !!is_open },
    element('summary', { text: title }),
    element(
      'table',
      { class: 'wb-values', 'aria-label': title },
      element('thead', {}, element('tr', {}, ...head)),
      element('tbody', {}, ...body)
    )
  );
}
