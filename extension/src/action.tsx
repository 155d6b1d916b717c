/**
 * A button of a cluster's form.
 */
import * as React from 'react';

/** A button that stays in the tab order while it cannot be pressed, so that focus is never lost. */
export function Action(props: {
  label: string;
  /** What it does. */
  title: string;
  /** Why it cannot be pressed, in place of the title; nothing where it can. */
  refusal?: string;
  isBusy?: boolean;
  kind?: 'main' | 'warn';
  act: () => void;
}): JSX.Element {
  const { label, title, refusal, isBusy, kind, act } = props;
  const isEnabled = !refusal && !isBusy;
  const isKind = kind === 'warn' || (kind === 'main' && !refusal);
  return (
    <button
      type="button"
      className={`wb-action${isKind ? ` wb-mod-${kind}` : ''}`}
      title={refusal || title}
      aria-disabled={!isEnabled}
      onClick={() => isEnabled && act()}
    >
      {label}
    </button>
  );
}
