// Count what a page receives over its WebSockets, how far its frames are apart, and in how many of
// them a picture was drawn anew: on a canvas, as the path of an SVG, or as an image. Of several
// canvases the one that is drawn most often counts.
(() => {
  const fresh = () => ({ bytes: 0, frames: 0, gap: 0, drawn: new Map() });
  const changed = new Set(); // canvases, and the names of other kinds
  let seen = fresh();
  let last = 0;

  window.WebSocket = class extends WebSocket {
    constructor(...words) {
      super(...words);
      this.addEventListener('message', ({ data }) => {
        seen.bytes += data.byteLength ?? data.size ?? data.length; // all that is sent is ASCII
      });
    }
  };

  const { clearRect } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.clearRect = function (...where) {
    changed.add(this.canvas);
    return clearRect.apply(this, where);
  };

  const note = node => {
    if (node.nodeName === 'IMG') {
      changed.add('image');
    } else if (node.nodeName === 'path' && node.getAttribute('d')?.length > 1000) {
      changed.add('path'); // as long as only curves are
    }
  };
  new MutationObserver(mutations => {
    for (const { type, target, addedNodes } of mutations) {
      if (!target.closest?.('.jp-OutputArea')) {
        continue;
      }
      if (type === 'attributes') {
        note(target);
      }
      for (const node of addedNodes) {
        note(node);
        node.querySelectorAll?.('path, img').forEach(note);
      }
    }
  }).observe(document, {
    attributeFilter: ['d', 'src'],
    childList: true,
    subtree: true
  });

  const onFrame = moment => {
    seen.frames += 1;
    seen.gap = Math.max(seen.gap, last ? moment - last : 0);
    last = moment;
    changed.forEach(one => seen.drawn.set(one, (seen.drawn.get(one) ?? 0) + 1));
    changed.clear();
    requestAnimationFrame(onFrame);
  };
  requestAnimationFrame(onFrame);

  // Say what there was since it was asked last.
  window.takeSeen = () => {
    const { bytes, frames, gap, drawn } = seen;
    const often = [...drawn].filter(([one]) => typeof one !== 'string').map(([, count]) => count);
    const [path, image] = ['path', 'image'].map(kind => drawn.get(kind) ?? 0);
    seen = fresh();
    return { bytes, frames, gap, canvas: Math.max(0, ...often), path, image };
  };
})();
