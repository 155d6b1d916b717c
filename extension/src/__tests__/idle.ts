/**
 * Give React widgets what jsdom lacks.
 */
globalThis.requestIdleCallback ??= act =>
  window.setTimeout(() => act({ didTimeout: false, timeRemaining: () => 50 }));
