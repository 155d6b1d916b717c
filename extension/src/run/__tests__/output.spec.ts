/** What ranks write becomes lines, as a terminal shows them. */
import { asPrinted } from '../lines';
import { Output } from '../output';

const texts = (output: Output) => output.lines.map(line => line.text);

describe('asPrinted', () => {
  it.each([
    ['10%\r50%\r100%', '100%'],
    ['done\r', 'done'],
    ['\x1b[32mgreen\x1b[0m', 'green'],
    ['\x1b]0;title\x07text', 'text'],
    ['a\tb\x00c', 'a\tbc'],
    ['\x9b31mred\x9b0m \x9d0;title\x9cend\x7f\x85', 'red end'],
    ['', '']
  ])('of %j is %j', (line, printed) => {
    expect(asPrinted(line)).toBe(printed);
  });
});

describe('Output', () => {
  it('puts pieces to lines, for each rank alone', () => {
    const output = new Output();
    output.add(0, 'stdout', 'one ');
    output.add(1, 'stdout', 'other\n');
    output.add(0, 'stdout', 'line\nrest');

    expect(texts(output)).toEqual(['other', 'one line']);
    expect(output.partial.map(line => line.text)).toEqual(['rest']);
    expect(output.ranks).toEqual([0, 1]);
  });

  it('shows a progress bar as it is now', () => {
    const output = new Output();
    output.add(0, 'stderr', '10%\r');
    output.add(0, 'stderr', '20%\r');

    expect(output.partial.map(line => line.text)).toEqual(['20%']);
  });

  it('keeps the newest, and says that something is missing', () => {
    const output = new Output(100);
    for (let i = 0; i < 50; i++) {
      output.add(0, 'stdout', `line number ${i}\n`);
    }

    expect(texts(output).join('\n').length).toBeLessThanOrEqual(100);
    expect(texts(output).pop()).toBe('line number 49');
    expect(output.isCut).toBe(true);
    expect(output.lines[output.lines.length - 1].number).toBe(49);
  });
});
