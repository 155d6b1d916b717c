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
  let focused: Element | null = null;
  // JupyterLab looks at what has the focus first, and at what is around it too late.
  const keep = () => focused?.setAttribute(SUPPRESS, 'true');
  const release = () => focused?.removeAttribute(SUPPRESS);
  const isModifier = (event: KeyboardEvent) =>
    event.key === 'Control' || event.key === 'Meta';
  node.addEventListener('focusin', event => {
    release();
    focused = event.target as Element;
    keep();
  });
  node.addEventListener('keydown', event => {
    // It comes before the key that it modifies.
    if (isModifier(event)) {
      release();
    }
  });
  node.addEventListener('keyup', event => {
    if (isModifier(event)) {
      keep();
    }
  });
  window.addEventListener('blur', keep);
  return () => window.removeEventListener('blur', keep);
}
