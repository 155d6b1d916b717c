// Ends with 0 where this Node is one that the bundler takes; Debian 12 has 18.
const [major, minor] = process.versions.node.split('.').map(Number);

process.exitCode =
  major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19)
    ? 0
    : 1;
