/**
 * Keep the keys that controls of ours need from JupyterLab, whose shortcuts would take them.
 */

const SUPPRESS = 'data-lm-suppress-shortcuts';

/**
 * Have plain keys go to the controls within `node`; those with Ctrl or ⌘ stay JupyterLab's.
 *
 * @returns what ends that
 */
export function keepKeys(node: HTMLElement): () => void {
  const keep = () => node.setAttribute(SUPPRESS, 'true');
  const isModifier = (event: KeyboardEvent) =>
    event.key === 'Control' || event.key === 'Meta';
  node.addEventListener('keydown', event => {
    // It comes before the key that it modifies.
    if (isModifier(event)) {
      node.removeAttribute(SUPPRESS);
    }
  });
  node.addEventListener('keyup', event => {
    if (isModifier(event)) {
      keep();
    }
  });
  node.addEventListener('focusin', keep);
  window.addEventListener('blur', keep);
  keep();
  return () => window.removeEventListener('blur', keep);
}
