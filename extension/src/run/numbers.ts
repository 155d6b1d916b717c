/**
 * Put numbers into text; `workbench/core/units.py` has the same rules.
 */
const formats = new Map<string, Intl.NumberFormat>();

/** A number with its noun: `1 rank`, `2 ranks`. */
export function count(amount: number, noun: string): string {
  return `${integer(amount)} ${noun}${amount === 1 ? '' : 's'}`;
}

/** A count, as in `1,000`. */
export function integer(value: number): string {
  return formatted(Math.round(value), {});
}

/**
 * A value in four significant digits, and what is above a thousand in whole numbers; `nan` when it
 * is none.
 */
export function number(value: number, digits = 4): string {
  if (!Number.isFinite(value)) {
    return 'nan';
  }
  const size = Math.abs(value);
  const isExtreme = size !== 0 && (size < 1e-4 || size >= 1e7);
  const text = formatted(value, {
    ...(size < 10 ** (digits - 1) || isExtreme
      ? { maximumSignificantDigits: digits }
      : { maximumFractionDigits: 0 }),
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
 * The position of a tick of an axis.
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
  return `${integer(Math.floor(100 * share + 1e-9))} %`;
}

/**
 * An amount of money, without its sign: cents, and below ten cents two significant digits, so that
 * only nothing is `0.00`.
 */
export function money(amount: number): string {
  const places = Math.max(2, 1 - Math.floor(Math.log10(amount || 1)));
  return formatted(amount, {
    minimumFractionDigits: 2,
    maximumFractionDigits: Math.min(20, places)
  });
}

/** Decimal places of milliseconds, such that the longest has three digits. */
export function millisecondPlaces(longest: number): number {
  return Math.max(0, 2 - Math.floor(Math.log10(1000 * longest || 100)));
}

/**
 * A length of time in the largest unit, to a tenth below ten of it, as in `5.6 ms` or `41 s`; from
 * a minute on in two units, without seconds from ten minutes on.
 */
export function duration(seconds: number): string {
  if (seconds > 0 && seconds < 999.5e-6) {
    return `${tenths(1e6 * seconds)} µs`;
  }
  if (seconds > 0 && seconds < 0.9995) {
    return `${tenths(1000 * seconds)} ms`;
  }
  if (seconds < 59.5) {
    return `${seconds > 0 ? tenths(seconds) : '0'} s`;
  }
  const [minutes, rest] = parted(Math.round(seconds));
  if (minutes < 10) {
    return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
  }
  const [hours, left] = parted(Math.round(seconds / 60));
  if (!hours) {
    return `${left} min`;
  }
  return left ? `${integer(hours)} h ${left} min` : `${integer(hours)} h`;
}

function tenths(amount: number): string {
  return fixed(amount, amount < 9.95 ? 1 : 0);
}

/** Whole sixties, and what is left of them. */
function parted(amount: number): [number, number] {
  return [Math.floor(amount / 60), amount % 60];
}

function formatted(value: number, options: Intl.NumberFormatOptions): string {
  const key = JSON.stringify(options);
  let format = formats.get(key);
  if (!format) {
    format = new Intl.NumberFormat('en', options);
    formats.set(key, format);
  }
  return format.format(value);
}

/** A place on the axis of a chart, in words: an iteration, or seconds since the run started. */
export function placeText(at: number, isTime: boolean | undefined): string {
  return isTime ? `after ${duration(at)}` : `iteration ${integer(at)}`;
}

/** Seconds as on a clock: `1:05` are minutes and seconds, `2:00:00` has hours too. */
export function clockTime(seconds: number): string {
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60)];
  const two = (value: number) => String(value).padStart(2, '0');
  return hours
    ? `${hours}:${two(minutes % 60)}:${two(whole % 60)}`
    : `${minutes}:${two(whole % 60)}`;
}
