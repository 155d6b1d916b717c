/**
 * The displays of a rank, none of which is trusted: images as images, the rest as text, unless a sanitizing renderer is given.
 */
import type { IDisplayed } from '../protocol';
import { element } from './dom';

/** Shows data of a type that needs to be sanitized; null where it cannot. */
export type Render = (type: string, text: string) => HTMLElement | null;

const RICH = ['text/html', 'text/markdown', 'text/latex'];
const IMAGES = ['image/png', 'image/jpeg', 'image/gif'];
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The content of one place of a rank. */
export function displayed(
  { data, metadata }: IDisplayed,
  render: Render = () => null
): HTMLElement {
  const node = element('div', { class: 'wb-display' });
  node.append(
    rich(data, render) ??
      image(data, metadata) ??
      element('pre', { text: wordsOf(data) })
  );
  return node;
}

function rich(data: IDisplayed['data'], render: Render): HTMLElement | null {
  const type = RICH.find(one => typeof data[one] === 'string');
  return type ? render(type, data[type]) : null;
}

function image(
  data: IDisplayed['data'],
  metadata: IDisplayed['metadata']
): HTMLElement | null {
  const alt = String(data['text/plain'] ?? '');
  for (const type of IMAGES) {
    if (BASE64.test(data[type] ?? '')) {
      const { width, height } = metadata?.[type] ?? {};
      return element('img', {
        ...{ src: `data:${type};base64,${data[type]}`, alt },
        ...{ width: pixels(width), height: pixels(height) }
      });
    }
  }
  const svg = data['image/svg+xml'];
  if (typeof svg === 'string') {
    // As an image it can neither run anything nor fetch anything.
    const src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
    return element('img', { src, alt });
  }
  return null;
}

function wordsOf(data: IDisplayed['data']): string {
  return String(data['text/plain'] ?? Object.values(data)[0] ?? '');
}

function pixels(given: unknown): string | undefined {
  return typeof given === 'number' && given > 0 ? String(given) : undefined;
}
