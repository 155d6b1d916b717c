/**
 * Make elements in few words.
 */

/** What an element gets: its class, its text, and attributes. */
interface IProperties {
  class?: string;
  text?: string;
  [attribute: string]: string | boolean | undefined;
}

/** Make an element with children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: IProperties = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'text') {
      made.textContent = String(value);
    } else if (value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? '' : value);
    }
  }
  made.append(...children);
  return made;
}

/** Split a sentence at its code, which is between backticks. */
export function withCode(sentence: string): (Node | string)[] {
  return sentence
    .split('`')
    .map((text, number) => (number % 2 ? element('code', { text }) : text));
}

/** Set a text only where it differs, which spares the browser a layout. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Set an attribute only where it differs. */
export function setAttribute(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}
