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

/** By the names that the rules have in the kernel, which has more of them. */
const RULES: {
  [rule in keyof typeof cases]?: (...given: number[]) => string;
} = {
  dollars: amount => dollars(amount),
  hourly: price => hourly(price),
  duration: seconds => duration(seconds),
  number: value => number(value),
  percent_of: percent,
  milliseconds: (seconds, longest) =>
    fixed(1000 * seconds, millisecondPlaces(longest))
};

const all = Object.entries(RULES).flatMap(([name, rule]) =>
  (cases[name as keyof typeof cases] as (number | string)[][]).map(row => ({
    ...{ name, rule },
    given: row.slice(0, -1) as number[],
    text: row[row.length - 1]
  }))
);

describe('one rule for each quantity, here as in the kernel', () => {
  it.each(all)('$name of $given is $text', ({ rule, given, text }) => {
    expect(rule(...given)).toBe(text);
  });

  it('shows of money only nothing as nothing', () => {
    const amounts = Array.from({ length: 18 }, (_, n) => 10 ** (n - 12));

    expect(amounts.map(one => Number(money(one).replace(/,/g, '')))).toEqual(
      amounts.map(one => expect.closeTo(one, 15))
    );
  });
});
