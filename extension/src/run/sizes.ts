/**
 * Say bytes, bandwidths and latencies as people do.
 */
import { number } from './numbers';

const UNITS: [unit: string, size: number][] = [
  ['TB', 1e12],
  ['GB', 1e9],
  ['MB', 1e6],
  ['kB', 1e3]
];

/** Gbit/s of a bandwidth in bytes a second. */
export function gigabits(bandwidth: number): string {
  return number(8e-9 * bandwidth, 3);
}

/** Microseconds, without a unit. */
export function microseconds(seconds: number): string {
  return number(1e6 * seconds, 3);
}

/** A number of bytes, as in `4 MB`. */
export function sizeText(nbytes: number): string {
  const [unit, size] = UNITS.find(([, size]) => nbytes >= 0.9995 * size) ?? [
    'B',
    1
  ];
  return `${number(nbytes / size, 3)} ${unit}`;
}

/** How fast bytes go somewhere, and after how long, as in `3.1 GB/s, 2 µs`. */
export function rateText(bandwidth: number, latency: number): string {
  const rate = `${sizeText(bandwidth)}/s`;
  return latency ? `${rate}, ${microseconds(latency)} µs` : rate;
}
