import cases from '../../../../tests/core/units.json';
import { dollars, hourly } from '../../words';
import {
  duration,
  fixed,
  millisecondPlaces,
  money,
  number,
  percent
} from '../numbers';
import { gigabits, microseconds, sizeText } from '../sizes';

/** By the names that the rules have in the kernel. */
const RULES: {
  [rule in keyof typeof cases]: (...given: number[]) => string;
} = {
  dollars: amount => dollars(amount),
  hourly: price => hourly(price),
  duration: seconds => duration(seconds),
  number: value => number(value),
  microseconds,
  percent_of: percent,
  gbits: gigabits,
  size_text: sizeText,
  milliseconds: (seconds, longest) =>
    fixed(1000 * seconds, millisecondPlaces(longest))
};

const all = Object.entries(cases).flatMap(([rule, list]) =>
  (list as (number | string)[][]).map(row => ({
    rule: rule as keyof typeof cases,
    given: row.slice(0, -1) as number[],
    text: row[row.length - 1]
  }))
);

describe('one rule for each quantity, here as in the kernel', () => {
  it.each(all)('$rule of $given is $text', ({ rule, given, text }) => {
    expect(RULES[rule](...given)).toBe(text);
  });

  it('shows of money only nothing as nothing', () => {
    const amounts = Array.from({ length: 18 }, (_, n) => 10 ** (n - 12));

    expect(amounts.map(one => Number(money(one).replace(/,/g, '')))).toEqual(
      amounts.map(one => expect.closeTo(one, 15))
    );
  });
});
