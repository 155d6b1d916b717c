// Bundle src/widget.ts into the one file that an anywidget loads, where the extension is not.
import { existsSync } from 'node:fs';
import { build } from 'esbuild';

const entry = 'src/widget.ts';
if (!existsSync(entry)) {
  console.log(`There is no ${entry} yet: no widget to bundle.`);
  process.exit(0);
}
await build({
  bundle: true,
  entryPoints: [entry],
  format: 'esm',
  jsx: 'transform',
  legalComments: 'none',
  logLevel: 'info',
  minify: true,
  outfile: '../workbench/notebook/static/run_widget.js',
  target: 'es2022'
});
