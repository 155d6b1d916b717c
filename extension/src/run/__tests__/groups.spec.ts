/** Curves share axes as the server says what they measure. */
import { groupsOf } from '../groups';
import { Series } from '../series';
import { buckets } from './samples';

function aCurve(
  name: string,
  quantity: string,
  family: 'loss' | 'share' | 'other',
  is_validation = false
): Series {
  const made = new Series(name);
  made.apply(buckets([0], { name, quantity, family, is_validation }));
  return made;
}

it('puts losses first, then shares, then the rest by name', () => {
  const groups = groupsOf([
    aCurve('lr', 'lr', 'other'),
    aCurve('main/accuracy', 'accuracy', 'share'),
    aCurve('aux', 'aux', 'other'),
    aCurve('main/loss', 'loss', 'loss')
  ]);

  expect(groups.map(group => group.quantity)).toEqual([
    ...['loss', 'accuracy', 'aux', 'lr']
  ]);
});

it('puts training before validation on the same axes, each name once', () => {
  const groups = groupsOf([
    aCurve('a/validation', 'loss', 'loss', true),
    aCurve('b/main', 'loss', 'loss'),
    aCurve('b/main', 'loss', 'loss')
  ]);

  expect(groups).toEqual([
    { quantity: 'loss', family: 'loss', names: ['b/main', 'a/validation'] }
  ]);
});
