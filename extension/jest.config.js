// These packages are ES modules: they go through esbuild, as our own sources do.
const modules = [
  '@codemirror',
  '@jupyter',
  '@jupyterlab',
  '@lumino',
  '@microsoft',
  '@rjsf',
  'exenv-es6',
  'lib0',
  'lodash-es',
  'nanoid',
  'uplot',
  'vscode-ws-jsonrpc',
  'y-protocols',
  'y-websocket',
  'yjs'
];

module.exports = {
  testEnvironment: '<rootDir>/jest.environment.js',
  roots: ['<rootDir>/src'],
  testMatch: ['**/__tests__/**/*.spec.{ts,tsx}'],
  transform: { '\\.([cm]?js|tsx?|css|svg)$': '<rootDir>/jest.transform.js' },
  transformIgnorePatterns: [
    `/node_modules/(?!(?:${modules.join('|')})/).*\\.[cm]?js$`
  ]
};
