import { AboutRun } from '../aboutrun';

describe('AboutRun', () => {
  const parts = { arguments: '--lr 0.2', 'git commit': '1a2b3c' };

  async function opened(ask: () => Promise<{ parts: object; source: string }>) {
    const about = new AboutRun(ask as never);
    about.node.open = true;
    about.node.dispatchEvent(new Event('toggle'));
    await new Promise(resolve => setTimeout(resolve));
    return about.node;
  }

  it('asks when it is opened, and shows each part and the source', async () => {
    const ask = jest.fn(async () => ({ parts, source: 'a = 1' }));

    const node = await opened(ask);
    node.dispatchEvent(new Event('toggle'));

    expect(ask).toHaveBeenCalledTimes(1);
    expect(node.querySelector('summary')?.textContent).toBe('About this run');
    expect(
      [...node.querySelectorAll('dt')].map(one => one.textContent)
    ).toEqual(['Arguments', 'Git commit']);
    expect(node.querySelector('dd')?.textContent).toBe('--lr 0.2');
    expect(node.querySelector('pre')?.textContent).toBe('a = 1');
  });

  it('says why there is nothing to show', async () => {
    const node = await opened(() => Promise.reject(new Error('No server.')));

    expect(node.textContent).toContain('No server.');
  });
});
