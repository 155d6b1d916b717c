/**
 * Put numbers into text, in the language of the page.
 */

const formats = new Map<string, Intl.NumberFormat>();

/** A count, as in `1,000`. */
export function integer(value: number): string {
  return formatted(Math.round(value), {});
}

/** A value with a few significant digits; `nan` when it is none. */
export function number(value: number, digits = 4): string {
  if (!Number.isFinite(value)) {
    return 'nan';
  }
  const size = Math.abs(value);
  const isExtreme = size !== 0 && (size < 1e-4 || size >= 1e7);
  const text = formatted(value, {
    maximumSignificantDigits: digits,
    notation: isExtreme ? 'scientific' : 'standard'
  });
  return isExtreme ? text.replace('E', 'e') : text;
}

/** A value with as many digits behind the point, whatever they are. */
export function fixed(value: number, places: number): string {
  const digits = Math.min(6, Math.max(0, places));
  return formatted(value, {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits
  });
}

/** Digits behind the point that a step as small as that needs; two of them for 0.25. */
function placesOf(step: number): number {
  const places = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const steps = step * 10 ** places;
  return places + (Math.abs(steps - Math.round(steps)) > 1e-6 ? 1 : 0);
}

/**
 * Where a tick of an axis stands.
 *
 * @param step - from one tick to the next
 */
export function tick(value: number, step: number): string {
  const size = Math.abs(value);
  const digits = Math.ceil(Math.log10(Math.max(size, step) / step) + 1e-9) + 1;
  if (size >= 10_000 && digits <= 4) {
    return formatted(value, {
      notation: 'compact',
      maximumSignificantDigits: digits
    });
  }
  if (step < 1e-4) {
    return number(value, Math.min(17, digits));
  }
  const places = placesOf(step);
  return formatted(value, {
    minimumFractionDigits: size < 1e-12 ? 0 : places,
    maximumFractionDigits: places
  });
}

/** A share of one in percent, rounded down: only what is done is 100 %. */
export function percent(share: number): string {
  return formatted(Math.floor(100 * share + 1e-9) / 100, { style: 'percent' });
}

/** A length of time as a clock shows it, as in `0:41` or `1:02:03`. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const two = (part: number) => String(part % 60).padStart(2, '0');
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${minutes}:${two(whole)}`
    : `${Math.floor(minutes / 60)}:${two(minutes)}:${two(whole)}`;
}

function formatted(value: number, options: Intl.NumberFormatOptions): string {
  const language = document.documentElement.lang.replace('_', '-');
  const key = language + JSON.stringify(options);
  let format = formats.get(key);
  if (!format) {
    format = new Intl.NumberFormat(known(language), options);
    formats.set(key, format);
  }
  return format.format(value);
}

function known(language: string): string | undefined {
  try {
    return Intl.getCanonicalLocales(language)[0];
  } catch {
    return undefined;
  }
}
