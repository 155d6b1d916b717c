// jsdom, and what JupyterLab's packages and our own ask of a browser that jsdom lacks.
const { TestEnvironment } = require('jest-environment-jsdom');

class Observer {
  observe() {}
  unobserve() {}
  disconnect() {}
}

// One realm for all binary data: what TextEncoder gives is then an instance of Uint8Array.
const NODES = {
  ...{ fetch, Headers, Request, Response, structuredClone },
  ...{ TextDecoder, TextEncoder, ArrayBuffer, DataView },
  ...{ Int8Array, Int16Array, Int32Array, BigInt64Array },
  ...{ Uint8Array, Uint8ClampedArray, Uint16Array, Uint32Array },
  ...{ BigUint64Array, Float32Array, Float64Array }
};

module.exports = class extends TestEnvironment {
  constructor(...args) {
    super(...args);
    const page = this.global;
    Object.assign(page, NODES, {
      DragEvent: class DragEvent extends page.MouseEvent {},
      IntersectionObserver: Observer,
      ResizeObserver: Observer,
      // React widgets draw when there is time for it.
      requestIdleCallback: act =>
        page.setTimeout(() =>
          act({ didTimeout: false, timeRemaining: () => 50 })
        ),
      matchMedia: query => ({
        matches: false,
        media: query,
        addEventListener() {},
        removeEventListener() {},
        addListener() {}, // uPlot and older libraries
        removeListener() {}
      })
    });
    Object.defineProperty(page.navigator, 'clipboard', { value: {} });
  }
};
