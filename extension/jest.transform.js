// Turns TypeScript and ES modules into what Jest runs. tsc checks the types, not this; it also
// does not lift jest.mock() above the imports.
const crypto = require('crypto');
const esbuild = require('esbuild');

const LOADERS = { '.css': 'empty', '.svg': 'text', '.tsx': 'tsx', '.ts': 'ts' };
const OPTIONS = { format: 'cjs', target: 'node20', sourcemap: 'inline' };

module.exports = {
  process(source, filename) {
    const loader = LOADERS[/\.\w+$/.exec(filename)[0]] ?? 'js';
    return esbuild.transformSync(source, {
      ...OPTIONS,
      loader,
      sourcefile: filename
    });
  },
  getCacheKey(source, filename, options) {
    return crypto
      .createHash('sha256')
      .update([source, filename, esbuild.version, options.configString].join())
      .update(JSON.stringify([LOADERS, OPTIONS]))
      .digest('hex');
  }
};
