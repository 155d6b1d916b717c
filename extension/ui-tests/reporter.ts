/** Says how the tests of a file went as soon as the last is over: a line of JSON that begins with it. */
import { relative } from 'node:path';

import type {
  FullConfig,
  FullResult,
  Reporter,
  Suite,
  TestCase,
  TestError,
  TestResult
} from '@playwright/test/reporter';

const COLOURS = /\x1b\[[\d;]*m/g;

interface IFile {
  spec: string;
  left: number;
  failed: boolean;
  said: string[];
}

export default class FileReporter implements Reporter {
  private readonly files = new Map<string, IFile>();

  onBegin(config: FullConfig, suite: Suite): void {
    for (const { location } of suite.allTests()) {
      const spec = relative(config.rootDir, location.file);
      const file = { spec, left: 0, failed: false, said: [] };
      const known = this.files.get(location.file) ?? file;
      known.left += 1;
      this.files.set(location.file, known);
    }
  }

  onTestEnd(test: TestCase, result: TestResult): void {
    const file = this.files.get(test.location.file)!;
    const seconds = (result.duration / 1000).toFixed(1);
    const name = `${file.spec}:${test.location.line} › ${test.title}`;
    file.said.push(`${result.status.padEnd(8)} ${name} (${seconds}s)`);
    file.said.push(...result.errors.map(text));
    file.failed ||= !test.ok();
    file.left -= 1;
    if (file.left === 0) {
      write(JSON.stringify(file));
    }
  }

  onError(error: TestError): void {
    write(text(error));
  }

  onStdOut(chunk: string | Buffer): void {
    write(chunk.toString());
  }

  onStdErr(chunk: string | Buffer): void {
    write(chunk.toString());
  }

  onEnd({ status }: FullResult): void {
    for (const file of this.files.values()) {
      if (file.left > 0) {
        file.failed = true;
        file.said.push(`${file.left} tests of ${file.spec} did not run`);
        write(JSON.stringify(file));
      }
    }
    write(`Playwright: ${status}`);
  }

  printsToStdio(): boolean {
    return true;
  }
}

function text({ message, stack, value, snippet, location }: TestError): string {
  const at = location ? `at ${location.file}:${location.line}` : '';
  const lines = [stack ?? message ?? value ?? '', at, snippet ?? ''].join('\n');
  return lines.replace(COLOURS, '');
}

function write(line: string): void {
  process.stdout.write(line.endsWith('\n') ? line : `${line}\n`);
}
