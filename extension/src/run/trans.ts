/**
 * What is needed of JupyterLab's translation bundles, and its stand-in where there are none.
 */

/** A translation bundle of JupyterLab satisfies this. */
export interface ITrans {
  __(msgid: string, ...args: unknown[]): string;
  /** In both forms `%1` is `n`, and `%2` and so on are `args`. */
  _n(singular: string, plural: string, n: number, ...args: unknown[]): string;
}

/** The English text of the sources. */
export const ENGLISH: ITrans = {
  __: fill,
  _n: (singular, plural, n, ...args) =>
    fill(n === 1 ? singular : plural, n, ...args)
};

function fill(text: string, ...args: unknown[]): string {
  return text.replace(/%(\d+)/g, (whole, place) =>
    Number(place) <= args.length ? String(args[Number(place) - 1]) : whole
  );
}
