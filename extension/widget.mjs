// Bundle what anywidgets load, each into one file: a run's view, and a cluster's form.
import { build } from 'esbuild';

await build({
  bundle: true,
  define: { 'process.env.NODE_ENV': '"production"' },
  entryPoints: {
    run_widget: 'src/widget.ts',
    cluster_widget: 'src/clusterwidget.tsx'
  },
  format: 'esm',
  jsx: 'transform',
  legalComments: 'none',
  logLevel: 'info',
  minify: true,
  outdir: '../workbench/notebook/static',
  target: 'es2022'
});
