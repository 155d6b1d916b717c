import { sparklineLabel, sparklinePath } from '../sparkline';
import { aRun } from './samples';

describe('sparklinePath', () => {
  it('goes from the upper left to the lower right for a falling curve', () => {
    expect(sparklinePath([2, 1, 0], 24, 14)).toBe('M2 2L12 7L22 12');
  });

  it('lies in the middle where all values are the same', () => {
    expect(sparklinePath([3, 3], 24, 14)).toBe('M2 7L22 7');
  });

  it('is interrupted by a gap, and draws a value between two gaps as a dot', () => {
    expect(sparklinePath([0, null, 1, null, 0], 24, 14)).toBe(
      'M2 12L2 12M12 2L12 2M22 12L22 12'
    );
  });

  it('is nothing where nothing was reported', () => {
    expect(sparklinePath([], 24, 14)).toBe('');
    expect(sparklinePath([null], 24, 14)).toBe('');
  });
});

describe('sparklineLabel', () => {
  it('says from where to where the curve goes', () => {
    expect(sparklineLabel(aRun())).toBe('main/loss from 2 to 0.5');
  });

  it('says that there are no values yet', () => {
    expect(sparklineLabel(aRun({ sparkline: [null] }))).toBe('No values yet');
  });
});
