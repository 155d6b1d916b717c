/**
 * Put the pieces that ranks write together to lines, each as a terminal shows it.
 *
 * `workbench/view/transcript.py` does the same for the notebook.
 */

// The colours and movements of a terminal, and characters that are not printed.
const ESCAPES =
  // eslint-disable-next-line no-control-regex -- these are what is looked for
  /(?:\x1b\[|\x9b)[0-9;?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** Takes in what one rank writes, piece by piece, and gives lines. */
export class LineReader {
  /**
   * Take in a piece of output and return the lines that it completes.
   *
   * @param limit - characters that are kept of a line while it has no end; the newest are
   */
  feed(text: string, limit: number): string[] {
    const whole = (this._partial + text).split('\n');
    this._partial = lastStage(whole.pop() ?? '').slice(-limit);
    return whole.map(asPrinted);
  }

  /** The line that has no end yet. */
  get partial(): string {
    return asPrinted(this._partial);
  }

  private _partial = '';
}

/** What a terminal shows of `line`: the last state of a progress bar, no colours. */
export function asPrinted(line: string): string {
  return lastStage(line).replace(ESCAPES, '');
}

/** The text after the last carriage return that has text after it. */
function lastStage(line: string): string {
  const end = line.replace(/\r+$/, '').length;
  return line.slice(line.lastIndexOf('\r', end - 1) + 1);
}
